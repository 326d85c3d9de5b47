# A recurrent network and its state after each step.
input xs: f64[*,4,8]
param W: f64[8,8]
const zero: f64[4,8] = zeros
use zero
for x in xs {
    use (tanh(. @ W + x))
    collect ys
}
use ys
