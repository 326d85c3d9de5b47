# Two inputs of different rows, each through a layer of its own.
input a: f64[*,3]
input b: f64[*,5]
param wa: f64[3,2]
param wb: f64[5,2]
use (sum(concat(tanh(a @ wa), sigmoid(b @ wb), axis=1)^2, axis=1))
