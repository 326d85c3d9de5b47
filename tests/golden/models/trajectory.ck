# A wave by the leapfrog method, and each fifth of its states.
input u: f64[8]
let before = u
def leap() {
    let next = 2 * u - before + 0.25 * laplacian(u)
    export u as before, next as u
}
repeat 20 {
    leap
    use u
    collect rows every=5
}
use rows
