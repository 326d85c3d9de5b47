# Burgers' equation, upwind.
input u: f64[40]
param nu = 0.1
repeat 40 {
    let left = . - roll(., 1)
    let right = roll(., -1) - .
    use (. - 0.2 * (left * max(., 0) + right * min(., 0)) + nu * laplacian(.))
}
use (mean(.^2))
