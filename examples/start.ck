# Draws the params that train.ck starts from. The input does not matter:
#
#     echo 0 | ckptc run --to npy -o K=K.npy -o W=W.npy -o b=b.npy start.ck
const K0: f32[6,1,3,3] = normal(0.5, 1)
const W0: f32[6,3] = normal(0.5, 2)
const b0: f32[3] = zeros
output (K0) as K, (W0) as W, (b0) as b
