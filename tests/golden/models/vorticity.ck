# Navier and Stokes in two dimensions. Each step improves the stream function by a few iterations of Jacobi's.
input w: f64[10,10]
param nu = 0.05
def dx() { use (0.5 * (roll(., -1) - roll(., 1))) }
def dy() { use (0.5 * (roll(., -1, axis=1) - roll(., 1, axis=1))) }
let psi = 0 * w
def step() {
    use psi
    repeat 15 { use (. + 0.2 * (laplacian(.) + w)) }
    let advected = dy(.) * dx(w) - dx(.) * dy(w)
    export (.) as psi, (w - 0.1 * advected + nu * laplacian(w)) as w
}
repeat 8 step
use (mean(w^2))
