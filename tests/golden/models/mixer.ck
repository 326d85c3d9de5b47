# MLP-Mixer: layers across the tokens, and across the channels.
input x: f64[*,4,6]
param t1: f64[2,4,5]
param t2: f64[2,5,4]
param c1: f64[2,6,8]
param c2: f64[2,8,6]
def turned() { transpose axes=[0,2,1] }
for a, b, c, d in t1, t2, c1, c2 {
    use (. + turned(gelu(turned(layernorm(.)) @ a) @ b))
    use (. + gelu(layernorm(.) @ c) @ d)
}
use (mean(layernorm(.), axis=1)^2)
