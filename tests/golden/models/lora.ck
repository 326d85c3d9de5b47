# A frozen layer, and an update of low rank.
input x: f64[*,6]
const W: f64[5,6]
const b: f64[5]
param A: f64[2,6]
param B: f64[5,2]
use (linear(x, W) + b + linear(linear(x, A), B) * (16 / 2))
