# A graph convolutional network that classifies nodes. A has the weights of the edges.
input x: f64[7,4]
const A: f64[7,7]
const labels: i64[7]
param w1: f64[4,5]
param w2: f64[5,3]
let hidden = relu(A @ x @ w1)
use (cross_entropy(A @ hidden @ w2, labels))
