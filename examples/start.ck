# Makes the params that train.ck starts from. The gradient of sum(W * W0) with respect to W
# is W0, and the gradient of an unused param is zeros. The input does not matter:
#
#     echo 0 | ckptc grad --grads net.npz -o /dev/null start.ck
param W: f64[2,8] = zeros
param b: f64[8] = zeros
param V: f64[8,1] = zeros
const W0: f64[2,8] = normal(1, 1)
const V0: f64[8,1] = normal(0.5, 2)
use W; mul W0; sum
add { use V; mul V0; sum }
