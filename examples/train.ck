# A small convolutional network that learns the classes of pictures. pictures.ck makes data.npz, which holds some, and
# start.ck makes the files of the params. A training step adds to them their gradients times the number in rate.npy, which
# is negative:
#
#     ckptc grad -i data.npz --cotangent rate.npy --accumulate --grad K=K.npy --grad W=W.npy --grad b=b.npy \
#         -o /dev/null train.ck
input images: f32[*,8,8]
input classes: i64[*]
param K: f32[6,1,3,3] = load("K.npy")
param W: f32[6,3] = load("W.npy")
param b: f32[3] = load("b.npy")
let seen = relu(conv2d(images[:, None], K))
let scores = mean(seen, axis=[2,3]) @ W + b
output (mean(argmax(scores, axis=1) == classes)) as accuracy
use (cross_entropy(scores, classes))
