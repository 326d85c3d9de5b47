# Makes the params that train.ck starts from. The gradient of sum(W * W0) with respect to W is W0, and the gradient of
# an unused param is zeros. The input does not matter:
#
#     echo 0 | ckptc grad --grads net.npz -o /dev/null start.ck
param K: f32[6,1,3,3] = zeros
param W: f32[6,3] = zeros
param b: f32[3] = zeros
const K0: f32[6,1,3,3] = normal(0.5, 1)
const W0: f32[6,3] = normal(0.5, 2)
use (sum(K * K0) + sum(W * W0))
