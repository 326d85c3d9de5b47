# The same time step in operations of ckptc.
input x: f64[2,3]
param k = [9.81, 4, 1]
def step(k) {
    name state
    slice axis=0 start=0 stop=1
    name angle
    use state
    slice axis=0 start=1 stop=2
    mul 0.99
    sub { use angle; sin; mul k; mul 0.01 }
    name speed
    mul 0.01
    add angle
    concat speed axis=0
}
repeat 20 { step k }
sum
