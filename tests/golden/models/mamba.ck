# A block of Mamba: projection, causal convolution by channel, selective scan, gate.
input x: f64[2,6,4]
param win: f64[4,16]
param cw: f64[4,8]
param cb: f64[8]
param wbc: f64[8,6]
param wdt: f64[8,8]
param bdt: f64[8]
param Alog: f64[8,3]
param Dp: f64[8]
param wout: f64[8,4]
const zero: f64[2,8,3] = zeros
let A = -exp(Alog)
let xz = x @ win
let padded = pad(xz[:, :, :8], 3, 0, axis=1)
let u = silu(padded[:, :6] * cw[0] + padded[:, 1:7] * cw[1] + padded[:, 2:8] * cw[2] + padded[:, 3:] * cw[3] + cb)
let bc = u @ wbc
let us = transpose(u, axes=[1,0,2])
let dts = transpose(softplus(u @ wdt + bdt), axes=[1,0,2])
let bcs = transpose(bc, axes=[1,0,2])
let h = zero
use (us[0])
for ut, dt, bct in us, dts, bcs {
    let h = exp(reshape(dt, 2, 8, 1) * A) * h + reshape(dt * ut, 2, 8, 1) * reshape(bct[:, :3], 2, 1, 3)
    use (sum(h * reshape(bct[:, 3:], 2, 1, 3), axis=2))
    collect ys
}
use ((transpose(ys, axes=[1,0,2]) + u * Dp) * silu(xz[:, :, 8:]) @ wout)
