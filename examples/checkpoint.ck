# Two layers. The checkpoint block keeps the inputs of the first one, and recomputes its
# inside in the backward pass. The second one keeps every residual of its derivative.
input x: f32[5]
param W1: f32[4,5] = normal(1, 1)
param W2: f32[6,4] = normal(1, 2)
def g(W) { dot W; sin }
checkpoint { g W1 }
g W2
