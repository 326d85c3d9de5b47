# Newton's iteration for the square root of a, to twelve digits.
param a = 2
repeat while { use (abs(.^2 - a) - 1e-12) } max=50 { use ((. + a / .) / 2) }
