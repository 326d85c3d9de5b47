#!/usr/bin/env python3
"""The modules of a PyTorch list as one step of a chain: call N runs module N, and autograd computes its cotangents.

    ckptc grad --program 'layer=python3 torch_step.py model.layers' --grad theta=gradient.npy layers.ck

MODEL.LAYERS is a list of modules in MODEL.py. The step's operand is the vector of all their parameters. The parameters
lie in memory that ckptc shares, and their gradients are added up here. A record holds the graph of autograd.
"""
import importlib
import itertools
import mmap
import re
import sys

import torch

sys.path.insert(0, "")
module, _, name = sys.argv[1].rpartition(".")
layers = torch.nn.ModuleList(getattr(importlib.import_module(module), name))
params = list(layers.parameters())
types, records, handles, bound = {}, {}, itertools.count(1), None


def run(number, x):
    torch.manual_seed(number)  # a step has the same dropout whenever it is computed
    x = x.clone().requires_grad_()  # ckptc uses x's place again
    return x, layers[number](x)


def measure(x):
    """Returns the bytes that a record holds: those of the largest module."""
    most, fixed = 0, {p.untyped_storage().data_ptr() for p in params}
    for number in range(len(layers)):
        held = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t) or t, lambda t: t):
            held += run(number, x)
        sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
        most = max(most, sum(sizes[p] for p in sizes.keys() - fixed))
    return most


def view(name):
    """The array NAME in shared memory."""
    dtype, shape = types[name]
    return torch.frombuffer(memory, dtype=dtype, count=shape.numel(), offset=int(at[name])).reshape(shape)


for line in sys.stdin:
    word, *words = line.split()
    at = dict(w.split("=") for w in words if "=" in w)
    if word == "open":
        for name, dtype, shape in re.findall(r"(\w+)=f(32|64)\[([\d,]*)\]", line):
            types[name] = getattr(torch, "float" + dtype), torch.Size(int(n) for n in shape.split(",") if n)
        operand = next(name for name in types if name not in "xy")
        types |= {"d" + name: types[name] for name in types} | {"g": types["y"]}
        layers.to(types["x"][0])
        bound = None
        records.clear()
        for p in params:
            p.grad = torch.zeros_like(p)
        x = torch.zeros(types["x"][1], dtype=types["x"][0])
        print(f"ready 1 backward memory record={measure(x)} sums={operand}")
    elif word == "memory":
        memory = mmap.mmap(3, int(words[0]))
        continue
    elif word == "release":
        del records[words[0]]
        continue
    elif word == "gradient":
        view("d" + operand).copy_(torch.cat([p.grad.flatten() for p in params]))
        for p in params:
            p.grad.zero_()
        print("ok")
    else:
        if at.get(operand, bound) != bound:
            bound = at[operand]
            torch.nn.utils.vector_to_parameters(view(operand), params)  # the parameters are views of it
        number, handle = words[0], words[1] if "=" not in words[1] else None
        with torch.set_grad_enabled(word != "forward"):
            x, y = records.pop(handle) if handle else run(int(number), view("x"))
        if word == "backward":
            y.backward(view("g"))
            if "dx" in at:
                view("dx").copy_(x.grad)
        else:
            view("y").copy_(y.detach())
        if word == "record":
            handle = str(next(handles))
            records[handle] = x, y
        print("ok", handle if word == "record" else "")
    sys.stdout.flush()
