# A feed-forward layer with dropout, beside its input.
input x: f64[*,4,6]
param w1: f64[6,6]
param w2: f64[6,6]
let hidden = dropout(gelu(layernorm(x) @ w1), 0.3, seed=5)
use (x + dropout(hidden @ w2, 0.2, seed=5))
