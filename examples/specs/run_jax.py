"""Run a schedule of ckptc on JAX functions.

    python3 costs_jax.py > costs.json
    ckptc plan --spec costs.json --policy revolve:4 --schedule --format json | python3 run_jax.py

From your own program, where schedule is that JSON text:

    gradients, gradient = run(steps, params, x, json.loads(schedule)["actions"])

Step i is a function of params[i] and a state that returns the next state. Both are
pytrees. One array may be in the params of several steps; its gradients are then summed.
Other inputs of a step, such as a mask or dropout's key, belong to its params. If they
change on the way they belong to the state. A step that runs again gets the same key,
so it draws the same random numbers.

The gradients have the bits of jax.vjp of the composition of the jitted steps, added to
zeros. XLA compiles a function that keeps nothing into other sums than one that records.
So a forward action records too, and drops the residuals at once. With exact=False it
runs the function alone. That takes less time and fewer temporary bytes, and the last
bits may differ.

On a CPU, XLA releases the arguments and temporary buffers of a call a moment after its
results are ready. A peak of the process may have those of two calls.
"""
import json
import os
import pickle
import sys
import tempfile

import jax
import jax.numpy as jnp
from jax.dtypes import float0

add = jax.jit(jnp.add, donate_argnums=0)


def record(step, params, state):
    """Returns the state after STEP, and the function of its cotangent that gives those of PARAMS and STATE."""
    # Without the wait, steps that still run would hold their inputs.
    return jax.block_until_ready(jax.vjp(step, params, state))


def forward(step, params, state, exact=True):
    return record(step, params, state)[0] if exact else jax.block_until_ready(step(params, state))


def reverse(recorded, cotangent):
    return jax.block_until_ready(recorded(cotangent))


def is_float(a):
    return jnp.issubdtype(a.dtype, jnp.inexact)


def leaves(tree):
    return jax.tree_util.tree_leaves(tree)


def zeros_for(params):
    """Where the gradients are added up: an array for each array of PARAMS that has a gradient, by its id()."""
    return {id(a): jnp.zeros_like(a) for a in leaves(params) if is_float(a)}


def add_to(sums, params, gradients):
    for a, g in zip(leaves(params), leaves(gradients)):
        if is_float(a):
            sums[id(a)] = add(sums[id(a)], g)


def ones(output):
    """The default cotangent: ones, and float0 where no gradient is."""
    one = lambda y: jnp.ones_like(y) if is_float(y) else jnp.zeros(y.shape, float0)
    return jax.tree_util.tree_map(one, output)


def run(steps, params, x, actions, cotangent=ones, exact=True):
    """
    Performs ACTIONS. Returns the gradients of PARAMS, None where a leaf is no float,
    and of X.

    COTANGENT gets the output, once, and returns the output's cotangent. The peak is the
    plan's if the caller keeps no other reference to X, as in run(steps, params,
    make_batch(), ...).
    """
    state, slots, recorded, carried = x, {}, {}, None
    del x
    steps = [jax.jit(step) for step in steps]
    sums = zeros_for(params)
    if max((a["end"] for a in actions if a["action"] == "backward"), default=0) != len(steps):
        raise ValueError(f"the schedule is not one of {len(steps)} steps")
    with tempfile.TemporaryDirectory() as disk:
        for a in actions:
            kind, slot = a["action"], a.get("slot")
            file = os.path.join(disk, str(slot))
            span = range(a.get("begin", 0), a.get("end", 0))
            if kind == "forward":
                for i in span:
                    state = forward(steps[i], params[i], state, exact)
            elif kind == "record":
                for i in span:
                    state, recorded[i] = record(steps[i], params[i], state)
            elif kind == "backward":
                carried = cotangent(state) if carried is None else carried
                state = None
                for i in reversed(span):
                    found, carried = reverse(recorded.pop(i), carried)
                    add_to(sums, params[i], found)
                    del found
            elif kind == "save":
                slots[slot] = state
            elif kind == "load":
                state = slots[slot]
            elif kind == "drop":
                del slots[slot]
            elif kind == "spill":
                with open(file, "wb") as to:
                    pickle.dump(state, to)
            elif kind == "fetch":
                state = None
                with open(file, "rb") as source:
                    state = pickle.load(source)
            elif kind == "discard":
                os.remove(file)
    return jax.tree_util.tree_map(lambda a: sums.get(id(a)), params), carried


def block(params, x):
    h = jax.nn.gelu(x @ params["up"])
    kept = jax.random.bernoulli(params["key"], 0.9, h.shape)
    return x + jnp.where(kept, h / 0.9, 0) @ params["down"]


def example():
    """The steps, params and input that the two scripts measure and run: put your own model here."""
    normal = lambda key, *shape: jax.random.normal(key, shape) / shape[0] ** 0.5
    keys = [jax.random.split(key, 3) for key in jax.random.split(jax.random.key(0), 12)]
    params = [{"up": normal(up, 512, 2048), "down": normal(down, 2048, 512), "key": key} for up, down, key in keys]
    return [block] * 12, params, jnp.ones((256, 512))


def main():
    steps, params, x = example()
    gradients, gradient = run(steps, params, x, json.load(sys.stdin)["actions"])
    norm = lambda tree: sum(float((g**2).sum()) for g in leaves(tree)) ** 0.5
    print("gradient of the input, norm:", norm(gradient))
    print("gradients of the params, norm:", norm(gradients))


if __name__ == "__main__":
    main()
