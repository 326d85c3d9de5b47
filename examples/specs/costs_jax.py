"""Measure JAX functions for `ckptc plan --spec costs.json`.

    python3 costs_jax.py > costs.json
    ckptc plan --spec costs.json --sweep memory

Put your own model into example() of run_jax.py, whose head says what a step is. That
script performs the plan, and its forward(), record() and reverse() are measured here.

The bytes are those of JAX's arrays and of the compiler's temporary buffers. The function
that jax.vjp returns is a pytree. Its leaves are the arrays that the backward pass reads.
memory_analysis() of a compiled pass has its temporary buffers. Workspace that a kernel
allocates itself does not count, such as that of a convolution on a CPU.

    state_bytes         a step's input; an array that several states pass on counts in each
    residual_bytes      the leaves, without params and the input. With keeps_output the
                        output is part of them
    forward_temporary_bytes, record_temporary_bytes, backward_temporary_bytes
                        the temporary buffers. An exact forward action (see run_jax.py) has
                        the residuals too. A backward pass has gradients of params, before
                        they are added to the sums
    fixed_bytes         params with dropout's keys, the sums of their gradients from start
                        to end, and the state of the optimiser. For the last, pass it to
                        costs(): a pytree such as the result of an optax init(params). In
                        f32 that of Adam has 8 bytes a param
"""
import json
import sys
import time

import jax
import jax.numpy as jnp

from run_jax import example, forward, is_float, leaves, ones, record, reverse, zeros_for


def buffers(*trees):
    """The bytes of each array of TREES by its address: arrays that share a buffer are one."""
    arrays = [a for a in leaves(trees) if isinstance(a, jax.Array)]
    arrays = [jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a for a in arrays]
    return {a.unsafe_buffer_pointer(): a.nbytes for a in arrays}


def tree_bytes(*trees):
    return sum(buffers(*trees).values())


compiled = {}  # temporary bytes by program text


def temporary(f, *arguments):
    """The bytes that the compiler's own analysis gives for jit(F) beside arguments and results."""
    lowered = jax.jit(f).lower(*arguments)
    text = lowered.as_text()
    if text not in compiled:
        compiled[text] = lowered.compile().memory_analysis().temp_size_in_bytes
    return compiled[text]


def fastest(f, *arguments, repeats=5):
    """Milliseconds, compilation left out."""
    f(*arguments)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        f(*arguments)
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def measure(step, params, state, exact):
    """Returns the costs of STEP, and the state after it."""
    step = jax.jit(step)
    after, recorded = record(step, params, state)
    kept, inputs, outputs, own = (buffers(tree) for tree in (recorded, state, after, params))
    residual_bytes = sum(size for at, size in kept.items() if at not in inputs and at not in own)
    recording = temporary(lambda p, s: jax.vjp(step, p, s), params, state)
    reversing = temporary(lambda r, c: r(c), recorded, ones(after))
    gradients = tree_bytes(reverse(recorded, ones(after))[0])
    cost = {
        "state_bytes": sum(inputs.values()),
        "residual_bytes": residual_bytes,
        "keeps_input": any(at in kept for at in inputs),
        "keeps_output": all(at in kept for at in outputs),
        "forward_temporary_bytes": recording + residual_bytes if exact else temporary(step, params, state),
        "record_temporary_bytes": recording,
        "backward_temporary_bytes": reversing + gradients,
        "forward": fastest(forward, step, params, state, exact),
        "backward": fastest(reverse, recorded, ones(after)),
    }
    return cost, after


def costs(name, steps, params, x, optimizer=(), exact=True):
    """Returns the spec. OPTIMIZER is a pytree: all that exists throughout beside params and gradients."""
    state, rows = x, []
    for i, step in enumerate(steps):
        cost, state = measure(step, params[i], state, exact)
        rows.append({"name": f"{getattr(step, '__name__', 'step')}.{i}", **cost})
    return {
        "name": name,
        "time_unit": "ms",
        "fixed_bytes": tree_bytes(params, zeros_for(params), optimizer),
        "output_bytes": tree_bytes(state),
        "steps": rows,
    }


def main():
    json.dump(costs("mlp", *example()), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
