# One head of self-attention over a sequence of vectors: softmax(q k' / sqrt(d)) v.
input x: f64[*,4]
param Wq: f64[4,4] = normal(0.5, 1)
param Wk: f64[4,4] = normal(0.5, 2)
param Wv: f64[4,4] = normal(0.5, 3)
let q = x @ Wq
let k = x @ Wk
let weights = softmax(q @ transpose(k) / 4^0.5)
use (weights @ (x @ Wv))
