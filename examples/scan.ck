# Three layers, each with its own matrix and bias: an iteration for each index of the
# leading axis of two stacks.
input x: f64[*,2]
param Ws: f64[3,2,2] = [[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[2, 0], [0, 2]]]
param bs: f64[3,2] = [[1, 1], [0, -3], [0, 0]]
for w, b in Ws, bs { use (relu(. @ w + b)) }
