# ResNet: batch norm in training mode, max pooling of 3 x 3 with stride 2, average pooling, two blocks.
input images: f64[*,3,12,12]
input labels: i64[*]
param k0: f64[4,3,3,3]
param g0: f64[4]
param b0: f64[4]
param ka: f64[4,4,3,3]
param ga: f64[4]
param ba: f64[4]
param kb: f64[4,4,3,3]
param gb: f64[4]
param bb: f64[4]
param kd: f64[8,4,1,1]
param ks: f64[8,4,3,3]
param fc: f64[8,5]
def batch_norm(g, b) {
    let centred = . - mean(., axis=[0,2,3], keepdims=true)
    let scale = sqrt(mean(centred^2, axis=[0,2,3], keepdims=true) + 1e-5)
    use (centred / scale * g[:, None, None] + b[:, None, None])
}
def pool() {
    let p = pad(., 1, 1, axis=2, value=-inf)
    let q = pad(max(max(p[:, :, :12:2], p[:, :, 1:13:2]), p[:, :, 2::2]), 1, 1, axis=3, value=-inf)
    use (max(max(q[..., :12:2], q[..., 1:13:2]), q[..., 2::2]))
}
let r = pool(relu(batch_norm(conv2d(images, k0, padding=1), g0, b0)))
let inner = relu(batch_norm(conv2d(r, ka, padding=1), ga, ba))
let first = relu(r + batch_norm(conv2d(inner, kb, padding=1), gb, bb))
let second = relu(conv2d(first, ks, stride=2, padding=1) + conv2d(first, kd, stride=2))
use (cross_entropy(mean(second, axis=[2,3]) @ fc, labels))
