#!/usr/bin/env python3
"""The modules of a PyTorch list as one step of a chain: call N runs module N, and autograd computes its cotangents.

    ckptc grad --program 'layer=python3 torch_step.py model.layers' --grad theta=gradient.npy layers.ck

MODEL.LAYERS is a list of modules in MODEL.py. The step's operand is the vector of all their parameters. The parameters
lie in memory that ckptc shares, and their gradients are added up here. A record holds the graph of autograd.
"""
import importlib
import sys

import torch

import shared_steps


class Layers:
    def __init__(self, layers):
        self.layers = torch.nn.ModuleList(layers)
        self.params = list(self.layers.parameters())

    def open(self, types, wanted):
        self.operand = next(name for name in types if "d" + name in types and name != "x")
        self.wanted, self.bound = wanted, None
        bits, shape = types["x"]
        x = torch.zeros(shape, dtype=getattr(torch, f"float{bits}"))
        self.layers.to(x.dtype)
        for p in self.params:
            p.grad = torch.zeros_like(p)
        return f"record={self.measure(x)} sums={self.operand}"

    def measure(self, x):
        """Returns the bytes that a record holds: those of the largest module."""
        most, fixed = 0, {p.untyped_storage().data_ptr() for p in self.params}
        for number in range(len(self.layers)):
            held = []
            with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t) or t, lambda t: t):
                held += self.run(number, x)
            sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
            most = max(most, sum(sizes[p] for p in sizes.keys() - fixed))
        return most

    def run(self, number, x):
        torch.manual_seed(number)  # a step has the same dropout whenever it is computed
        x = x.clone().requires_grad_()  # ckptc uses x's place again
        return x, self.layers[number](x)

    def compute(self, call):
        self.bind(call)
        return self.run(call.number, call.view("x"))

    def bind(self, call):
        """Makes the parameters views of the operand, where that lies in another place than before."""
        place = call.offsets.get(self.operand, self.bound)
        if place != self.bound:
            self.bound = place
            torch.nn.utils.vector_to_parameters(call.view(self.operand), self.params)

    def forward(self, call):
        with torch.no_grad():
            self.record(call)

    def record(self, call):
        x, y = self.compute(call)
        call.view("y").copy_(y.detach())
        return x, y

    def backward(self, call, record):
        self.bind(call)
        x, y = record or self.compute(call)
        y.backward(call.view("g"))
        if "x" in self.wanted:
            call.view("dx").copy_(x.grad)

    def gradient(self, call):
        call.view("d" + self.operand).copy_(torch.cat([p.grad.flatten() for p in self.params]))
        for p in self.params:
            p.grad.zero_()


def make_view(memory, bits, shape, offset):
    size = torch.Size(shape)
    return torch.frombuffer(memory, dtype=getattr(torch, f"float{bits}"), count=size.numel(), offset=offset).reshape(size)


sys.path.insert(0, "")
module, _, name = sys.argv[1].rpartition(".")
shared_steps.serve(Layers(getattr(importlib.import_module(module), name)), make_view)
