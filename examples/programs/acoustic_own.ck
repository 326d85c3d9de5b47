# acoustic.ck in operations of ckptc. damp and wavelet are what acoustic.f90 computes for itself.
input x: f64[4609]
param c: f64[48,48] = full(0.4)
const recorded: f64[60,48] = normal(0.1, 7)
const damp: f64[48,48]
const wavelet: f64[60]
const place: f64[48,48]                     # 1 in the source's cell
def step(c, d, s) {
    name u
    mul 2
    sub p
    add { use u; laplacian boundary=zero; mul c }
    mul damp
    add { mul 0; add place; mul s }
    name q
    slice axis=0 start=39 stop=40
    sub d
    square
    sum
    mul 0.5
    add m
    name e
    use u
    mul damp
    name r
    use q
    export r as p, e as m
}
name x0
slice start=-1
sum
name m
use x0
slice start=2304 stop=4608
reshape 48 48
name p
use x0
slice stop=2304
reshape 48 48
for d, s in recorded, wavelet { step c d s }
use m
