# Attention over the edges of a graph: each node weighs the nodes that have an edge to it.
input x: f64[7,4]
const src: i64[12]
const dst: i64[12]
param w: f64[4,5]
param al: f64[5]
param ar: f64[5]
let h = x @ w
let from = take(src, h)
let a = exp(leaky_relu(from @ al + take(dst, h) @ ar, 0.2))
let share = a / take(dst, scatter_add(a, dst, 7))
use (scatter_add(share[:, None] * from, dst, 7))
