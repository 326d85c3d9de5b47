# A perceptron whose weights lie in one vector, as a program of optimisation keeps them.
input x: f64[*,4]
input y: f64[*,1]
param p: f64[96]
let hidden = tanh(x @ reshape(p[:64], 4, 16) + p[64:80])
use (mse(hidden @ reshape(p[80:], 16, 1), y))
