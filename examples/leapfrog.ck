# A wave on a ring by leapfrog. A time step makes the next field from the present one and the
# one before. It is a def, so each call is one step. `export now as before` binds the name
# before where leap is called: the state that a step passes on holds both fields.
input u: f64[16]

def leap() {
    let now = .
    use (2 * now - before + 0.25 * laplacian(now))
    export now as before
}

let before = u
repeat 200 leap
