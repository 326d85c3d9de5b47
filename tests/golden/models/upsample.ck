# Images of twice the height and width: a matrix has the weights of the interpolation along an axis.
input x: f64[*,2,4,4]
const M: f64[4,8]
use (transpose(M) @ . @ M)
