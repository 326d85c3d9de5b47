# Reaction and diffusion of two fields (Gray and Scott).
input u: f64[10,10]
input v: f64[10,10]
param F = 0.035
param k = 0.06
def react() {
    let uvv = u * v^2
    let du = 0.16 * laplacian(u) - uvv + F * (1 - u)
    let dv = 0.08 * laplacian(v) + uvv - (F + k) * v
    export (u + du) as u, (v + dv) as v
}
repeat 30 react
use (mean(v^2))
