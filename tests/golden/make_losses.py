#!/usr/bin/env python3
"""Prints the lines of golden data in tests/cases/losses.test, from torch in f64.

    python3 tests/golden/make_losses.py

A line has, between bars, the operation; shape and elements of the value x; those of the operand a; then the elements of
the result, and of the gradients of x and a for the cotangent 1, 2, 3, ..., to eight digits. `-` stands for what an
operation does not have: classes have no gradient.
"""

import itertools

import torch
from torch.nn import functional as F

torch.manual_seed(17)
torch.set_default_dtype(torch.float64)


def row(values):
    return " ".join(f"{v:.8g}" for v in values.detach().ravel().tolist())


def line(name, function, x, a):
    """FUNCTION of X and A. The gradient of A is printed if A is floating."""
    both = a.is_floating_point()
    x.requires_grad_()
    a.requires_grad_(both)
    y = function(x, a)
    g = torch.autograd.grad(y, [x, a] if both else [x], 1.0 + torch.arange(y.numel()).reshape(y.shape))
    fields = [name]
    for v in (x, a):
        fields += [" ".join(map(str, v.shape)), row(v)]
    print("\t" + "|".join(fields + [row(y)] + [row(v) for v in g] + ([] if both else ["-"])))


def eighths(*shape):
    return torch.randint(-24, 25, shape) / 8.0


def shares(*shape):
    return torch.randint(1, 16, shape) / 16.0


REDUCTIONS = ("mean", "sum", "none")
for reduction in REDUCTIONS:
    option = {"reduction": reduction}
    tail = "" if reduction == "mean" else f" reduction={reduction}"
    for x, a in (((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1))):
        line(f"mse a{tail}", lambda x, a: F.mse_loss(*torch.broadcast_tensors(x, a), **option), eighths(*x), eighths(*a))
        line(f"mae a{tail}", lambda x, a: F.l1_loss(*torch.broadcast_tensors(x, a), **option), eighths(*x), eighths(*a))
        line(f"huber a delta=0.75{tail}", lambda x, a: F.huber_loss(*torch.broadcast_tensors(x, a), delta=0.75, **option),
             eighths(*x), eighths(*a))
        line(f"bce_logits a{tail}", lambda x, a: F.binary_cross_entropy_with_logits(*torch.broadcast_tensors(x, a), **option),
             4 * eighths(*x), shares(*a))
        line(f"kl_div a{tail}", lambda x, a: F.kl_div(*torch.broadcast_tensors(x, a), **option), eighths(*x), shares(*a))
    line(f"bce a{tail}", lambda x, a: F.binary_cross_entropy(x, a, **option), shares(2, 3), shares(2, 3))
    hard = torch.tensor([[0.0, 1, 1], [0, 1, 0]])
    line(f"bce a{tail}", lambda x, a: F.binary_cross_entropy(x, a, **option), shares(2, 3), hard.clone())


def moved(function, axis):
    """FUNCTION of values with their classes on axis 1, or 0 of 1-D ones, for values that have them on AXIS."""
    return lambda x, a: function(x if x.ndim == 1 else x.movedim(axis, 1), a)


def moved_both(function, axis):
    return lambda x, a: function(x.movedim(axis, 1), a.movedim(axis, 1))


SHAPES = (((4, 3), -1), ((3,), 0), ((2, 3, 4), 1), ((3, 2), 0), ((2, 2, 3), -1))
weights = torch.tensor([0.5, 2, 1.25])
for (shape, axis), ignores, weighs, reduction in itertools.product(SHAPES, (False, True), (False, True), REDUCTIONS):
    classes = torch.randint(0, 3, [n for i, n in enumerate(shape) if i != axis % len(shape)])
    if ignores and classes.ndim:
        classes.view(-1)[1] = -100
    option = {"reduction": reduction, "weight": weights if weighs else None}
    tail = ("" if axis == -1 else f" axis={axis}") + " ignore=-100" * ignores + " weight=[0.5, 2, 1.25]" * weighs
    tail += "" if reduction == "mean" else f" reduction={reduction}"
    line(f"nll a{tail}", moved(lambda x, a: F.nll_loss(x, a, **option), axis), eighths(*shape), classes)
    for smooths in (False, True):
        more = {**option, "label_smoothing": 0.25 * smooths}
        name = f"cross_entropy a{tail}" + " label_smoothing=0.25" * smooths
        line(name, moved(lambda x, a: F.cross_entropy(x, a, **more), axis), eighths(*shape), classes)
        if not ignores and len(shape) > 1:
            line(name, moved_both(lambda x, a: F.cross_entropy(x, a, **more), axis), eighths(*shape), shares(*shape))
