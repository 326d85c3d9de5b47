# A vision transformer: patches by a convolution, a token for the class, two blocks.
input images: f64[*,3,8,8]
input labels: i64[*]
param pw: f64[8,3,4,4]
param pb: f64[8]
param cls: f64[8]
param pos: f64[5,8]
param wqkv: f64[2,3,8,8]
param wo: f64[2,8,8]
param w1: f64[2,8,32]
param w2: f64[2,32,8]
param head: f64[8,5]
def heads(W) { matmul W; reshape -1 5 2 4; transpose axes=[0,2,1,3] }
def attend(W, Wo) {
    let scores = heads(., W[0]) @ transpose(heads(., W[1]), axes=[0,1,3,2]) / 2
    let mixed = softmax(scores) @ heads(., W[2])
    use (reshape(transpose(mixed, axes=[0,2,1,3]), -1, 5, 8) @ Wo)
}
let patches = transpose(reshape(conv2d(images, pw, stride=4), -1, 8, 4), axes=[0,2,1]) + pb
use (concat(0 * patches[:, :1] + cls, patches, axis=1) + pos)
for w, o, f, g in wqkv, wo, w1, w2 {
    use (. + attend(layernorm(.), w, o))
    use (. + gelu(layernorm(.) @ f) @ g)
}
use (cross_entropy(layernorm(.)[:, 0] @ head, labels))
