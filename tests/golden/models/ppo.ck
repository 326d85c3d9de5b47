# Proximal policy optimisation: the clipped surrogate.
input s: f64[*,3]
param w: f64[3,4]
const act: i64[6]
const adv: f64[6]
const old: f64[6]
let taken = take_along(log_softmax(s @ w), reshape(act, -1, 1), axis=1)
let ratio = exp(reshape(taken, -1) - old)
use (-mean(min(ratio * adv, clip(ratio, 0.8, 1.2) * adv)))
