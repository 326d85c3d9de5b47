# A long short-term memory, with torch's weights and order of gates: i, f, g, o.
input xs: f64[6,3,4]
param weight_ih: f64[20,4]
param weight_hh: f64[20,5]
param bias_ih: f64[20]
param bias_hh: f64[20]
const zero: f64[3,5] = zeros
use zero; name c
for x in xs {
    let gates = linear(x, weight_ih) + bias_ih + linear(., weight_hh) + bias_hh
    let c = sigmoid(gates[:, 5:10]) * c + sigmoid(gates[:, :5]) * tanh(gates[:, 10:15])
    use (sigmoid(gates[:, 15:]) * tanh(c))
    collect ys
}
use ys
