"""Measure a JAX model for `ckptc plan --spec costs.json`.

    python3 costs_jax.py > costs.json
    ckptc plan --spec costs.json --sweep memory

Put your own model into main(): a list of steps, functions of (params, x), and one
input. The function that jax.vjp returns is a pytree. Its leaves are the arrays that the
backward pass of a step keeps.
"""
import json
import sys
import time

import jax
import jax.numpy as jnp


def tree_bytes(tree):
    return sum(a.size * a.dtype.itemsize for a in jax.tree_util.tree_leaves(tree))


def fastest(f, *arguments, repeats=5):
    """Milliseconds, compilation left out."""
    jax.block_until_ready(f(*arguments))
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(f(*arguments))
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def measure(step, params, x):
    forward = jax.jit(step)
    # The vjp function is a pytree. jit may return it, and its leaves are the values that it keeps.
    y, backward = jax.jit(lambda p, x: jax.vjp(step, p, x))(params, x)
    own = jax.tree_util.tree_leaves(params)
    kept = [a for a in jax.tree_util.tree_leaves(backward) if not any(same(a, p) for p in own)]
    inputs = [a for a in kept if same(a, x)]
    outputs = [a for a in kept if same(a, y) and not same(a, x)]
    cost = {
        "state_bytes": tree_bytes(x),
        "residual_bytes": tree_bytes(kept) - tree_bytes(inputs),
        "forward": fastest(forward, params, x),
        "backward": fastest(jax.jit(lambda back, ct: back(ct)), backward, jnp.ones_like(y)),
        "keeps_input": bool(inputs),
        "keeps_output": bool(outputs),
    }
    return cost, y


def costs(name, steps, params, x):
    rows = []
    for i, (step, p) in enumerate(zip(steps, params)):
        cost, x = measure(step, p, x)
        rows.append({"name": f"{step.__name__}.{i}", **cost})
    return {
        "name": name,
        "time_unit": "ms",
        "fixed_bytes": 2 * tree_bytes(params),  # and their gradients
        "output_bytes": tree_bytes(x),
        "steps": rows,
    }


def block(params, x):
    return x + jax.nn.gelu(x @ params["up"]) @ params["down"]


def main():
    keys = jax.random.split(jax.random.PRNGKey(0), 12)
    params = [
        {
            "up": jax.random.normal(k, (512, 2048)) / 512**0.5,
            "down": jax.random.normal(k, (2048, 512)) / 2048**0.5,
        }
        for k in keys
    ]
    json.dump(costs("mlp", [block] * 12, params, jnp.ones((256, 512))), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
