# The misfit between what receivers recorded of an acoustic wave and what the velocity makes of it.
# acoustic.f90 computes the time step; acoustic_own.ck is the same in operations of ckptc.
input x: f64[4609]                          # u and p, 48 x 48 each, and the misfit
program step(c, d): same
param c: f64[48,48] = full(0.4)             # (velocity * dt / dx)^2
const recorded: f64[60,48] = normal(0.1, 7)
for d in recorded { step c d }
slice start=-1
sum
