#!/usr/bin/env python3
"""Prints the lines of golden data in tests/cases/fft.test, from NumPy 2.4.6 and JAX 0.10.2 in f64.

    python3 tests/golden/make_transforms.py

A line has, between bars, the operation; shape and elements of the value x; then the elements of the result, which is
NumPy's, and of the gradient of x for the cotangent 1, 2, 3, ..., to eight digits. The gradient is JAX's of real parts
and imaginary parts as two arrays.
"""

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(17)


def numbers(v):
    return v[..., 0] + 1j * v[..., 1]


def pairs(np_, z):
    return np_.stack([z.real, z.imag], -1)


def apply(np_, name, v, options):
    f = getattr(np_.fft, name)
    z = f(v if name == "rfft" else numbers(v), **options)
    return z if name == "irfft" else pairs(np_, z)


def row(values):
    return " ".join(f"{v:.8g}" for v in np.asarray(values).ravel())


def line(name, *shape, **options):
    v = random.integers(-16, 16, shape) / 8
    result = apply(np, name, v, options)
    _, back = jax.vjp(lambda v: apply(jax.numpy, name, v, options), v)
    gradient = back(1.0 + np.arange(result.size).reshape(result.shape))[0]
    text = " ".join([name] + [f"{k}={value}" for k, value in options.items()])
    print("\t" + "|".join([text, " ".join(map(str, shape)), row(v), row(result), row(gradient)]))


line("fft", 4, 2)
line("fft", 2, 3, 2, norm="ortho")
line("fft", 3, 2, 2, axis=0, norm="forward")
line("ifft", 5, 2)
line("ifft", 2, 4, 2, axis=-2, norm="ortho")
line("ifft", 1, 2, norm="forward")
line("rfft", 6)
line("rfft", 2, 5, norm="ortho")
line("rfft", 4, 2, axis=0, norm="forward")
line("rfft", 1)
line("irfft", 4, 2)
line("irfft", 2, 3, 2, n=5)
line("irfft", 3, 2, 2, axis=0, norm="ortho")
line("irfft", 2, 2, n=6, norm="forward")
line("irfft", 5, 2, n=4)
line("irfft", 1, 2, n=1)
