# A recurrent network. A cell passes its state and the loss of all states so far.
input xs: f64[*,4,8]
param W: f64[8,8]
const zero: f64[4,8] = zeros
let h = zero
let loss = 0
def cell(x) {
    let next = tanh(h @ W + x)
    export next as h, (loss + sum(next^2)) as loss
}
for x in xs { cell x }
use loss
