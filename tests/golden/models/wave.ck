# Waves from a source, and the misfit of what a line of receivers hears.
input u: f64[24,24]
param c: f64[24,24]
param wavelet: f64[12]
const data: f64[12,24]
const sponge: f64[24,24]
const src: f64[24,24]
let before = u
let loss = 0
def leap(w, heard) {
    let waves = laplacian(u, boundary=zero, order=4)
    let next = sponge * (2 * u - before + 0.2 * c^2 * waves + w * src)
    export (sponge * u) as before, next as u, (loss + sum((next[3] - heard)^2)) as loss
}
for w, heard in wavelet, data { leap w heard }
use loss
