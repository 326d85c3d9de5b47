# A recurrent network: each row of the input and the state before make the state after. ys is the array of all states.
input xs: f64[*,3]
param W: f64[3,3] = [[0.5, 0.1, 0], [-0.2, 0.6, 0.3], [0, -0.4, 0.7]]
const zero: f64[3] = zeros
use zero
for x in xs {
    use (tanh(. @ W + x))
    collect ys
}
use ys
