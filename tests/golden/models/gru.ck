# A gated recurrent unit, with torch's weights and order of gates: r, z, n.
input xs: f64[3,6,4]
param weight_ih: f64[15,4]
param weight_hh: f64[15,5]
param bias_ih: f64[15]
param bias_hh: f64[15]
const zero: f64[3,5] = zeros
let steps = transpose(xs, axes=[1,0,2])
use zero
for x in steps {
    let a = linear(x, weight_ih) + bias_ih
    let b = linear(., weight_hh) + bias_hh
    let r = sigmoid(a[:, :5] + b[:, :5])
    let z = sigmoid(a[:, 5:10] + b[:, 5:10])
    let n = tanh(a[:, 10:] + r * b[:, 10:])
    use ((1 - z) * n + z * .)
    collect ys
}
use (transpose(ys, axes=[1,0,2]))
