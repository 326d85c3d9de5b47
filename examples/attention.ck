# One head of self-attention over a sequence of vectors, softmax(q k' / sqrt(d)) v.
# Blocks see the current value and x stays the tokens, so q k' = x Wq (x Wk)' is the
# tokens times a block on the tokens, and p (x Wv) is p x Wv.
input x: f64[*,4]
param Wq: f64[4,4] = normal(0.5, 1)
param Wk: f64[4,4] = normal(0.5, 2)
param Wv: f64[4,4] = normal(0.5, 3)
matmul { matmul Wk; transpose; dot Wq }
name scores
div (4^0.5)
softmax axis=-1
name weights
matmul x
matmul Wv
