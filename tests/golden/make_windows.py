#!/usr/bin/env python3
"""Writes tests/golden/ops/windows.txt: results of operations with windows.

Made with numpy 2.4.6 and jax 0.10.2 (CPU) by

    python3 -m venv V && V/bin/pip install numpy==2.4.6 jax==0.10.2
    V/bin/python tests/golden/make_windows.py tests/golden/ops/windows.txt

The lines are those of make_ops.py. Pooling is computed window by window, as torch defines it; JAX's reduce_window
confirms it where it can say the same.
"""
import itertools
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(20261129)
lines = []


def text(array):
    array = np.asarray(array)
    values = [str(int(x)) if np.isfinite(x) and x == int(x) and abs(x) < 1e6 and (x or not np.signbit(x)) else float(x).hex()
              for x in array.ravel().astype(np.float64)]
    return " ".join([str(array.ndim)] + [str(n) for n in array.shape] + values)


def emit(dtype, op, v, a, y, limit=0):
    name = {np.float32: "f32", np.float64: "f64"}[dtype]
    parts = [text(np.asarray(x).astype(dtype)) for x in (v, 0.0 if a is None else a, y)]
    lines.append(f"{name} {op}|" + "|".join(parts) + f"|{limit}\n")


def option(name, values):
    return f" {name}=" + ",".join(map(str, values))


def count_windows(extent, window, stride, before, after, ceil):
    room = extent + before + after - window
    count = room // stride + 1
    if ceil and room % stride and count * stride < extent + before:
        count += 1
    return count


def pool(v, windows, largest, ceil=False, count_padding=True):
    """WINDOWS: (size, stride, before, after) of each of the last axes."""
    axes = len(windows)
    extents = v.shape[-axes:]
    outs = [count_windows(n, *w, ceil) for n, w in zip(extents, windows)]
    y = np.empty(v.shape[:-axes] + tuple(outs), np.longdouble)
    for place in itertools.product(*map(range, outs)):
        part, counted, plain = [], 1, 1
        for i, n, (size, stride, before, after) in zip(place, extents, windows):
            first = i * stride - before
            last = min(first + size, n + after)
            counted *= last - first
            part.append(slice(max(first, 0), min(first + size, n)))
        block = v[(..., *part)].astype(np.longdouble).reshape(*v.shape[:-axes], -1)
        if largest:
            y[(..., *place)] = block.max(axis=-1)
        else:
            y[(..., *place)] = block.sum(axis=-1) / (counted if count_padding else block.shape[-1])
    return y


def pools(dtype):
    cases = [((2, 3, 9), [(2, 2, 0, 0)]), ((2, 3, 10), [(3, 2, 1, 1)]), ((7,), [(3, 1, 1, 0)]), ((2, 40), [(5, 3, 2, 1)]),
             ((1, 1, 5), [(4, 7, 2, 2)]), ((2, 2, 6, 7), [(2, 2, 0, 0), (2, 2, 0, 0)]),
             ((2, 7, 8), [(3, 2, 1, 1), (3, 2, 1, 1)]), ((1, 2, 5, 37), [(1, 1, 0, 0), (3, 1, 1, 1)]),
             ((6, 5), [(3, 3, 1, 1), (2, 1, 1, 0)]), ((1, 11, 9), [(4, 3, 2, 1), (5, 2, 0, 2)])]
    for shape, windows in cases:
        v = rng.uniform(-2, 2, shape).astype(dtype)
        rank = len(windows)
        words = option("stride", [w[1] for w in windows]) + option("padding", [p for w in windows for p in w[2:]])
        size = ",".join(str(w[0]) for w in windows)
        for ceil in (False, True):
            more = words + (" ceil=true" if ceil else "")
            y = pool(v, windows, True, ceil)
            if not ceil:
                one = (1,) * (v.ndim - rank)
                same = jax.lax.reduce_window(v, -np.inf, jax.lax.max, one + tuple(w[0] for w in windows),
                                             one + tuple(w[1] for w in windows),
                                             [(0, 0)] * (v.ndim - rank) + [w[2:] for w in windows])
                assert np.array_equal(y, same)
            emit(dtype, f"maxpool{rank}d {size}{more}", v, None, y)
            emit(dtype, f"avgpool{rank}d {size}{more}", v, None, pool(v, windows, False, ceil), 0.51)
            emit(dtype, f"avgpool{rank}d {size}{more} count_padding=false", v, None,
                 pool(v, windows, False, ceil, False), 0.51)
    v = rng.integers(-9, 10, (1, 1, 9000)).astype(dtype)
    emit(dtype, "avgpool1d 3000 stride=2999", v, None, pool(v, [(3000, 2999, 0, 0)], False), 0.51)
    emit(dtype, "avgpool1d 3 stride=900", v, None, pool(v, [(3, 900, 0, 0)], False), 0.51)
    emit(dtype, "avgpool1d 9 stride=4", v[0, :, :5000], None, pool(v[0, :, :5000], [(9, 4, 0, 0)], False), 0.51)
    n, i = np.nan, np.inf
    special = np.array([[n, 1, 2, 3, i, -i, 4, -i], [-i, -i, 1, -0.0, 0.0, -0.0, -i, n]], dtype)
    with np.errstate(all="ignore"):
        emit(dtype, "maxpool1d 2", special, None, pool(special, [(2, 2, 0, 0)], True))
        emit(dtype, "avgpool1d 2 stride=1", special, None, pool(special, [(2, 1, 0, 0)], False))


def convolve(v, k, stride, padding, dilation, groups):
    names = ("NCH", "OIH", "NCH") if v.ndim == 3 else ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(v, k, stride, padding, rhs_dilation=dilation, feature_group_count=groups,
                                        dimension_numbers=names)


def same_padding(window, dilation):
    """As torch's: one more after an axis than before it if their number is odd."""
    return [((w - 1) * d // 2, (w - 1) * d - (w - 1) * d // 2) for w, d in zip(window, dilation)]


def convolutions(dtype):
    cases = [((2, 4, 9), (6, 2, 3), [2], [(1, 2)], [2], 2), ((2, 3, 8), (3, 1, 3), [1], [(1, 1)], [1], 3),
             ((1, 4, 90), (8, 1, 5), [1], [(2, 2)], [1], 4), ((2, 3, 7), (2, 3, 4), [1], "same", [1], 1),
             ((1, 2, 6, 7), (4, 2, 3, 2), [1, 2], [(1, 1), (0, 3)], [2, 1], 1),
             ((2, 4, 7, 6), (8, 1, 2, 3), [2, 3], [(2, 0), (1, 3)], [2, 1], 4),
             ((1, 3, 5, 80), (3, 1, 3, 4), [1, 1], "same", [1, 2], 3),
             ((2, 6, 5, 4), (4, 3, 3, 3), [1, 1], [(1, 1), (1, 1)], [1, 1], 2),
             ((1, 64, 9, 33), (32, 32, 3, 3), [1, 1], "same", [2, 2], 2)]
    for shape, kernel, stride, padding, dilation, groups in cases:
        v, k = (rng.integers(-9, 10, s).astype(dtype) for s in (shape, kernel))
        pads = same_padding(kernel[2:], dilation) if padding == "same" else padding
        words = " padding=same" if padding == "same" else option("padding", [p for pair in pads for p in pair])
        emit(dtype, f"conv{len(shape) - 2}d" + option("stride", stride) + words + option("dilation", dilation) +
             f" groups={groups}", v, k, convolve(v, k, stride, pads, dilation, groups))


def transposed(dtype):
    """By JAX's transpose of the convolution, whose input has the result's shape."""
    cases = [((2, 3, 8), (3, 4, 3), [1], [(0, 0)], [0], [1], 1), ((2, 4, 5), (4, 3, 4), [3], [(1, 2)], [2], [2], 2),
             ((1, 3, 6), (3, 2, 3), [2], [(1, 1)], [1], [1], 3), ((2, 2, 3, 4), (2, 3, 3, 2), [2, 1], [(1, 1), (0, 0)], [1, 0], [1, 1], 1),
             ((1, 4, 4, 3), (4, 1, 2, 3), [2, 3], [(0, 1), (2, 0)], [0, 2], [1, 2], 4),
             ((2, 3, 1, 70), (3, 1, 1, 3), [1, 1], [(0, 0), (1, 1)], [0, 0], [1, 1], 3)]
    for shape, kernel, stride, padding, more, dilation, groups in cases:
        v, k = (rng.integers(-9, 10, s).astype(dtype) for s in (shape, kernel))
        out = [(n - 1) * s - p[0] - p[1] + d * (w - 1) + m + 1
               for n, s, p, d, w, m in zip(shape[2:], stride, padding, dilation, kernel[2:], more)]
        pads = [(p[0], (n - 1) * s + (w - 1) * d + 1 - o - p[0])
                for n, s, p, d, w, o in zip(shape[2:], stride, padding, dilation, kernel[2:], out)]
        zeros = np.zeros((shape[0], kernel[1] * groups, *out), dtype)
        y, = jax.linear_transpose(lambda y: convolve(y, k, stride, pads, dilation, groups), zeros)(v)
        emit(dtype, f"conv_transpose{len(shape) - 2}d" + option("stride", stride) +
             option("padding", [p for pair in padding for p in pair]) + option("output_padding", more) +
             option("dilation", dilation) + f" groups={groups}", v, k, y)


def resample(v, factor, axis, linear, corners):
    n = v.shape[axis]
    i = np.arange(int(n * factor), dtype=np.longdouble)
    m = len(i)
    if corners:
        place = i * (n - 1) / (m - 1) if m > 1 else i
    elif linear:
        place = np.maximum((i + np.longdouble(0.5)) / np.longdouble(factor) - np.longdouble(0.5), 0)
    else:
        place = np.floor(i / np.longdouble(factor))
    place = np.minimum(place, n - 1)
    at = np.floor(place).astype(int)
    rest = (place - at).reshape([-1] + [1] * (v.ndim - axis - 1))
    after = np.minimum(at + 1, n - 1)
    return np.take(v, at, axis) * (1 - rest) + np.take(v, after, axis) * rest


def upsampled(dtype):
    for shape, factors, axes in [((2, 3, 5), [2], [2]), ((1, 2, 3, 4), [2, 3], [2, 3]), ((3, 4), [2.5, 1], [0, 1]), ((7,), [0.5], [0]),
                                 ((2, 1, 3, 2), [3, 4], [2, 3]), ((2, 3, 300), [2], [1]), ((1, 1, 2, 3, 2), [2, 1.5, 3], [2, 3, 4])]:
        v = rng.uniform(0.5, 1.5, shape).astype(dtype)  # no sum cancels
        for mode, corners in (("nearest", False), ("linear", False), ("linear", True)):
            y = v.astype(np.longdouble)
            for factor, axis in zip(factors, axes):
                y = resample(y, factor, axis, mode == "linear", corners)
            if not corners and all(f == int(f) and f > 1 for f in factors):
                same = jax.image.resize(v.astype(np.float64), y.shape, mode, antialias=False)
                assert np.allclose(y.astype(np.float64), same, atol=1e-12), (shape, mode)
            emit(dtype, "upsample " + ",".join(map(str, factors)) + f" mode={mode}" + option("axes", axes) +
                 (" align_corners=true" if corners else ""), v, None, y, 0 if mode == "nearest" else 16)
    special = np.array([1, np.inf, np.nan, -0.0], dtype)
    emit(dtype, "upsample 2", special, None, np.repeat(special, 2))


for dtype in (np.float32, np.float64):
    pools(dtype)
for dtype in (np.float32, np.float64):
    convolutions(dtype)
    transposed(dtype)
for dtype in (np.float32, np.float64):
    upsampled(dtype)

with open(sys.argv[1], "w") as file:
    file.write("# made by tests/golden/make_windows.py; do not edit\n")
    file.writelines(lines)
