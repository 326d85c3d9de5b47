# Noisy pictures of 8 x 8 in three classes: stripes down, stripes across, and a chessboard. train.ck learns from them:
#
#     seq 0 299 | ckptc run -o data.npz pictures.ck
input number: i64[300]
const i: f32[8] = arange
const noise: f32[300,8,8] = normal(0.5, 3)
let row = i[:, None]
let down = i % 2 + 0 * row
let across = row % 2 + 0 * i
let chess = (i + row) % 2
let patterns = concat(stack(down, across), chess[None])
let classes = number % 3
output (take(classes, patterns) + noise) as images, classes
