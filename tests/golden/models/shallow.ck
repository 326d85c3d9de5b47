# Shallow water on a torus.
input h: f64[12,10]
input u: f64[12,10]
input v: f64[12,10]
param H: f64[12,10]
def dx() { use (roll(., -1) - roll(., 1)) }
def dy() { use (roll(., -1, axis=1) - roll(., 1, axis=1)) }
def step() {
    let dh = dx(h * u * H) + dy(h * v * H)
    let du = u * dx(u) + v * dy(u) + dx(h)
    let dv = u * dx(v) + v * dy(v) + dy(h)
    export (h - 0.05 * dh) as h, (u - 0.05 * du) as u, (v - 0.05 * dv) as v
}
repeat 20 step
use (mean(h^2) + mean(u^2))
