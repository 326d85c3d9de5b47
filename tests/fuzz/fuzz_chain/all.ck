# mlp.ck


input x: f32[*,256]                      # optional; `*` is the streamed axis
param W: f32[256,256] = load("w.npy")    # differentiated
param b: f32[256]; const q = [[1,2*pi , -3e-5],[ 0.5 , - 1, e]] # q
const t = load("target.npy" , "k\"\x01\n")             # not differentiated

def layer(W, b) {  # open
  matmul W; add b

  # inner
  tanh
  # last
}
layer W b; name h1                       # h1
add { matmul W; relu }                   # block
repeat 8 { mul 1.1; sin }
repeat 3 repeat 2 add -1
checkpoint policy="names:a,b" { layer W b }
for w, c in Ws, bs { matmul w; add c; relu } # scan
add (2*pi/3   # why
  -1e-5^2)
const big = [[1111111111,2222222222,33333333333,4444444444],[1111111111,2222222222,33333333333,4444444444],[1,2,3,4]]
repeat 2 { aaaaaaaaaaaaaaaaaaa; bbbbbbbbbbbbbbbbbbbbbbbbbbbbb; ccccccccccccccccccccccccccccc; ddddddddddddddd } # after
slice axis=1 start=-2 ; pad axes=[1,2] m="a" k=true
mse t

# the end
