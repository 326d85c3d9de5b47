#!/usr/bin/env python3
"""Prints the lines of golden data in tests/cases/einsum.test, from JAX in f64.

    python3 tests/golden/make_einsum.py

A line has, between bars, the operation; shape and elements of the value x and of the operands; then the elements of the
result, and of the gradients of x and of the operands for the cotangent 1, 2, 3, ..., to eight digits.
"""

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy
random = np.random.default_rng(13)


def row(values):
    return " ".join(f"{v:.8g}" for v in np.asarray(values).ravel())


def line(name, function, *shapes):
    values = [random.integers(-16, 16, shape) / 8 for shape in shapes]
    result, back = jax.vjp(function, *[jnp.asarray(v) for v in values])
    gradients = back(1.0 + jnp.arange(result.size).reshape(result.shape))
    fields = [name + "".join(" " + "abc"[i] for i in range(len(values) - 1))]
    for v in values:
        fields += [" ".join(map(str, v.shape)), row(v)]
    print("\t" + "|".join(fields + [row(result)] + [row(g) for g in gradients]))


def einsum(subscripts, *shapes):
    line(f'einsum "{subscripts}"', lambda *values: jnp.einsum(subscripts, *values), *shapes)


einsum("ij->ji", (2, 3))
einsum("ij->", (2, 3))
einsum("ba", (2, 3))
einsum("ii->i", (3, 3))
einsum("iji->j", (3, 2, 3))
einsum("aaa->a", (2, 2, 2))
einsum("i,i->", (4,), (4,))
einsum("i,j->ji", (2,), (3,))
einsum("ij,ij->ij", (2, 3), (2, 3))
einsum("ij,j->i", (2, 3), (3,))
einsum("ij,jk->ik", (2, 3), (3, 2))
einsum("ij,kj->ki", (2, 3), (4, 3))
einsum("ji,kj", (2, 3), (2, 2))
einsum("bij,bjk->bik", (2, 2, 3), (2, 3, 2))
einsum("bhqd,bkhd->bhqk", (2, 2, 1, 3), (2, 2, 2, 3))
einsum("bi,bi->b", (3, 2), (3, 2))
einsum("bnc,bc->bn", (2, 3, 2), (2, 2))
einsum("abcd,cdea->be", (2, 2, 3, 1), (3, 1, 2, 2))
einsum("mhc,hcn->mhn", (2, 2, 3), (2, 3, 2))
einsum("i,j,k->kij", (2,), (2,), (3,))
einsum("...ij,jk->...ik", (2, 2, 3), (3, 2))
einsum("...i,...j->...", (2, 1, 3), (4, 2))
einsum("ij,jk,kl->il", (2, 3), (3, 4), (4, 2))
einsum("bi,oij,bj->bo", (2, 3), (2, 3, 2), (2, 2))
einsum("ab,bc,cd,da->", (2, 3), (3, 2), (2, 4), (4, 2))
einsum("aB,Ba->aB", (2, 3), (3, 2))
line("outer", lambda x, a: x[..., None, None] * a, (2, 3), (2, 2))
line("outer", lambda x, a: x * a, (), (3,))
line("outer", lambda x, a: x * a, (2,), ())
