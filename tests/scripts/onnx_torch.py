"""
Models of ONNX, computed by torch's own operations in double precision: the values of a graph, and gradients by autograd.
check-onnx and check-onnx-models compare what `ckptc grad` gives with these.

    run(model, {"x": tensor}, {"w": tensor})     the outputs; the last are leaves in the place of weights

An operator for which torch has no equal raises Unsupported.
"""
import math

import numpy
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper


class Unsupported(Exception):
    pass


def tensor_of(proto):
    """The elements of a TensorProto: floating ones are doubles."""
    array = proto if isinstance(proto, numpy.ndarray) else numpy_helper.to_array(proto)
    if array.dtype.kind not in "fiub" or array.dtype.name == "bfloat16":
        array = array.astype(numpy.float64)
    if array.dtype.name in ("uint16", "uint32", "uint64"):
        array = array.astype(numpy.int64)
    t = torch.from_numpy(numpy.array(array))
    return t.double() if t.is_floating_point() else t


def need(condition, why):
    if not condition:
        raise Unsupported(why)


def ints(t):
    return [int(v) for v in t.reshape(-1)]


def dtype_of(number):
    name = onnx.TensorProto.DataType.Name(number)
    if name in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"):
        return torch.float64
    need(name in ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8"), name)
    return getattr(torch, name.lower())


class Node:
    """A node, its attributes (with a function's references resolved) and its version of the operators' set."""

    def __init__(self, proto, version, bound):
        self.kind, self.proto, self.version = proto.op_type, proto, version
        self.values = {}
        for a in proto.attribute:
            if a.ref_attr_name:
                if a.ref_attr_name in bound:
                    self.values[a.name] = bound[a.ref_attr_name]
            else:
                self.values[a.name] = helper.get_attribute_value(a)

    def get(self, name, otherwise=None):
        value = self.values.get(name, otherwise)
        return value.decode() if isinstance(value, bytes) else value


def axes_of(n, x, given, since):
    axes = n.get("axes") if n.version < since else (ints(given) if given is not None else None)
    if axes is None or len(axes) == 0:
        return [] if n.get("noop_with_empty_axes", 0) else list(range(x.dim()))
    return [a % x.dim() for a in axes]


# Windows

def pads_of(n, extents, kernel, strides, dilations):
    auto = n.get("auto_pad", "NOTSET")
    space = len(kernel)
    if auto in ("NOTSET", ""):
        pads = n.get("pads", [0] * 2 * space)
        return list(zip(pads[:space], pads[space:]))
    if auto == "VALID":
        return [(0, 0)] * space
    pairs = []
    for e, k, s, d in zip(extents, kernel, strides, dilations):
        total = max((-(-e // s) - 1) * s + (k - 1) * d + 1 - e, 0)
        pairs.append((total // 2, total - total // 2) if auto == "SAME_UPPER" else (total - total // 2, total // 2))
    return pairs


def padded(x, pairs, value=0.0):
    flat = [p for pair in reversed(pairs) for p in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def conv(n, x, w, b=None):
    space = x.dim() - 2
    need(space in (1, 2, 3), "axes")
    strides, dilations = n.get("strides", [1] * space), n.get("dilations", [1] * space)
    x = padded(x, pads_of(n, x.shape[2:], w.shape[2:], strides, dilations))
    return (F.conv1d, F.conv2d, F.conv3d)[space - 1](x, w, b, strides, 0, dilations, n.get("group", 1))


def conv_transpose(n, x, w, b=None):
    space = x.dim() - 2
    need(space in (1, 2, 3) and n.get("output_shape") is None, "output_shape")
    need(n.get("auto_pad", "NOTSET") in ("NOTSET", "VALID"), "auto_pad")
    strides, dilations = n.get("strides", [1] * space), n.get("dilations", [1] * space)
    more, pads = n.get("output_padding", [0] * space), n.get("pads", [0] * 2 * space)
    need(all(m < max(s, d) for m, s, d in zip(more, strides, dilations)), "output_padding")
    call = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[space - 1]
    y = call(x, w, b, strides, 0, more, n.get("group", 1), dilations)
    for i in range(space):
        y = y.narrow(2 + i, pads[i], y.shape[2 + i] - pads[i] - pads[space + i])
    return y


def max_pool(n, x):
    space = x.dim() - 2
    need(len(n.proto.output) == 1, "indices")
    kernel = n.get("kernel_shape")
    strides, dilations = n.get("strides", [1] * space), n.get("dilations", [1] * space)
    x = padded(x, pads_of(n, x.shape[2:], kernel, strides, dilations), -math.inf)
    call = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[space - 1]
    return call(x, kernel, strides, 0, dilations, bool(n.get("ceil_mode", 0)))


def average_pool(n, x):
    space = x.dim() - 2
    kernel, strides = n.get("kernel_shape"), n.get("strides", [1] * space)
    need(all(d == 1 for d in n.get("dilations", [1])) and not n.get("ceil_mode", 0), "dilations")
    pairs = pads_of(n, x.shape[2:], kernel, strides, [1] * space)
    call = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[space - 1]
    sums = call(padded(x, pairs), kernel, strides)
    if n.get("count_include_pad", 0):
        return sums
    return sums / call(padded(torch.ones_like(x), pairs), kernel, strides)


def resize(n, x, roi=None, scales=None, sizes=None):
    mode, mapping = n.get("mode", "nearest"), n.get("coordinate_transformation_mode", "half_pixel")
    need(n.version >= 11 and n.get("axes") is None and not n.get("antialias", 0) and not n.get("exclude_outside", 0), "mode")
    need(n.get("keep_aspect_ratio_policy", "stretch") == "stretch", "policy")
    if sizes is not None and sizes.numel():
        size = ints(sizes)
    else:
        size = [math.floor(e * float(s)) for e, s in zip(x.shape, scales)]
        need(all(e * float(s) == t for e, s, t in zip(x.shape, scales, size)), "scales that leave a rest")
    need(list(x.shape[:2]) == size[:2] and x.dim() in (3, 4, 5), "axes")
    if mode == "nearest":
        need(mapping == "asymmetric" and n.get("nearest_mode") == "floor", mapping)
        return F.interpolate(x, size[2:], mode="nearest")
    need(mode == "linear" or x.dim() == 4, mode)
    need(mode == "linear" or n.get("cubic_coeff_a", -0.75) == -0.75, "a")
    names = {"linear": ("linear", "bilinear", "trilinear")[x.dim() - 3], "cubic": "bicubic"}
    need(mapping in ("half_pixel", "align_corners", "pytorch_half_pixel"), mapping)
    return F.interpolate(x, size[2:], mode=names[mode], align_corners=mapping == "align_corners")


# Normalisation

def layer_norm(n, x, scale=None, bias=None):
    need(len(n.proto.output) == 1, "statistics")
    axis = n.get("axis", -1) % x.dim()
    y = F.layer_norm(x, x.shape[axis:], eps=n.get("epsilon", 1e-5))
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def rms_norm(n, x, scale):
    axis = n.get("axis", -1) % x.dim()
    return F.rms_norm(x, x.shape[axis:], eps=n.get("epsilon", 1e-5)) * scale


def batch_norm(n, x, scale, bias, mean, var):
    need(not n.get("training_mode", 0), "training_mode")
    return F.batch_norm(x, mean, var, scale, bias, False, 0, n.get("epsilon", 1e-5))


def group_norm(n, x, scale, bias):
    need(n.version >= 21, "scales by group")
    return F.group_norm(x, n.get("num_groups"), scale, bias, n.get("epsilon", 1e-5))


def lrn(n, x):
    need(n.get("size") % 2 == 1, "even size")
    return F.local_response_norm(x, n.get("size"), n.get("alpha", 1e-4), n.get("beta", 0.75), n.get("bias", 1.0))


def softmax(call):
    def made(n, x):
        if n.version >= 13:
            return call(x, n.get("axis", -1))
        axis = n.get("axis", 1) % max(x.dim(), 1)
        flat = x.reshape(math.prod(x.shape[:axis]), -1)
        return call(flat, 1).reshape(x.shape)

    return made


def reduce(call, since=18):
    def made(n, x, axes=None):
        dims = axes_of(n, x, axes, since)
        return call(x, dims, bool(n.get("keepdims", 1))) if dims or not n.get("noop_with_empty_axes", 0) else call(x, [], True)

    return made


def product(x, dims, keep):
    for d in sorted(dims, reverse=True):
        x = x.prod(d, keepdim=keep)
    return x


def over(call):
    """CALL, which takes no empty list of axes to mean none."""
    return lambda x, dims, keep: call(x, dims, keep) if dims else x


# Places

def reshape(n, x, shape):
    to = ints(shape)
    if not n.get("allowzero", 0):
        to = [x.shape[i] if e == 0 else e for i, e in enumerate(to)]
    return x.reshape(to)


def squeeze(n, x, axes=None):
    dims = axes_of(n, x, axes, 13) if axes is not None or n.get("axes") else [i for i, e in enumerate(x.shape) if e == 1]
    return x.reshape([e for i, e in enumerate(x.shape) if i not in dims])


def unsqueeze(n, x, axes=None):
    dims = n.get("axes") if n.version < 13 else ints(axes)
    total = x.dim() + len(dims)
    for d in sorted(a % total for a in dims):
        x = x.unsqueeze(d)
    return x


def slice_of(n, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = (n.get("starts"), n.get("ends")) if n.version < 10 else (ints(starts), ints(ends))
    axes = n.get("axes") if n.version < 10 else ints(axes) if axes is not None else None
    for i, (a, b) in enumerate(zip(starts, ends)):
        axis, step = (axes[i] if axes else i) % x.dim(), int(steps.reshape(-1)[i]) if steps is not None else 1
        places = range(x.shape[axis])[slice(a if a > -(2**62) else None, b if step > 0 or b >= -x.shape[axis] else None, step)]
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.long))
    return x


def split(n, x, sizes=None):
    axis, parts = n.get("axis", 0), len(n.proto.output)
    sizes = n.get("split") if n.version < 13 else ints(sizes) if sizes is not None else None
    if not sizes:
        each = -(-x.shape[axis] // parts)
        sizes = [min(each, x.shape[axis] - each * i) for i in range(parts)]
    return x.split(list(sizes), axis)


def pad(n, x, pads=None, value=None, axes=None):
    pads = n.get("pads") if n.version < 11 else ints(pads)
    value = n.get("value", 0.0) if n.version < 11 else float(value.reshape(-1)[0]) if value is not None and value.numel() else 0.0
    dims = [a % x.dim() for a in ints(axes)] if axes is not None else range(x.dim())
    mode = n.get("mode", "constant")
    for i, d in enumerate(dims):
        before, after, extent = pads[i], pads[len(pads) // 2 + i], x.shape[d]
        if mode == "constant":
            pairs = [(0, 0)] * x.dim()
            pairs[d] = (before, after)
            x = padded(x, pairs, value)
            continue
        name = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}[mode]
        x = x.index_select(d, torch.from_numpy(numpy.pad(numpy.arange(extent), (before, after), name)))
    return x


def gather(n, x, indices):
    axis = n.get("axis", 0) % x.dim()
    at = indices.long() % x.shape[axis]
    y = x.index_select(axis, at.reshape(-1))
    return y.reshape([*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]])


def gather_elements(n, x, indices):
    axis = n.get("axis", 0) % x.dim()
    return x.gather(axis, indices.long() % x.shape[axis])


def gather_nd(n, x, indices):
    need(not n.get("batch_dims", 0), "batch_dims")
    return x[tuple(indices.long().movedim(-1, 0))]


def scatter_elements(n, x, indices, updates):
    axis, how = n.get("axis", 0) % x.dim(), n.get("reduction", "none")
    at = indices.long() % x.shape[axis]
    if how == "none":
        return x.scatter(axis, at, updates)
    return x.scatter_reduce(axis, at, updates, {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}[how])


def scatter_nd(n, x, indices, updates):
    how = n.get("reduction", "none")
    need(how in ("none", "add"), how)
    return x.index_put(tuple(indices.long().movedim(-1, 0)), updates, accumulate=how == "add")


def depth_to_space(n, x):
    s, (b, c, h, w) = n.get("blocksize"), x.shape
    if n.get("mode", "DCR") == "DCR":
        return x.reshape(b, s, s, c // s**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(b, c // s**2, h * s, w * s)
    return x.reshape(b, c // s**2, s, s, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // s**2, h * s, w * s)


def space_to_depth(n, x):
    s, (b, c, h, w) = n.get("blocksize"), x.shape
    return x.reshape(b, c, h // s, s, w // s, s).permute(0, 3, 5, 1, 2, 4).reshape(b, c * s**2, h // s, w // s)


def cumulative(call):
    def made(n, x, axis=None):
        d = int(axis.reshape(-1)[0])
        x = x.flip(d) if n.get("reverse", 0) else x
        y = call(x, d)
        if n.get("exclusive", 0):
            first = torch.full_like(y.narrow(d, 0, 1), 0 if call is torch.cumsum else 1)
            y = torch.cat([first, y.narrow(d, 0, y.shape[d] - 1)], d)
        return y.flip(d) if n.get("reverse", 0) else y

    return made


def trilu(n, x, k=None):
    k = int(k.reshape(-1)[0]) if k is not None else 0
    return torch.triu(x, k) if n.get("upper", 1) else torch.tril(x, k)


def top_k(n, x, k=None):
    need(n.version >= 10, "k is an attribute")
    return torch.topk(x, int(k.reshape(-1)[0]), n.get("axis", -1), bool(n.get("largest", 1)), bool(n.get("sorted", 1)))


# Products

def gemm(n, a, b, c=None):
    y = n.get("alpha", 1.0) * (a.t() if n.get("transA", 0) else a) @ (b.t() if n.get("transB", 0) else b)
    return y if c is None else y + n.get("beta", 1.0) * c


def recurrent(n, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None):
    """RNN, GRU and LSTM of the usual activations, written out."""
    usual = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[n.kind] * w.shape[0]
    need(n.get("activations", usual) in (usual, [u.encode() for u in usual]) and not n.get("clip") and not n.get("input_forget"), "activations")
    need(lengths is None or all(v == x.shape[1 if n.get("layout", 0) else 0] for v in ints(lengths)), "lengths")
    first = bool(n.get("layout", 0))
    x = x.transpose(0, 1) if first else x
    size, outs, hs, cs = r.shape[2], [], [], []
    for d in range(w.shape[0]):
        back = d == 1 or n.get("direction", "forward") == "reverse"
        state = [h0, c0]
        h, c = ((s.transpose(0, 1) if first else s)[d] if s is not None else x.new_zeros(x.shape[1], size) for s in state)
        wb, rb = (b[d].chunk(2) if b is not None else (0.0, 0.0))
        pi, po, pf = p[d].chunk(3) if p is not None else (0.0, 0.0, 0.0)
        steps = []
        for t in reversed(range(x.shape[0])) if back else range(x.shape[0]):
            u, v = x[t] @ w[d].t() + wb, h @ r[d].t() + rb
            if n.kind == "RNN":
                h = torch.tanh(u + v)
            elif n.kind == "GRU":
                (uz, ur, uh), (vz, vr, vh) = u.chunk(3, -1), v.chunk(3, -1)
                z, reset = torch.sigmoid(uz + vz), torch.sigmoid(ur + vr)
                if n.get("linear_before_reset", 0):
                    fresh = torch.tanh(uh + reset * vh)
                else:
                    bias = rb.chunk(3)[2] if b is not None else 0.0
                    fresh = torch.tanh(uh + (reset * h) @ r[d].chunk(3)[2].t() + bias)
                h = (1 - z) * fresh + z * h
            else:
                i, o, f, g = (u + v).chunk(4, -1)
                c = torch.sigmoid(f + pf * c) * c + torch.sigmoid(i + pi * c) * torch.tanh(g)
                h = torch.sigmoid(o + po * c) * torch.tanh(c)
            steps.append(h)
        outs.append(torch.stack(steps[::-1] if back else steps))
        hs.append(h)
        cs.append(c)
    y, h, c = torch.stack(outs, 1), torch.stack(hs), torch.stack(cs)
    if first:
        y, h, c = y.permute(2, 0, 1, 3), h.transpose(0, 1), c.transpose(0, 1)
    return (y, h, c) if n.kind == "LSTM" else (y, h)


def grid_sample(n, x, grid):
    mode = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "bicubic": "bicubic", "cubic": "bicubic"}
    return F.grid_sample(x, grid, mode[n.get("mode", "linear")], n.get("padding_mode", "zeros"), bool(n.get("align_corners", 0)))


def nll_loss(n, x, target, weight=None):
    return F.nll_loss(x, target.long(), weight, ignore_index=n.get("ignore_index", -100), reduction=n.get("reduction", "mean"))


def cross_entropy(n, x, target, weight=None):
    need(len(n.proto.output) == 1, "probabilities")
    how = n.get("reduction", "mean")
    return F.cross_entropy(x, target.long(), weight, ignore_index=n.get("ignore_index", -100), reduction=how)


def fold(call):
    def made(n, *values):
        y = values[0]
        for v in values[1:]:
            y = call(y, v)
        return y

    return made


def divide(n, a, b):
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def clip(n, x, low=None, high=None):
    low = n.get("min") if n.version < 11 else low
    high = n.get("max") if n.version < 11 else high
    x = x if low is None else torch.maximum(x, torch.as_tensor(low, dtype=x.dtype))
    return x if high is None else torch.minimum(x, torch.as_tensor(high, dtype=x.dtype))


def constant(n):
    for name, value in n.values.items():
        if name == "value":
            return tensor_of(value)
        if name in ("value_float", "value_floats"):
            return torch.tensor(value, dtype=torch.float64)
        if name in ("value_int", "value_ints"):
            return torch.tensor(value, dtype=torch.int64)
    raise Unsupported("a constant of strings")


def constant_of_shape(n, shape):
    value = tensor_of(n.get("value")).reshape(()) if n.get("value") is not None else torch.tensor(0.0, dtype=torch.float64)
    return value.expand(ints(shape)).clone()


def cast(n, x, like=None):
    to = like.dtype if like is not None else dtype_of(n.get("to"))
    return x.to(to)


def shape_of(n, x):
    start, end = n.get("start", 0), n.get("end")
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


def one(call):
    return lambda n, x: call(x)


OPERATORS = {
    **{name: one(getattr(torch, name.lower())) for name in (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round Sigmoid Sign Sin Sinh "
        "Sqrt Tan Tanh").split()},
    "Relu": one(torch.relu), "Softplus": one(F.softplus), "Softsign": one(F.softsign), "Mish": one(F.mish),
    "HardSwish": one(F.hardswish), "Identity": lambda n, x: x, "Dropout": lambda n, x, *rest: x,
    "LeakyRelu": lambda n, x: F.leaky_relu(x, n.get("alpha", 0.01)), "Elu": lambda n, x: F.elu(x, n.get("alpha", 1.0)),
    "Celu": lambda n, x: F.celu(x, n.get("alpha", 1.0)),
    "Selu": lambda n, x: n.get("gamma", 1.05070102214813232421875) * F.elu(x, n.get("alpha", 1.67326319217681884765625)),
    "Gelu": lambda n, x: F.gelu(x, approximate=n.get("approximate", "none")),
    "Swish": lambda n, x: x * torch.sigmoid(n.get("alpha", 1.0) * x),
    "HardSigmoid": lambda n, x: torch.clamp(n.get("alpha", 0.2) * x + n.get("beta", 0.5), 0, 1),
    "ThresholdedRelu": lambda n, x: torch.where(x > n.get("alpha", 1.0), x, torch.zeros_like(x)),
    "PRelu": lambda n, x, a: torch.where(x > 0, x, a * x),
    "Shrink": lambda n, x: torch.where(x < -n.get("lambd", 0.5), x + n.get("bias", 0.0), torch.where(
        x > n.get("lambd", 0.5), x - n.get("bias", 0.0), torch.zeros_like(x))),
    "Add": lambda n, a, b: a + b, "Sub": lambda n, a, b: a - b, "Mul": lambda n, a, b: a * b, "Div": divide,
    "Pow": lambda n, a, b: a.pow(b).to(a.dtype), "MatMul": lambda n, a, b: a @ b, "Gemm": gemm,
    "Mod": lambda n, a, b: torch.fmod(a, b) if n.get("fmod", 0) else torch.remainder(a, b),
    "Max": fold(torch.maximum), "Min": fold(torch.minimum), "Sum": fold(torch.add),
    "Mean": lambda n, *v: sum(v) / len(v),
    "Equal": lambda n, a, b: a == b, "Less": lambda n, a, b: a < b, "Greater": lambda n, a, b: a > b,
    "LessOrEqual": lambda n, a, b: a <= b, "GreaterOrEqual": lambda n, a, b: a >= b,
    "And": lambda n, a, b: a & b, "Or": lambda n, a, b: a | b, "Xor": lambda n, a, b: a ^ b, "Not": lambda n, a: ~a,
    "IsNaN": one(torch.isnan), "Where": lambda n, c, a, b: torch.where(c, a, b), "Clip": clip,
    "Constant": constant, "ConstantOfShape": constant_of_shape, "Cast": cast, "CastLike": cast, "Shape": shape_of,
    "Size": lambda n, x: torch.tensor(x.numel()),
    "Range": lambda n, a, b, d: torch.arange(a.item(), b.item(), d.item(), dtype=a.dtype),
    "Reshape": reshape, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Slice": slice_of, "Split": split, "Pad": pad,
    "Flatten": lambda n, x: x.reshape(math.prod(x.shape[: n.get("axis", 1) % (x.dim() + 1) if n.get("axis", 1) >= 0 else n.get(
        "axis") % x.dim()]), -1),
    "Transpose": lambda n, x: x.permute(n.get("perm", list(reversed(range(x.dim()))))),
    "Concat": lambda n, *v: torch.cat(v, n.get("axis", 1)),
    "Expand": lambda n, x, shape: x.expand(numpy.broadcast_shapes(tuple(x.shape), tuple(ints(shape)))),
    "Tile": lambda n, x, counts: x.tile(ints(counts)), "Trilu": trilu,
    "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd, "ScatterElements": scatter_elements,
    "Scatter": scatter_elements, "ScatterND": scatter_nd, "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth,
    "CumSum": cumulative(torch.cumsum), "CumProd": cumulative(torch.cumprod), "TopK": top_k,
    "ArgMax": lambda n, x: torch.argmax(x, n.get("axis", 0), bool(n.get("keepdims", 1))),
    "ReduceSum": reduce(over(torch.sum), 13), "ReduceMean": reduce(over(torch.mean)),
    "ReduceMax": reduce(over(torch.amax)), "ReduceMin": reduce(over(torch.amin)), "ReduceProd": reduce(product),
    "ReduceL1": reduce(lambda x, d, k: over(torch.sum)(x.abs(), d, k)),
    "ReduceL2": reduce(lambda x, d, k: over(torch.sum)(x * x, d, k).sqrt()),
    "ReduceSumSquare": reduce(lambda x, d, k: over(torch.sum)(x * x, d, k)),
    "ReduceLogSum": reduce(lambda x, d, k: over(torch.sum)(x, d, k).log()),
    "ReduceLogSumExp": reduce(over(torch.logsumexp)),
    "Softmax": softmax(torch.softmax), "LogSoftmax": softmax(torch.log_softmax),
    "LayerNormalization": layer_norm, "RMSNormalization": rms_norm, "BatchNormalization": batch_norm,
    "InstanceNormalization": lambda n, x, s, b: F.instance_norm(x, weight=s, bias=b, eps=n.get("epsilon", 1e-5)),
    "GroupNormalization": group_norm, "LRN": lrn, "Det": one(torch.linalg.det),
    "LpNormalization": lambda n, x: F.normalize(x, n.get("p", 2), n.get("axis", -1), 0),
    "Einsum": lambda n, *v: torch.einsum(n.get("equation").replace(" ", ""), *v),
    "Conv": conv, "ConvTranspose": conv_transpose, "MaxPool": max_pool, "AveragePool": average_pool, "Resize": resize,
    "GlobalAveragePool": one(lambda x: x.mean(list(range(2, x.dim())), True)),
    "GlobalMaxPool": one(lambda x: x.amax(list(range(2, x.dim())), True)),
    "GridSample": grid_sample,
    "AffineGrid": lambda n, theta, size: F.affine_grid(theta, ints(size), bool(n.get("align_corners", 0))),
    "RNN": recurrent, "GRU": recurrent, "LSTM": recurrent,
    "NegativeLogLikelihoodLoss": nll_loss, "SoftmaxCrossEntropyLoss": cross_entropy,
}


def nodes(model, protos, values, versions, bound, kept=()):
    """Computes PROTOS. Values of the names KEPT stay."""
    functions = {(f.domain, f.name): f for f in model.functions}
    for proto in protos:
        inputs = [values[name] if name else None for name in proto.input]
        function = functions.get((proto.domain, proto.op_type))
        if function:
            inner = dict(zip(function.input, inputs))
            own = {o.domain: o.version for o in function.opset_import}
            nodes(model, function.node, inner, own, Node(proto, 0, bound).values)
            made = [inner[name] for name in function.output]
        else:
            domain = "" if proto.domain == "ai.onnx" else proto.domain
            need(proto.op_type in OPERATORS and domain == "", proto.op_type)
            n = Node(proto, versions.get("", versions.get("ai.onnx", 0)), bound)
            while inputs and inputs[-1] is None:
                inputs.pop()
            made = OPERATORS[proto.op_type](n, *inputs)
        made = made if isinstance(made, (list, tuple)) else [made]
        values.update((name, value) for name, value in zip(proto.output, made) if name and name not in kept)


def weights(model):
    """
    The floating tensors of a model that have gradients, by name: initializers, or else Constant nodes of more than one
    element, but no statistics of a BatchNormalization.
    """
    found = {t.name: t for t in model.graph.initializer}
    plain = any(t.data_type in (1, 10, 11, 16) and math.prod(t.dims) > 1 for t in model.graph.initializer)
    for node in () if plain else model.graph.node:
        for a in node.attribute if node.op_type == "Constant" else ():
            if a.name == "value" and math.prod(a.t.dims) > 1:
                found[node.output[0]] = a.t
    still = {name for node in model.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}
    return {name: t for name, t in found.items() if t.data_type in (1, 10, 11, 16) and name not in still}


def run(model, inputs, leaves=None):
    """Returns the outputs of MODEL, by name. LEAVES stand in the place of weights."""
    values = {t.name: tensor_of(t) for t in model.graph.initializer}
    values.update(inputs)
    values.update(leaves or {})
    try:
        nodes(model, model.graph.node, values, {o.domain: o.version for o in model.opset_import}, {}, leaves or ())
    except Exception as error:  # whatever torch refuses
        raise Unsupported(f"{type(error).__name__}: {error}") from error
    need(all(o.name in values for o in model.graph.output), "an output that torch does not give")
    return {o.name: values[o.name] for o in model.graph.output}
