# du/dt = rate (1 - u^2) up to t = 2 by Heun's method. The length h of a step follows from the error of the step before,
# so the number of steps is not known beforehand.
input u: f64[4]
param rate = [1, 2, 3, 4]
const end = 2
const first = 0.01

def slope() { use (rate * (1 - .^2)) }
def step() {
    let k1 = slope(.)
    let k2 = slope(. + h * k1)
    let error = amax(abs(h * (k2 - k1)))
    let longer = h * stop_gradient(clip(sqrt(1e-4 / max(error, 1e-12)), 0.2, 2))
    use (. + h * (k1 + k2) * 0.5)
    export (t + h) as t, (min(longer, end - (t + h))) as h
}

let t = 0
let h = first
repeat while { use (end - t) } max=10000 { step }
