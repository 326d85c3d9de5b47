# A wave on a ring, the sine-Gordon equation by leapfrog: a time step makes the next field
# of the present one and the one before, and hands on two. So that it is one step it is a
# checkpoint block, as names that a def binds are its own; its policy keeps what the
# derivative reads, so that the block alone recomputes nothing.
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
