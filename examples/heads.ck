# Self-attention with two heads over three tokens of four numbers, a sequence a row. Queries,
# keys and values are all made of the tokens.
input rows: f64[*,12]
param Wq: f64[4,4] = normal(0.5, 1)
param Wk: f64[4,4] = normal(0.5, 2)
param Wv: f64[4,4] = normal(0.5, 3)
param Wo: f64[4,4] = normal(0.5, 4)
def heads(W) { use (transpose(reshape(. @ W, -1, 3, 2, 2), axes=[0,2,1,3])) }
let tokens = reshape(rows, -1, 3, 4)
let scores = heads(tokens, Wq) @ transpose(heads(tokens, Wk), axes=[0,1,3,2])
let weights = softmax(scores / 2^0.5)
let mixed = transpose(weights @ heads(tokens, Wv), axes=[0,2,1,3])
use (tokens + reshape(mixed, -1, 3, 4) @ Wo)
reshape -1 12
