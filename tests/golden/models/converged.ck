# The equations of vorticity.ck. The iterations of a step end when the stream function is good enough, which depends on data.
input w: f64[10,10]
param nu = 0.05
def dx() { use (0.5 * (roll(., -1) - roll(., 1))) }
def dy() { use (0.5 * (roll(., -1, axis=1) - roll(., 1, axis=1))) }
let psi = 0 * w
def step() {
    use psi
    repeat while { use (norm(laplacian(.) + w) - 0.8) } max=50 { use (. + 0.2 * (laplacian(.) + w)) }
    let advected = dy(.) * dx(w) - dx(.) * dy(w)
    export (.) as psi, (w - 0.1 * advected + nu * laplacian(w)) as w
}
repeat 8 step
use (mean(w^2))
