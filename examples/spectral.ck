# Burgers' equation u_t + u u_x = nu u_xx on a circle, by Fourier's method: each row is a state of its own. Derivatives are
# products in the spectrum, exact for all waves that 32 points resolve.
input u: f64[*,32]
param nu = 0.1
const k: f64[17] = arange
let ik = stack(0 * k, k, axis=1)        # the complex numbers i k
def slope(v) { use (irfft(cmul(rfft(v), ik))) }
repeat 100 { use (. + 0.01 * (nu * slope(slope(.)) - . * slope(.))) }
