# A flame front on a torus (Fisher's equation): heat spreads by the laplacian, and grows by
# u (1 - u) where there is some. The mean of the field after 64 explicit steps is
# differentiated with respect to the field at the start.
input u: f64[512,512]
def step() {
    use (. + 0.1 * laplacian(.))
    use (. + 0.05 * (. * (1 - .)))
}
repeat 64 { step }
mean
