# A wave on a string, driven by a wavelet. The misfit of what three receivers hear.
input u: f64[64]
param c: f64[64]
param wavelet: f64[80]
const data: f64[80,3]
const sponge: f64[64]
const src: f64[64]
const rec: f64[64,3]
let before = u
let loss = 0
def leap(w, heard) {
    let next = sponge * (2 * u - sponge * before + 0.25 * c^2 * laplacian(u, boundary=zero) + w * src)
    export u as before, next as u, (loss + sum((next @ rec - heard)^2)) as loss
}
for w, heard in wavelet, data { leap w heard }
use loss
