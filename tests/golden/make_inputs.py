"""Prints inputs.json: values and gradients of a chain of three inputs, in f64, by JAX.

    python3 tests/golden/make_inputs.py >tests/golden/inputs.json
"""
import json

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def laplacian(v):
    padded = jnp.pad(v, ((1, 1), (0, 0)))
    return padded[2:] - 2 * v + padded[:-2]


def model(a, b, w):
    """The chain of tests/scripts/check-inputs."""
    y = laplacian(a) * jnp.sin(b) + laplacian(b)
    y = (y - y.mean(0)) * (b - b.mean(0))
    return jnp.tanh(y @ w) + jnp.logaddexp(0, b).sum(1, keepdims=True) * 0.1


rng = np.random.default_rng(48)
a, b, w = rng.standard_normal((9, 3)), rng.standard_normal((9, 3)), rng.standard_normal((3, 2))
g = jax.grad(lambda *x: model(*x).sum(), (0, 1, 2))(a, b, w)
arrays = dict(a=a, b=b, w=w, y=model(a, b, w), ga=g[0], gb=g[1], gw=g[2])
print(json.dumps({name: np.asarray(x).tolist() for name, x in arrays.items()}).replace("]], ", "]],\n "))
