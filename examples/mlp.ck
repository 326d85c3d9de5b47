# A perceptron of two hidden layers on rows of four numbers. Seeds make the weights, so the
# network is the same everywhere.
input x: f64[*,4]
param W1: f64[4,8] = normal(0.5, 1)
param b1: f64[8] = zeros
param W2: f64[8,8] = normal(0.35, 2)
param b2: f64[8] = zeros
param W3: f64[8,2] = normal(0.35, 3)

def layer(W, b) { use (tanh(. @ W + b)) }

let h1 = layer(x, W1, b1)
let h2 = layer(h1, W2, b2)
use (h2 @ W3)
