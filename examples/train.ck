# A perceptron that learns the product of two numbers. A row holds both and their product.
# start.ck makes net.npz, which holds the params. A training step adds to them their
# gradients times the number in rate.npy, which is negative:
#
#     ckptc grad --cotangent rate.npy --grads net.npz --accumulate -o /dev/null train.ck
input rows: f64[*,3]
param W: f64[2,8] = load("net.npz", "W")
param b: f64[8] = load("net.npz", "b")
param V: f64[8,1] = load("net.npz", "V")
slice axis=1 stop=2
matmul W; add b; tanh
matmul V
mse { use rows; slice axis=1 start=2 }
