# A flame on a ring: heat spreads by the laplacian, and where it is hot it grows by
# u * (1 - u). The 20 explicit steps each keep something for the backward pass,
# which is what revolve is for.
def step(spread, growth) {
    add { laplacian boundary=periodic; mul spread }
    add { mul { rsub 1 }; mul growth }
}
repeat 20 { step 0.1 0.5 }
