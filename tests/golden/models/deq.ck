# A deep equilibrium model: its hidden state is the fixed point of a layer.
input x: f64[*,4]
param W: f64[4,4]
param U: f64[4,4]
let injected = x @ U
use (0 * x)
fixed_point max=500 tol=1e-14 { use (tanh(. @ W + injected)) }
