#!/usr/bin/env python3
"""Prints the lines of golden data in tests/cases/attention.test, from torch in f64.

    python3 tests/golden/make_attention.py

A line has, between bars, the operation; shape and elements of the value x, of the keys K, the values V and the mask M; then
the elements of the result, and of the gradients of x, K, V and M for the cotangent 1, 2, 3, ..., to eight digits. A mask of
0 and 1 is a bool, without a gradient: `-`. A row that it hides all keys from gives 0 (scaled_dot_product_attention).
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)


def row(values):
    return " ".join(f"{v:.8g}" for v in values.detach().ravel().tolist())


def eighths(*shape):
    return torch.randint(-16, 17, shape) / 8.0


def line(x, k, v, mask, causal):
    """MASK is a shape and, for a floating one, True."""
    shape, floating = mask
    values = [eighths(*s).requires_grad_() for s in (x, k, v)]
    given = eighths(*shape).requires_grad_() if floating else torch.rand(shape) > 0.4
    whole = given
    if causal:
        seen = torch.ones(x[-2], k[-2], dtype=torch.bool).tril()
        whole = given.where(seen, -torch.inf) if floating else given & seen
    y = scaled_dot_product_attention(*torch.broadcast_tensors(values[0]), values[1], values[2], attn_mask=whole, scale=0.5)
    g = torch.autograd.grad(y, values + [given] * floating, 1.0 + torch.arange(y.numel()).reshape(y.shape))
    fields = ["attention K V scale=0.5 mask=M" + " causal=true" * causal]
    for array in (*values, given):
        fields += [" ".join(map(str, array.shape)), row(array * 1)]
    print("\t" + "|".join(fields + [row(y)] + [row(d) for d in g] + ["-"] * (not floating)))


one, stack = ((3, 2), (4, 2), (4, 2)), ((2, 3, 2), (2, 4, 2), (2, 4, 1))
for causal in (False, True):
    for floating in (False, True):
        for shape in ((3, 4), (4,), (3, 1), (1, 1)):
            line(*one, (shape, floating), causal)
        for shape in ((2, 3, 4), (3, 4), (2, 1, 4), (2, 3, 1), (1, 3, 4)):
            line(*stack, (shape, floating), causal)
    line((2, 2, 3, 2), (2, 4, 2), (2, 1, 4, 2), ((2, 1, 3, 4), True), causal)
