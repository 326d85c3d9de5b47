# A diagonal state space model. A complex state is two real ones.
input u: f64[6,2,3]
param lre: f64[3,4]
param lim: f64[3,4]
param Cre: f64[3,4]
param Cim: f64[3,4]
const zero: f64[2,3,4] = zeros
let decay = exp(-exp(lre))
let are = decay * cos(lim)
let aim = decay * sin(lim)
let re = zero
let im = zero
use (u[0])
for x in u {
    let next = re * are - im * aim + reshape(x, 2, 3, 1)
    let im = re * aim + im * are
    let re = next
    use (2 * sum(re * Cre - im * Cim, axis=2))
    collect ys
}
use ys
