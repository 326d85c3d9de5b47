# Variational assimilation with Lorenz's model of 1963: the distances of the start from the background, and of its path
# from observations.
input x: f64[3]
param L: f64[3,3]
const P: f64[3,3]
const Q: f64[3,3]
const background: f64[3]
const observations: f64[6,3]
def f() { use (. @ L + (. @ P) * (. @ Q)) }
def step() {
    let k1 = f(.)
    let k2 = f(. + 0.005 * k1)
    let k3 = f(. + 0.005 * k2)
    let k4 = f(. + 0.01 * k3)
    use (. + 0.01 / 6 * (k1 + 2 * (k2 + k3) + k4))
}
let cost = sum((x - background)^2) / 2
for seen in observations {
    repeat 5 step
    let cost = cost + sum((. - seen)^2)
}
use cost
