#!/usr/bin/env python3
"""Prints the lines of golden data in tests/cases/linalg.test, from JAX in f64.

    python3 tests/golden/make_linalg.py

A line has, between bars, the operation; shape and elements of the value x; those of the operand a; then the elements of
the result, and of the gradients of x and a for the cotangent 1, 2, 3, ..., to eight digits. `-` stands for what an
operation does not have.
"""

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
random = np.random.default_rng(11)


def solve(x, a):
    columns = jnp.broadcast_to(x[:, None], a.shape[:-2] + (len(x), 1)) if x.ndim == 1 else x
    solution = jnp.linalg.solve(a, columns)
    return solution[..., 0] if x.ndim == 1 else solution


def square(*shape):
    return random.integers(-16, 16, shape) / 8 + 3 * np.eye(shape[-1])


def positive(*shape):
    root = square(*shape)
    return root @ np.swapaxes(root, -1, -2)


def row(values):
    return " ".join(f"{v:.8g}" for v in np.asarray(values).ravel())


def line(name, function, *values):
    result, back = jax.vjp(function, *[jnp.asarray(v) for v in values])
    gradients = back(1.0 + jnp.arange(result.size).reshape(result.shape))
    fields = [name]
    for v in values:
        fields += [" ".join(map(str, v.shape)), row(v)]
    fields += ["-"] * (2 * (2 - len(values))) + [row(result)] + [row(g) for g in gradients] + ["-"] * (2 - len(values))
    print("\t" + "|".join(fields))


line("solve a", solve, random.integers(-16, 16, 3) / 8, square(3, 3))
line("solve a", solve, random.integers(-16, 16, (3, 2)) / 8, square(3, 3))
line("solve a", solve, random.integers(-16, 16, 2) / 8, square(3, 2, 2))
line("solve a", solve, random.integers(-16, 16, (2, 1, 2, 1)) / 8, square(3, 2, 2))
line("inv", jnp.linalg.inv, square(3, 3))
line("inv", jnp.linalg.inv, square(2, 2, 2))
line("logdet", lambda a: jnp.linalg.slogdet(a)[1], positive(3, 3))
line("logdet", lambda a: jnp.linalg.slogdet(a)[1], positive(2, 2, 2))
line("cholesky", jnp.linalg.cholesky, positive(3, 3))
line("cholesky", jnp.linalg.cholesky, positive(2, 1, 2, 2))
