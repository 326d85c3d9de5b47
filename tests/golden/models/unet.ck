# U-Net of two levels: pooled on the way down; then nearest neighbours, and a transposed convolution.
input images: f64[*,1,8,8]
param e1: f64[4,1,3,3]
param e2: f64[8,4,3,3]
param mid: f64[8,8,3,3]
param d2: f64[4,16,3,3]
param up: f64[4,4,2,2]
param d1: f64[4,8,3,3]
param out: f64[1,4,1,1]
const twice: f64[2,1,2] = ones
def block(K) { use (silu(conv2d(., K, padding=1))) }
let s1 = block(images, e1)
let s2 = block(amax(reshape(s1, -1, 4, 4, 2, 4, 2), axis=[3,5]), e2)
let deep = block(amax(reshape(s2, -1, 8, 2, 2, 2, 2), axis=[3,5]), mid)
let larger = reshape(deep[:, :, :, None, :, None] * twice, -1, 8, 4, 4)
let d = block(concat(larger, s2, axis=1), d2)
let spread = reshape(transpose(d, axes=[0,2,3,1]) @ reshape(up, 4, 16), -1, 4, 4, 4, 2, 2)
let largest = reshape(transpose(spread, axes=[0,3,1,4,2,5]), -1, 4, 8, 8)
use (sigmoid(conv2d(block(concat(largest, s1, axis=1), d1), out)))
