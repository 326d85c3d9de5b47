# A neural ordinary differential equation by Runge and Kutta's method.
input y: f64[*,4]
param w1: f64[4,6]
param w2: f64[6,4]
param wt: f64[6]
def f(t) { use (tanh(. @ w1 + t * wt) @ w2) }
repeat 10 as i {
    let t = 0.1 * i
    let k1 = f(t)
    let k2 = f(. + 0.05 * k1, t + 0.05)
    let k3 = f(. + 0.05 * k2, t + 0.05)
    let k4 = f(. + 0.1 * k3, t + 0.1)
    use (. + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
}
