# A block whose insides are recomputed in the backward pass: of the first layer
# only what goes into it is kept, of the second all that its derivative needs.
input x: f32[5]
param W1: f32[4,5] = normal(1, 1)
param W2: f32[6,4] = normal(1, 2)
def g(W) { dot W; sin }
checkpoint { g W1 }
g W2
