# One head of self-attention over a sequence of vectors, softmax(q k' / sqrt(d)) v.
# x names the tokens throughout. A block works on the current value, which is the tokens
# at first. So q k' is x Wq (x Wk)', the tokens times a block; and p (x Wv) is p x Wv.
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
