# Heat in a plate of varying conductivity, closed at its edges. Policies cut between the steps.
input u: f64[12,16]
param k: f64[12,16]
let down = (k[1:] + k[:-1]) / 2
let right = (k[:, 1:] + k[:, :-1]) / 2
def step() {
    let p = down * (.[1:] - .[:-1])
    let q = right * (.[:, 1:] - .[:, :-1])
    use (. + 0.1 * (pad(p, 0, 1) - pad(p, 1, 0) + pad(q, 0, 1, axis=1) - pad(q, 1, 0, axis=1)))
}
repeat 30 step
use (sum(.^2))
