#!/usr/bin/env python3
"""Writes tests/golden/ops/stencils.txt: results of laplacian of any order, and of stencil.

Made with numpy 2.4.6 by

    python3 tests/golden/make_stencils.py tests/golden/ops/stencils.txt

The operations are those of src/ops/laplacian.c and stencil.c, in their order, on whole arrays. The format is that of
make_ops.py.
"""
import sys

import numpy as np

rng = np.random.default_rng(33)
lines = []
COEFFICIENTS = {2: [1], 4: [4 / 3, -1 / 12], 6: [3 / 2, -3 / 20, 1 / 90], 8: [8 / 5, -1 / 5, 8 / 315, -1 / 560]}


def text(array):
    return " ".join([str(array.ndim)] + [str(n) for n in array.shape] + [float(x).hex() for x in array.ravel()])


def emit(op, v, y):
    lines.append(f"f{8 * v.itemsize} {op}|{text(v)}|0 0|{text(y)}|0\n")


def moved(v, axis, distance, boundary):
    """v[i + distance] at each i of an axis."""
    n = v.shape[axis]
    width = [(0, 0)] * v.ndim
    width[axis] = (abs(distance), abs(distance))
    mode = {"periodic": "wrap", "zero": "constant", "reflect": "edge" if n == 1 else "reflect"}[boundary]
    at = np.pad(v, width, mode=mode)
    return np.take(at, np.arange(n) + distance + abs(distance), axis)


def laplacian(v, axes, order, dx, boundary):
    real, total = v.dtype.type, None
    for axis in sorted(axes):
        h = dx[axes.index(axis)] if isinstance(dx, list) else 1
        for k, c in enumerate(COEFFICIENTS[order], 1):
            difference = (moved(v, axis, -k, boundary) - 2 * v) + moved(v, axis, k, boundary)
            term = real(c / (h * h)) * difference
            total = term if total is None else total + term
    return total if isinstance(dx, list) or dx == 1 else total / real(dx * dx)


def stencil(v, weights, axis, boundary):
    real, total = v.dtype.type, None
    for t, w in enumerate(weights):
        term = real(w) * moved(v, axis, t - len(weights) // 2, boundary)
        total = term if total is None else total + term
    return total


for dtype in (np.float32, np.float64):
    for shape in ((1,), (2,), (11,), (37,), (3, 1), (2, 19), (2, 3, 5)):
        v = rng.uniform(-2, 2, shape).astype(dtype)
        every = list(range(len(shape)))
        for boundary in ("periodic", "zero", "reflect"):
            for order in COEFFICIENTS:
                emit(f"laplacian order={order} boundary={boundary}", v, laplacian(v, every, order, 1, boundary))
                emit(f"laplacian order={order} boundary={boundary} dx=0.3 axes=-1", v,
                     laplacian(v, every[-1:], order, 0.3, boundary))
                if len(shape) == 2:
                    emit(f"laplacian axes=1,0 dx=0.5,3 order={order} boundary={boundary}", v,
                         laplacian(v, [1, 0], order, [0.5, 3], boundary))
            for axis in every:
                for weights in ([1, -2, 1], [0.1, 0.2, -0.3, 0.4, 7], [1, 2, 3, 4, 5.5, 6, 7, 8, 9]):
                    emit(f"stencil {','.join(map(str, weights))} axis={axis} boundary={boundary}", v,
                         stencil(v, weights, axis, boundary))

with open(sys.argv[1], "w") as file:
    file.write("# made by tests/golden/make_stencils.py; do not edit\n")
    file.writelines(lines)
