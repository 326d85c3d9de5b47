# The loss of a discriminator: samples are real, or made from noise.
input real: f64[*,5]
input noise: f64[*,3]
param g1: f64[3,6]
param g2: f64[6,5]
param d1: f64[5,6]
param d2: f64[6,1]
def judge() { use (leaky_relu(. @ d1, 0.2) @ d2) }
use (mean(softplus(-judge(real)) + softplus(judge(tanh(noise @ g1) @ g2))))
