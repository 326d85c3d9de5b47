# Skip-grams with negative sampling. A row has a word, a word beside it, and two words that are not.
input ids: i64[*,4]
param win: f64[9,4]
param wout: f64[9,4]
let score = sum(take(ids[:, :1], win) * take(ids[:, 1:], wout), axis=2)
use (mean(sum(softplus(score * ([-1, 1, 1])), axis=1)))
