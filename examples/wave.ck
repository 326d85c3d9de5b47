# A wave on a ring: the sine-Gordon equation by leapfrog. A time step makes the next field
# from the present one and the one before, and passes two fields. It is a checkpoint block,
# which is one step; leapfrog.ck writes such a step as a def. The policy save-all keeps
# every residual, so the block alone recomputes nothing.
input u: f64[16]
name before
repeat 200 {
    checkpoint policy="save-all" {
        name now
        mul 2; sub before
        add { use now; laplacian; mul 0.25 }
        sub { use now; sin; mul 0.01 }
        name next
        use now; name before
        use next
    }
}
