# Ten steps of the implicit Euler method for du/dt = -a u^3. Newton's iteration solves each, and the derivative of its
# solution is implicit.
input x: f64[5]
param a: f64[5]
def step() {
    let old = .
    fixed_point max=50 tol=1e-14 { use (. - (. + 0.1 * a * .^3 - old) / (1 + 0.3 * a * .^2)) }
}
repeat 10 step
use (sum(.^2))
