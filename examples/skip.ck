# Skip connections. The dot is the current value, and x the input.
repeat 2 { use (. + tanh(0.5 * .)) }
use (x + layernorm(.))
