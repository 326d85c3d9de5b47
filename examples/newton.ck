# Newton's iteration for the square root of a, to twelve digits.
param a = 2
repeat while { square; sub a; abs; sub 1e-12 } max=50 {
    add { rdiv a }
    mul 0.5
}
