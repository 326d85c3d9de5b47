# A step of Adam: new weights, and the new moments as outputs.
input w: f64[96]
input g: f64[96]
input m: f64[96]
input v: f64[96]
const t: f64[]
let momentum = 0.9 * m + 0.1 * g
let spread = 0.999 * v + 0.001 * g^2
output momentum, spread
use (w - 0.01 * (momentum / (1 - 0.9^t)) / (sqrt(spread / (1 - 0.999^t)) + 1e-8))
