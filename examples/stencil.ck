# A flame on a ring: heat spreads by the laplacian and grows by u * (1 - u) where it is
# hot. Each of the 20 explicit steps keeps arrays for the backward pass. A policy such as
# revolve keeps fewer.
def step(spread, growth) {
    use (. + spread * laplacian(.))
    use (. + growth * (. * (1 - .)))
}
repeat 20 { step 0.1 0.5 }
