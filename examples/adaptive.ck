# du/dt = rate (1 - u^2) up to t = 2 by Heun's method. The length h of a step follows from the error of the step before,
# so the number of steps is not known beforehand.
input u: f64[4]
param rate = [1, 2, 3, 4]
const end = 2
const begin = 0
const first = 0.01

def slope() { square; rsub 1; mul rate }
def step() {
    name now; slope; name k1
    mul h; add now; slope; name k2
    add k1; mul h; mul 0.5; add now; name u
    use k2; sub k1; mul h; abs; amax; max 1e-12; rdiv 1e-4; sqrt; clip 0.2 2; stop_gradient; mul h; name longer
    use t; add h; name next
    use longer; min { use end; sub next }; name rest
    export next as t, rest as h
    use u
}

use begin; name t
use first; name h
use u
repeat while { use end; sub t } max=10000 { step }
