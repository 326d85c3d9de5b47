# A block of Llama: RMS norms, rotary positions, two query heads for each key, a gated feed-forward layer.
input x: f64[*,5,16]
param n1: f64[16]
param wq: f64[16,16]
param wk: f64[8,16]
param wv: f64[8,16]
param wo: f64[16,16]
param n2: f64[16]
param w1: f64[24,16]
param w2: f64[16,24]
param w3: f64[24,16]
const position: f64[5,1] = [[0], [1], [2], [3], [4]]
const past: f64[5,5] = tril
let half = position * 10000^([0, -0.5])
let angle = concat(half, half, axis=1)
def rotate() { use (. * cos(angle) + concat(-.[..., 2:], .[..., :2], axis=-1) * sin(angle)) }
def heads(W, per) { linear W; reshape -1 5 2 per 4; transpose axes=[0,2,3,1,4] }
let a = rmsnorm(x, eps=1e-6) * n1
let q = rotate(heads(a, wq, 2))
let k = rotate(heads(a, wk, 1))
let scores = q @ transpose(k, axes=[0,1,2,4,3]) / 2
let mixed = softmax(where(past, scores, -1e30)) @ heads(a, wv, 1)
use (x + linear(reshape(transpose(mixed, axes=[0,3,1,2,4]), -1, 5, 16), wo))
let b = rmsnorm(., eps=1e-6) * n2
use (. + linear(silu(linear(b, w1)) * linear(b, w3), w2))
