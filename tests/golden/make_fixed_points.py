#!/usr/bin/env python3
"""Writes tests/golden/fixed_points.txt: values and gradients of fixed points, by jax.custom_vjp.

Made with jax 0.10.2 by

    python3 tests/golden/make_fixed_points.py tests/golden/fixed_points.txt

The lines are as those of make_scans.py. The derivative solves the linear fixed point of the cotangent, by jax.vjp at the solution.
"""
import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(11)
xs = rng.normal(size=(4, 3)).round(3)
W = (rng.normal(size=(3, 3)) / 5).round(3)
lines = []


def iterate(f, start):
    return jax.lax.fori_loop(0, 400, lambda _, v: f(v), start)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def solve(f, arguments, start):
    return iterate(lambda v: f(v, *arguments), start)


def forward(f, arguments, start):
    solution = solve(f, arguments, start)
    return solution, (arguments, solution)


def backward(f, kept, g):
    arguments, solution = kept
    by_value = jax.vjp(lambda v: f(v, *arguments), solution)[1]
    w = iterate(lambda w: g + by_value(w)[0], g)
    by_arguments = jax.vjp(lambda a: f(solution, *a), arguments)[1]
    return by_arguments(w)[0], jnp.zeros_like(solution)


solve.defvjp(forward, backward)


def emit(chain, function):
    declared = f"param W = {W.tolist()}\n"
    value = function(xs, W)
    by_x, by_w = jax.grad(lambda x, w: function(x, w).sum(), (0, 1))(xs, W)
    arrays = {"input": xs, "value": value, "by_input": by_x, "by_W": by_w}
    lines.append(json.dumps({"chain": declared + chain} | {k: np.asarray(v).tolist() for k, v in arrays.items()}))


emit("fixed_point max=999 tol=1e-15 { matmul W; tanh; add x }", lambda x, w: solve(
    lambda v, x, w: jnp.tanh(v @ w) + x, (x, w), x))
emit("repeat 3 { matmul W; name h; fixed_point max=999 tol=1e-15 { mul 0.3; sin; add h }; add x }\nsquare", lambda x, w: (
    functools.reduce(lambda v, _: solve(lambda u, h: jnp.sin(0.3 * u) + h, (v @ w,), v) + x, range(3), x)) ** 2)


def layer(v, w):
    h = v @ w
    return jnp.exp(-solve(lambda u, h, w: jnp.cos(u @ w) * jnp.tanh(h) + h, (h, w), h))


emit("""def layer(W) {
    matmul W; name h
    fixed_point max=999 tol=1e-15 { checkpoint { matmul W; cos; mul { use h; tanh } }; add h }
    neg; exp
}
layer W; checkpoint { layer W }; mul x""", lambda x, w: layer(layer(x, w), w) * x)


def outer(v, x, w):
    inner = solve(lambda u, v, w: 0.4 * jnp.sin(u @ w) + 0.3 * v, (v, w), v)
    return jnp.cos(inner @ w) + 0.1 * x


emit("""fixed_point max=999 tol=1e-15 {
    name v
    fixed_point max=999 tol=1e-16 { matmul W; sin; mul 0.4; add (0.3 * v) }
    matmul W; cos; add (0.1 * x)
}""", lambda x, w: solve(outer, (x, w), x))
with open(sys.argv[1], "w") as f:
    f.writelines(line + "\n" for line in lines)
