# du/dt = -a u^3 as in implicit.ck, by the derivative of eight of Newton's iterations.
input x: f64[5]
param a: f64[5]
def step() {
    let old = .
    repeat 8 { use (. - (. + 0.1 * a * .^3 - old) / (1 + 0.3 * a * .^2)) }
}
repeat 10 step
use (sum(.^2))
