# A wave on a ring: the sine-Gordon equation by leapfrog. A time step makes the next field
# from the present one and the one before, and passes two fields. It is a checkpoint block,
# which is one step; leapfrog.ck writes such a step as a def. The policy save-all keeps
# every residual, so the block alone recomputes nothing.
input u: f64[16]
let before = u
repeat 200 {
    checkpoint policy="save-all" {
        let next = 2 * . - before + 0.25 * laplacian(.) - 0.01 * sin(.)
        let before = .
        use next
    }
}
