# The equation of Kuramoto and Sivashinsky, its linear and its nonlinear part as matrices of a spectral method.
input u: f64[32]
const A: f64[32,32]
const B: f64[32,32]
def step() { use (. @ A + .^2 @ B) }
repeat 60 step
use (mean(.^2))
