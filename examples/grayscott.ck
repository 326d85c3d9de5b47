# Two substances that react and spread on a ring (Gray and Scott 1983): a time step is one def, and exports both fields.
input u: f64[16]
const n = 20
param feed = 0.04
param kill = 0.06
def react(F, k) {
    let uvv = u * v^2
    let du = 0.16 * laplacian(u) - uvv + F * (1 - u)
    let dv = 0.08 * laplacian(v) + uvv - (F + k) * v
    export (u + du) as u, (v + dv) as v
}
let v = (1 - u) / 2
repeat n { react feed kill }
use (u - v)
