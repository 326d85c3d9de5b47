# formulas, loops with counters, and outputs
input x: f32[*,n*2]
input m: i64[(1e1)]
const n = 3; let k = (n - 1) / 2 ** 2 % 3
def react(F, k) { let uvv = u * v^2; export (u - uvv + F * (1 - u)) as u, v as w }
let q = x @ Wq[1:, None, ..., ::-1]; name u; let v = where(not x > 0 and x != 2 or m == 1, -1, (sin(. * 2)))
use (softmax(q @ transpose(k) / 4^0.5, axis=-1) @ ([1, 2] * .))
repeat (n + 1) as i { add (W[i, 0] * (0.1)); mul (- -x^-2); collect ys every=(k) }
for w, b in (Ws * 2)[1:], . as j { matmul w; add b; checkpoint policy="names:a" { sin } }
reshape (n * 2) -1 axis=[n, -1]; output (pi) as p, ys, (v + e): f64[n] as z
