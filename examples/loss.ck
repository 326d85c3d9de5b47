# The mean squared error of a straight line through points. `ckptc grad --grads` gives the
# gradient of each param, `--value` the loss.
input x: f64[*]
param slope: f64[] = 2
param offset: f64[] = 0
const t: f64[4] = [1, 3, 5, 7]
use (mse(slope * x + offset, t))
