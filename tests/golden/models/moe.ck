# A mixture of experts: the one with the largest gate counts.
input x: f64[*,4]
param wg: f64[4,3]
param w1: f64[3,4,6]
param w2: f64[3,6,4]
let gate = softmax(x @ wg)
let chosen = gate * one_hot(argmax(gate, axis=1), 3)
let experts = relu(x @ w1) @ w2
use (sum(experts * reshape(transpose(chosen), 3, -1, 1), axis=0))
