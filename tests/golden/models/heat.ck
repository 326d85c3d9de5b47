# Heat in a rod of varying conductivity, closed at both ends.
input u: f64[32]
param k: f64[32]
let face = (k[1:] + k[:-1]) / 2
repeat 50 {
    let q = face * (.[1:] - .[:-1])
    use (. + 0.2 * (pad(q, 0, 1) - pad(q, 1, 0)))
}
use (sum(.^2))
