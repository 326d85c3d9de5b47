# A layer of WaveNet: gated causal convolutions of two taps, four samples apart.
input x: f64[*,3,16]
param kf: f64[3,3,2]
param kg: f64[3,3,2]
param res: f64[3,3]
let past = pad(x, 4, 0, axis=2)[..., :16]
def dilated(k) { use (k[:, :, 0] @ past + k[:, :, 1] @ x) }
use (x + res @ (tanh(dilated(., kf)) * sigmoid(dilated(., kg))))
