# Six bodies in a plane, their forces softened.
input q: f64[6,2]
input v: f64[6,2]
param m: f64[6]
def step() {
    let d = reshape(q, 6, 1, 2) - q
    let far = (sum(d^2, axis=2, keepdims=true) + 0.1)^-1.5
    let faster = v - 0.01 * sum(d * far * reshape(m, 1, 6, 1), axis=1)
    export (q + 0.01 * faster) as q, faster as v
}
repeat 20 step
use (sum(q^2))
