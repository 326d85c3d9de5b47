# GPT-2 with two blocks and tied embeddings: the loss of the next tokens.
input tokens: i64[*,5]
input targets: i64[*,5]
param wte: f64[11,8]
param wpe: f64[5,8]
param ln1_g: f64[2,8]
param ln1_b: f64[2,8]
param qkv_w: f64[2,8,24]
param qkv_b: f64[2,24]
param o_w: f64[2,8,8]
param o_b: f64[2,8]
param ln2_g: f64[2,8]
param ln2_b: f64[2,8]
param f_w: f64[2,8,32]
param f_b: f64[2,32]
param p_w: f64[2,32,8]
param p_b: f64[2,8]
param lnf_g: f64[8]
param lnf_b: f64[8]
const past: f64[5,5] = tril
def heads() { reshape -1 5 2 4; transpose axes=[0,2,1,3] }
def attend(W, b, Wo, bo) {
    let qkv = . @ W + b
    let scores = heads(qkv[..., :8]) @ transpose(heads(qkv[..., 8:16]), axes=[0,1,3,2]) / 2
    let mixed = softmax(where(past, scores, -1e30)) @ heads(qkv[..., 16:])
    use (reshape(transpose(mixed, axes=[0,2,1,3]), -1, 5, 8) @ Wo + bo)
}
use (take(tokens, wte) + wpe)
repeat 2 as i {
    use (. + attend(layernorm(.) * ln1_g[i] + ln1_b[i], qkv_w[i], qkv_b[i], o_w[i], o_b[i]))
    use (. + gelu((layernorm(.) * ln2_g[i] + ln2_b[i]) @ f_w[i] + f_b[i], tanh=true) @ p_w[i] + p_b[i])
}
let last = layernorm(.) * lnf_g + lnf_b
use (cross_entropy(linear(last, wte), targets))
