# Skip connections. A block as an operand works on the current value. A name refers to an
# earlier value.
name start
repeat 2 { add { mul 0.5; tanh } }
layernorm
add start
