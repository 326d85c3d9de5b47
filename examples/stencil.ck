# A flame on a ring: heat spreads by the laplacian and grows by u * (1 - u) where it is
# hot. Each of the 20 explicit steps keeps arrays for the backward pass. A policy such as
# revolve keeps fewer.
def step(spread, growth) {
    add { laplacian boundary=periodic; mul spread }
    add { mul { rsub 1 }; mul growth }
}
repeat 20 { step 0.1 0.5 }
