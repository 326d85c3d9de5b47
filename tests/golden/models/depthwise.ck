# MobileNet: a kernel of its own for each channel, then a mixture of channels.
input x: f64[*,3,6,6]
param dw: f64[3,3,3]
param pw: f64[6,3,1,1]
const own: f64[3,3] = eye
let filtered = conv2d(x, dw[:, None] * own[:, :, None, None], padding=1)
use (conv2d(relu(filtered), pw))
