# An ensemble of Lorenz's model of 1996, by Runge and Kutta's method.
input x: f64[5,8]
param F = 8
def f() { use ((roll(., -1, axis=1) - roll(., 2, axis=1)) * roll(., 1, axis=1) - . + F) }
repeat 20 {
    let k1 = f(.)
    let k2 = f(. + 0.025 * k1)
    let k3 = f(. + 0.025 * k2)
    let k4 = f(. + 0.05 * k3)
    use (. + 0.05 / 6 * (k1 + 2 * (k2 + k3) + k4))
}
use (mean(.^2))
