# Cross entropy over sequences. Tokens of class -100 do not count.
input h: f64[*,5,7]
param w: f64[7,7]
const t: i64[3,5]
use (cross_entropy(h @ w, t, ignore=-100))
