# The loss of a variational autoencoder.
input x: f64[*,7]
param e1: f64[7,6]
param e2: f64[6,6]
param d1: f64[3,6]
param d2: f64[6,7]
const eps: f64[4,3]
let q = relu(x @ e1) @ e2
let mu = q[:, :3]
let logvar = q[:, 3:]
let logits = relu((mu + eps * exp(logvar / 2)) @ d1) @ d2
let surprise = sum(softplus(logits) - logits * x)
let distance = -0.5 * sum(1 + logvar - mu^2 - exp(logvar))
use (surprise + distance)
