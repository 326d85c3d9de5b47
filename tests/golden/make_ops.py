#!/usr/bin/env python3
"""Writes tests/golden/ops/general.txt: results of the general operations.

Made with numpy 2.4.6, scipy 1.17.1 and jax 0.4.30 (CPU) by

    python3 -m venv V && V/bin/pip install numpy==2.4.6 scipy==1.17.1 jax==0.4.30 jaxlib==0.4.30
    V/bin/python tests/golden/make_ops.py tests/golden/ops/general.txt

NumPy gives what it has, to the bit; sums, means and what is made of them are
computed in long double and rounded; logsumexp, softmax and log_softmax of special
values are scipy's; convolutions are JAX's. A line is

    type op arguments|shape and values of v|of the operand|of the result|limit in ulp

with a shape as its number of dimensions and extents, and values that are not
small integers in hexadecimal.
"""
import sys

import jax
import numpy as np
import scipy.special

jax.config.update("jax_enable_x64", True)
L = np.longdouble
rng = np.random.default_rng(20240607)
lines = []


def text(array):
    array = np.asarray(array)
    values = [str(int(x)) if np.isfinite(x) and x == int(x) and abs(x) < 1e6 and (x or not np.signbit(x)) else float(x).hex()
              for x in array.ravel().astype(np.float64)]
    return " ".join([str(array.ndim)] + [str(n) for n in array.shape] + values)


def emit(dtype, op, v, a, y, limit=0):
    name = {np.float32: "f32", np.float64: "f64"}[dtype]
    with np.errstate(all="ignore"):
        parts = [text(np.asarray(x).astype(dtype)) for x in (v, 0.0 if a is None else a, y)]
    lines.append(f"{name} {op}|" + "|".join(parts) + f"|{limit}\n")


def data(dtype, *shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(dtype)


def whole(dtype, *shape):
    return rng.integers(-9, 10, shape).astype(dtype)


def products(dtype):
    # small integers: exact in whatever order
    for v, w in [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)),
                 ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 1, 4, 2)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (2, 4, 3)),
                 ((13, 67), (67, 35)), ((1, 300), (300, 1)), ((30, 9), (9, 1)), ((1, 9), (9, 50))]:
        v, w = whole(dtype, *v), whole(dtype, *w)
        emit(dtype, "matmul", v, w, np.matmul(v, w))
    for v, w in [((3, 4), (5, 4)), ((4,), (5, 4)), ((3, 4), (4,)), ((2, 3, 4), (5, 4)), ((2, 3, 4), (2, 5, 4))]:
        v, w = whole(dtype, *v), whole(dtype, *w)
        emit(dtype, "linear", v, w, np.matmul(v, w if w.ndim == 1 else np.swapaxes(w, -1, -2)))
    for v, w in [((4,), (5, 4)), ((4, 3), (5, 4)), ((4,), (4,)), ((2, 4, 3), (5, 4)), ((2, 4, 3), (2, 5, 4)), ((4, 3), (4,))]:
        v, w = whole(dtype, *v), whole(dtype, *w)
        emit(dtype, "dot", v, w, np.matmul(w, v))
    bad = np.array([[1, np.nan], [0, 0]], dtype)
    with np.errstate(all="ignore"):
        emit(dtype, "matmul", bad, np.zeros((2, 2)), bad @ np.zeros((2, 2), dtype))
        far = np.array([[0, 1], [1, 0]], dtype)
        inf = np.array([[np.inf, 1], [2, 3]], dtype)
        emit(dtype, "matmul", far, inf, far @ inf)
        emit(dtype, "matmul", np.zeros((1, 2), dtype), inf, np.zeros((1, 2), dtype) @ inf)
        emit(dtype, "matmul", inf, np.zeros(2), inf @ np.zeros(2, dtype))


AXES = [("", None), (" axis=0", 0), (" axis=1", 1), (" axis=-1", -1), (" axis=0,2", (0, 2)), (" axis=0,1", (0, 1))]


def reductions(dtype):
    v = data(dtype, 3, 4, 5)
    plus = data(dtype, 3, 4, 35, low=0.5, high=1.5)
    f64 = dtype is np.float64
    for option, axis in AXES:
        for keep in ("", " keepdims=true"):
            k = bool(keep)
            emit(dtype, f"sum{option}{keep}", plus, None, np.sum(plus.astype(L), axis=axis, keepdims=k), 4 if f64 else 0.51)
            emit(dtype, f"mean{option}{keep}", plus, None, np.mean(plus.astype(L), axis=axis, keepdims=k), 4 if f64 else 0.51)
            emit(dtype, f"amax{option}{keep}", v, None, np.amax(v, axis=axis, keepdims=k))
            emit(dtype, f"amin{option}{keep}", v, None, np.amin(v, axis=axis, keepdims=k))
        emit(dtype, f"prod{option}", v, None, np.prod(v.astype(L), axis=axis), 64 if f64 else 0.51)
        emit(dtype, f"var{option}", plus, None, np.var(plus.astype(L), axis=axis), 4 if f64 else 0.51)
        emit(dtype, f"std{option}", plus, None, np.std(plus.astype(L), axis=axis), 4 if f64 else 0.51)
        emit(dtype, f"norm{option}", v, None, np.sqrt(np.sum(v.astype(L) ** 2, axis=axis)), 4 if f64 else 0.51)
        shifted = v.astype(L)
        emit(dtype, f"logsumexp{option}", v, None, np.log(np.sum(np.exp(shifted), axis=axis)), 4)
    for shape, axes in [((0,), " "), ((0, 3), " axis=0"), ((3, 0), " axis=1")]:
        empty, axis = np.zeros(shape, dtype), int(axes[-1]) if axes != " " else None
        emit(dtype, "sum" + axes.rstrip(), empty, None, np.sum(empty, axis=axis))
        emit(dtype, "prod" + axes.rstrip(), empty, None, np.prod(empty, axis=axis))
        emit(dtype, "norm" + axes.rstrip(), empty, None, np.sum(empty, axis=axis))
        emit(dtype, "mean" + axes.rstrip(), empty, None, np.sum(empty, axis=axis) * np.nan)
    n, i = np.nan, np.inf
    special = np.array([[n, 1, 2], [i, 1, -i], [-i, -i, -i], [i, i, 0], [-0.0, 0, 0], [1e30, -1e30, 1], [n, i, 0]], dtype)
    with np.errstate(all="ignore"):
        emit(dtype, "sum axis=1", special, None, np.sum(special.astype(np.float64), axis=1))
        emit(dtype, "amax axis=1", special, None, np.amax(special, axis=1))
        emit(dtype, "amin axis=1", special, None, np.amin(special, axis=1))
        emit(dtype, "prod axis=1", special, None, np.prod(special.astype(L), axis=1), 1)
        emit(dtype, "norm axis=1", special, None, np.sqrt(np.sum(special.astype(L) ** 2, axis=1)), 1)
        emit(dtype, "logsumexp axis=1", special, None, scipy.special.logsumexp(special, axis=1), 2)
        emit(dtype, "softmax axis=1", special, None, scipy.special.softmax(special, axis=1), 2)
        emit(dtype, "log_softmax axis=1", special, None, scipy.special.log_softmax(special, axis=1), 2)
    long = np.arange(40, dtype=dtype)
    long[17] = n
    emit(dtype, "amax", long, None, n)
    emit(dtype, "amin", long, None, n)
    big, small = np.array([3e300, 4e300]), np.array([3e-300, 4e-300])
    if f64:
        emit(dtype, "norm", big, None, 5e300, 1)
        emit(dtype, "norm", small, None, 5e-300, 1)
    else:
        emit(dtype, "norm", big / 1e262, None, 5e38, 1)
        emit(dtype, "norm", small * 1e260, None, np.float32(5e-40), 1)


def along(dtype):
    f64 = dtype is np.float64
    v = data(dtype, 3, 4, 19, low=-4, high=4)
    for axis in (0, 1, 2, -1):
        w = v.astype(L)
        e = np.exp(w - np.max(w, axis=axis, keepdims=True))
        total = np.sum(e, axis=axis, keepdims=True)
        emit(dtype, f"softmax axis={axis}", v, None, e / total, 10)
        emit(dtype, f"log_softmax axis={axis}", v, None, w - np.max(w, axis=axis, keepdims=True) - np.log(total), 5000 if f64 else 16)
        mean = np.mean(w, axis=axis, keepdims=True)
        variance = np.mean((w - mean) ** 2, axis=axis, keepdims=True)
        emit(dtype, f"layernorm axis={axis}", v, None, (w - mean) / np.sqrt(variance + L("1e-5")), 1000 if f64 else 0.6)
        emit(dtype, f"layernorm axis={axis} eps=0.5", v, None, (w - mean) / np.sqrt(variance + L("0.5")), 1000 if f64 else 0.6)
        square = np.mean(w * w, axis=axis, keepdims=True)
        emit(dtype, f"rmsnorm axis={axis}", v, None, w / np.sqrt(square + L("1e-5")), 4 if f64 else 0.6)
        emit(dtype, f"cumsum axis={axis}", v, None, np.cumsum(v, axis=axis))


def shapes(dtype):
    v = whole(dtype, 3, 4, 5)
    emit(dtype, "transpose", v, None, v.T)
    emit(dtype, "transpose", v[0], None, v[0].T)
    emit(dtype, "transpose", v[0, 0], None, v[0, 0])
    for axes in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [-1, 0, 1], [0, 1, 2], [2, 1, 0]]:
        emit(dtype, "transpose axes=" + ",".join(map(str, axes)), v, None, v.transpose(axes))
    emit(dtype, "transpose axes=0,2,1,3", v.reshape(3, 2, 2, 5), None, v.reshape(3, 2, 2, 5).transpose(0, 2, 1, 3))
    emit(dtype, "reshape 5 -1", v, None, v.reshape(5, -1))
    emit(dtype, "reshape -1", v, None, v.reshape(-1))
    emit(dtype, "flatten", v, None, v.ravel())
    for option, key in [("start=1", np.s_[1:]), ("stop=-1", np.s_[:-1]), ("start=-2 stop=9", np.s_[-2:9]),
                        ("step=-1", np.s_[::-1]), ("start=5 stop=0 step=-2", np.s_[5:0:-2]), ("start=2 stop=1", np.s_[2:1]),
                        ("start=-9 stop=2 step=2", np.s_[-9:2:2]), ("start=1 stop=-9 step=-1", np.s_[1:-9:-1]),
                        ("start=9 step=-3", np.s_[9::-3]), ("start=-1 stop=-9 step=-2", np.s_[-1:-9:-2])]:
        emit(dtype, f"slice {option}", v, None, v[key])
        emit(dtype, f"slice axis=1 {option}", v, None, v[:, key])
        emit(dtype, f"slice axis=-1 {option}", v, None, v[..., key])
    for axis in range(3):
        widths = [(0, 0)] * 3
        widths[axis] = (2, 1)
        emit(dtype, f"pad 2 1 axis={axis} value=-1.5", v, None, np.pad(v, widths, constant_values=-1.5))
        other = np.roll(data(dtype, 3, 4, 5), 1)
        emit(dtype, f"concat axis={axis}", v, other, np.concatenate([v, other], axis))
        for shift in (0, 1, -1, 7, -23):
            emit(dtype, f"roll {shift} axis={axis}", v, None, np.roll(v, shift, axis))


def laplacian(v, axes, dx, boundary):
    mode = {"periodic": "wrap", "zero": "constant", "reflect": "reflect"}[boundary]
    y = None
    for axis in axes:
        widths = [(0, 0)] * v.ndim
        widths[axis] = (1, 1)
        edge = v.shape[axis] == 1 and boundary == "reflect"
        p = np.moveaxis(np.pad(v, widths, mode="edge" if edge else mode), axis, 0)
        d = np.moveaxis((p[:-2] - 2 * p[1:-1]) + p[2:], 0, axis)
        y = d if y is None else y + d
    return y if dx == 1 else y / (dx * dx)


def stencils(dtype):
    for shape in ((9,), (6, 7), (4, 3, 5), (1, 4), (3, 1), (2, 2), (9, 20)):
        v = data(dtype, *shape)
        sets = [(" axes=" + ",".join(map(str, s)), s) for s in ([0], [0, 1], [1], [0, 2]) if max(s) < len(shape)]
        for option, axes in [("", range(len(shape)))] + sets:
            for boundary in ("periodic", "zero", "reflect"):
                for dx in (1, 0.25) if len(shape) == 1 else (1,):
                    emit(dtype, f"laplacian{option} boundary={boundary} dx={dx}", v, None,
                         laplacian(v, axes, dtype(dx), boundary))
    for v, k, stride, pad in [((2, 3, 9), (4, 3, 3), 1, 0), ((1, 2, 8), (3, 2, 4), 2, 1), ((2, 1, 5), (2, 1, 3), 3, 4)]:
        v, k = whole(dtype, *v), whole(dtype, *k)
        y = jax.lax.conv_general_dilated(v, k, (stride,), [(pad, pad)])
        emit(dtype, f"conv1d stride={stride} padding={pad}", v, k, y)
    for v, k, stride, pad in [((2, 3, 6, 7), (4, 3, 3, 3), (1, 1), (0, 0)), ((1, 2, 5, 8), (2, 2, 2, 3), (2, 1), (0, 2)),
                              ((1, 1, 4, 4), (1, 1, 1, 1), (3, 2), (1, 3)), ((1, 2, 10, 11), (2, 2, 5, 5), (1, 2), (2, 2))]:
        v, k = whole(dtype, *v), whole(dtype, *k)
        y = jax.lax.conv_general_dilated(v, k, stride, [(p, p) for p in pad])
        emit(dtype, f"conv2d stride={stride[0]},{stride[1]} padding={pad[0]},{pad[1]}", v, k, y)


def losses(dtype):
    for shape, other in [((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((5, 31), (5, 31)), ((), ())]:
        v, t = data(dtype, *shape), data(dtype, *other)
        d = (v - t).astype(L)  # the difference is rounded to the type, as NumPy's is
        emit(dtype, "mse", v, t, np.mean(d * d), 4)
        emit(dtype, "mae", v, t, np.mean(np.abs(d)), 4)
        for delta in ("1", "0.25"):
            x = L(delta)
            terms = np.where(np.abs(d) <= x, d * d / 2, x * (np.abs(d) - x / 2))
            emit(dtype, f"huber delta={delta}", v, t, np.mean(terms), 4)
    for shape in ((3, 5), (5,), (2, 3, 4), (2, 1100)):
        v = data(dtype, *shape, low=-5, high=5)
        t = rng.integers(0, shape[-1], shape[:-1])
        w = v.astype(L)
        picked = np.take_along_axis(w, np.asarray(t)[..., None], -1)[..., 0]
        emit(dtype, "cross_entropy", v, t, np.mean(np.log(np.sum(np.exp(w), -1)) - picked), 4)


for dtype in (np.float32, np.float64):
    products(dtype)
    reductions(dtype)
    along(dtype)
    shapes(dtype)
    stencils(dtype)
    losses(dtype)

# Data of their own, so that the lines above stay as they are when a function is added.
rng = np.random.default_rng(20261128)


def moved(dtype):
    v = whole(dtype, 3, 4, 5)
    for axis in (0, 1, 2, 3, -1, -4):
        other = whole(dtype, 3, 4, 5)
        emit(dtype, f"stack axis={axis}", v, other, np.stack([v, other], axis))
        emit(dtype, f"expand_dims axis={axis}", v, None, np.expand_dims(v, axis))
    emit(dtype, "stack", v[0, 0, 0], v[0, 0, 1], np.stack([v[0, 0, 0], v[0, 0, 1]]))
    emit(dtype, "squeeze", v.reshape(1, 3, 1, 20, 1), None, np.squeeze(v.reshape(1, 3, 1, 20, 1)))
    emit(dtype, "squeeze axis=-1", v.reshape(1, 3, 1, 20, 1), None, np.squeeze(v.reshape(1, 3, 1, 20, 1), -1))
    emit(dtype, "squeeze axis=0,2", v.reshape(1, 3, 1, 20, 1), None, np.squeeze(v.reshape(1, 3, 1, 20, 1), (0, 2)))
    for option, axis in [("", None), (" axis=0", 0), (" axis=1", 1), (" axis=-1", 2), (" axis=0,-1", (0, 2)), (" axis=1,0", (1, 0))]:
        emit(dtype, f"flip{option}", v, None, np.flip(v, axis))
    special = np.array([[np.nan, 1, -0.0], [np.inf, -np.inf, np.nan], [-0.0, np.nan, 2]], dtype)
    for array in (v, v[0], v[:, :, 0], special, whole(dtype, 2, 1, 6, 3)):
        for k in (0, 1, -1, 3, -9, 9):
            emit(dtype, f"tril {k}", array, None, np.tril(array, k))
            emit(dtype, f"triu k={k}", array, None, np.triu(array, k))


for dtype in (np.float32, np.float64):
    moved(dtype)
rng = np.random.default_rng(20261129)
np.seterr(all="ignore")


def normal(w, axes, mean):
    m = np.mean(w, axis=axes, keepdims=True) if mean else 0
    return (w - m) / np.sqrt(np.mean((w - m) ** 2, axis=axes, keepdims=True) + L("1e-5"))


def ordered(dtype):
    f64 = dtype is np.float64
    v, ties = data(dtype, 3, 4, 19), whole(dtype, 3, 4, 5)
    special = np.array([[np.nan, 1, -0.0, 0], [np.inf, -np.inf, np.nan, 1], [2, 2, -1, 3], [0, 0, 0, 0]], dtype)
    for array in (v, ties, special):
        for axis in range(-array.ndim, array.ndim):
            emit(dtype, f"sort axis={axis}", array, None, np.sort(array, axis=axis, kind="stable"))
            emit(dtype, f"sort axis={axis} descending=true", array, None,
                 np.flip(np.sort(np.flip(array, axis), axis=axis, kind="stable"), axis))
            emit(dtype, f"topk 2 axis={axis}", array, None,
                 np.flip(np.sort(array, axis=axis, kind="stable"), axis).take([0, 1], axis))
            emit(dtype, f"cumprod axis={axis}", array, None, np.cumprod(array, axis=axis))
            emit(dtype, f"cummax axis={axis}", array, None, np.maximum.accumulate(array, axis=axis))
            emit(dtype, f"cummin axis={axis}", array, None, np.minimum.accumulate(array, axis=axis))
            emit(dtype, f"logcumsumexp axis={axis}", array, None,
                 np.logaddexp.accumulate(array.astype(L), axis=axis), 512 if f64 else 0.51)
    for option, axis in AXES:
        for keep in ("", " keepdims=true"):
            k = {"axis": axis, "keepdims": bool(keep)}
            emit(dtype, f"any{option}{keep}", ties, None, np.any(ties, **k))
            emit(dtype, f"all{option}{keep}", ties, None, np.all(ties, **k))
            for array in (v, ties):
                emit(dtype, f"median{option}{keep}", array, None, np.median(array.astype(L), **k), 1)
                for q in ("0", "0.25", "0.9", "1") if array is v else ("0.25", "1"):
                    emit(dtype, f"quantile {q}{option}{keep}", array, None, np.quantile(array.astype(L), float(q), **k), 256 if f64 else 1)
    for axis in (0, 1):
        emit(dtype, f"any axis={axis}", special, None, np.any(special, axis=axis))
        emit(dtype, f"all axis={axis}", special, None, np.all(special, axis=axis))
        emit(dtype, f"median axis={axis}", special[:3, :2], None, np.median(special[:3, :2], axis=axis))
        emit(dtype, f"quantile 0.3 axis={axis}", special[2:], None, np.quantile(special[2:], 0.3, axis=axis), 1)
    w = v.astype(L)
    for axes in ((0, 1), (0, 2), (1, 2), (2, 0, 1)):
        named = ",".join(map(str, axes))
        e = np.exp(w - np.max(w))
        total = np.sum(e, axis=axes, keepdims=True)
        emit(dtype, f"softmax axis={named}", v, None, e / total, 10)
        emit(dtype, f"log_softmax axis={named}", v, None, w - np.max(w) - np.log(total), 5000 if f64 else 16)
        emit(dtype, f"layernorm axis={named}", v, None, normal(w, axes, True), 1000 if f64 else 0.6)
        emit(dtype, f"rmsnorm axis={named}", v, None, normal(w, axes, False), 4 if f64 else 0.6)
    for groups in (1, 2, 4):
        grouped = normal(w.reshape(3, groups, 4 // groups, 19), (2, 3), True)
        emit(dtype, f"groupnorm {groups}", v, None, grouped.reshape(3, 4, 19), 1000 if f64 else 0.6)


def repeated(dtype):
    v = whole(dtype, 2, 3, 4)
    for array, shape in [(v, (2, 3, 4)), (v, (5, 2, 3, 4)), (v[:1], (2, 3, 4)), (v[:, :1], (2, 3, 4)),
                         (v[0, 0, 0], (2, 2)), (v[0, :, :1], (2, 3, 2)), (v[:0], (0, 3, 4))]:
        emit(dtype, "broadcast_to " + ",".join(map(str, shape)), array, None, np.broadcast_to(array, shape))
    for counts in ((2, 1), (1, 2, 3), (2, 1, 1), (2, 1, 1, 2), (0, 1, 1), (3, 2, 2)):
        emit(dtype, "tile " + ",".join(map(str, counts)), v, None, np.tile(v, counts))
    for axis in range(-3, 3):
        for n in (0, 1, 3):
            emit(dtype, f"repeat_each {n} axis={axis}", v, None, np.repeat(v, n, axis))
    emit(dtype, "diag", v[0, 0], None, np.diag(v[0, 0]))
    for array in (v, v[0], v[:, :, :2], v[0, :, :1], v[:, :, :0]):
        emit(dtype, "diag", array, None, np.diagonal(array, axis1=-2, axis2=-1))


for dtype in (np.float32, np.float64):
    ordered(dtype)
    repeated(dtype)

with open(sys.argv[1], "w") as file:
    file.write("# made by tests/golden/make_ops.py; do not edit\n")
    file.writelines(lines)
