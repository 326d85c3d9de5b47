#!/usr/bin/env python3
"""Prints the lines of golden data in tests/cases/indices.test, from NumPy and JAX.

    python3 tests/golden/make_indices.py

A line has, between bars, the operation; shape and elements of the value x; those of the operand a; then the elements
of the result, and of the gradients of x and a for the cotangent 1, 2, 3, ... The gradients are JAX's, in f64. Numbers
are eighths, so that no sum rounds. `-` stands for what an operation does not have.
"""

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
random = np.random.default_rng(7)


def numbers(*shape):
    return random.integers(-64, 64, shape) / 8


def indices(n, *shape):
    return random.integers(-n, n, shape)


def row(values):
    return " ".join(f"{v:g}" for v in np.asarray(values, float).ravel())


def line(text, expected, function, x, a=None):
    """FUNCTION is JAX's form of EXPECTED, NumPy's result."""
    values = [v for v in (x, a) if v is not None]
    floats = [i for i, v in enumerate(values) if v.dtype.kind == "f"]

    def of_floats(*changed):
        full = list(values)
        for i, v in zip(floats, changed):
            full[i] = v
        return function(*full)

    gradients = {}
    if floats and np.asarray(expected).dtype.kind == "f":
        result, back = jax.vjp(of_floats, *[jnp.asarray(values[i]) for i in floats])
        np.testing.assert_array_equal(result, expected)
        cotangent = 1.0 + jnp.arange(result.size).reshape(result.shape)
        gradients = dict(zip(floats, back(cotangent)))
    fields = [text]
    for v in (x, a):
        fields += ["-", "-"] if v is None else [" ".join(map(str, v.shape)) or "-", row(v)]
    fields.append(row(expected))
    fields += [row(gradients[i]) if i in gradients else "-" for i in range(2)]
    print("\t" + "|".join(fields))


def take(x, a, axis=0):
    text = "take a" + (f" axis={axis}" if axis else "")
    line(text, np.take(a, x, axis), lambda x, a: jnp.take(a, x, axis), x, a)


take(indices(4, 5), numbers(4, 3))
take(indices(4, 2, 3), numbers(4, 3))
take(np.full(6, 1), numbers(2, 2))
take(indices(4, 7), numbers(4))
take(indices(3, 4), numbers(2, 3, 2), 1)
take(indices(2, 2, 2), numbers(3, 2), -1)


def take_along(x, a, axis):
    text = f"take_along a axis={axis}"
    line(text, np.take_along_axis(x, a, axis), lambda x, a: jnp.take_along_axis(x, a, axis), x, a)


def scatter_add(x, a, n, axis=0):
    shape = x.shape[:axis] + (n,) + x.shape[axis + a.ndim :]
    at = (slice(None),) * axis + (a,)
    expected = np.zeros(shape)
    np.add.at(expected, at, x)
    text = f"scatter_add a {n}" + (f" axis={axis}" if axis else "")
    line(text, expected, lambda x, a: jnp.zeros(shape).at[at].add(x), x, a)


def one_hot(x, n):
    line(f"one_hot {n}", np.eye(n)[x], None, x)


def position(name, x, **options):
    text = " ".join([name] + [f"{k}={str(v).lower()}" for k, v in options.items()])
    line(text, getattr(np, name)(x, **options), None, x)


take_along(numbers(4, 3), indices(4, 2, 3), 0)
take_along(numbers(4, 3), indices(3, 4, 5), 1)
take_along(numbers(2, 4, 3), indices(4, 2, 5, 3), -2)
take_along(numbers(1, 3), indices(3, 4, 2), 1)
take_along(numbers(4, 3), indices(3, 1, 2), 1)
scatter_add(numbers(5, 3), indices(4, 5), 4)
scatter_add(numbers(7), indices(3, 7), 3)
scatter_add(numbers(2, 3, 2), indices(4, 2, 3), 4)
scatter_add(numbers(2, 5, 3), indices(4, 5), 4, 1)
one_hot(indices(4, 5), 4)
one_hot(indices(2, 2, 3), 2)
ties = numbers(4, 3) // 4
position("argmax", ties)
for option in ({"axis": 0}, {"axis": 1}, {"axis": -1, "keepdims": True}):
    for name in "argmax", "argmin":
        position(name, ties, **option)
