# Self-attention with two heads over three tokens of four numbers, a sequence a row. Queries,
# keys and values are all made of the tokens. `use` makes the tokens current again in a block.
input rows: f64[*,12]
param Wq: f64[4,4] = normal(0.5, 1)
param Wk: f64[4,4] = normal(0.5, 2)
param Wv: f64[4,4] = normal(0.5, 3)
param Wo: f64[4,4] = normal(0.5, 4)
def heads(W) { matmul W; reshape -1 3 2 2; transpose axes=[0,2,1,3] }
reshape -1 3 4; name tokens
heads Wq
matmul { use tokens; heads Wk; transpose axes=[0,1,3,2] }
div (2^0.5); softmax; name weights
matmul { use tokens; heads Wv }
transpose axes=[0,2,1,3]; reshape -1 3 4
matmul Wo
add tokens
reshape -1 12
