# CLIP: each image beside each text, and the loss of finding either by the other.
input images: f64[5,4]
input texts: f64[5,6]
param wi: f64[4,3]
param wt: f64[6,3]
param logt: f64[]
const right: f64[5] = [0, 1, 2, 3, 4]
def unit() { use (. / norm(., axis=1, keepdims=true)) }
let similar = unit(images @ wi) @ transpose(unit(texts @ wt)) * exp(logt)
use ((cross_entropy(similar, right) + cross_entropy(transpose(similar), right)) / 2)
