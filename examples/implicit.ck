# The heat equation by implicit steps (backward Euler), which are stable for steps of any length: each row is a rod of its
# own, whose ends are held at 0. A step solves (1 + 2 r) w[i] - r (w[i-1] + w[i+1]) = u[i].
input u: f64[*,31]
param r = 4.0
repeat 50 { tridiagonal (-r) (1 + 2 * r) (-r) }
