#!/usr/bin/env python3
"""A JAX function (x, operands...) -> y as the step of a chain: jax.vjp computes its cotangents.

    ckptc grad --program 'layer=python3 jax_step.py model.layer' --grads gradients.npz layers.ck

MODEL.LAYER is the function in MODEL.py. A record holds the arrays that the function of jax.vjp has saved.
"""
import importlib
import sys

import jax
import numpy as np

import shared_steps

jax.config.update("jax_enable_x64", True)


class Function:
    def __init__(self, function):
        self.value = jax.jit(function)
        self.linearize = jax.jit(lambda *inputs: jax.vjp(function, *inputs))  # y, and a tree of arrays that can be called
        self.vjp = jax.jit(lambda inputs, g: jax.vjp(function, *inputs)[1](g))
        self.pull = jax.jit(lambda saved, g: saved(g))

    def open(self, types, wanted):
        self.wanted = wanted
        self.names = [name for name in types if "d" + name in types]  # x and the operands
        inputs = (jax.ShapeDtypeStruct(shape, f"f{bits // 8}") for bits, shape in (types[n] for n in self.names))
        saved = jax.tree_util.tree_leaves(jax.eval_shape(self.linearize, *inputs)[1])
        return "record=%d" % sum(a.size * a.dtype.itemsize for a in saved)

    def inputs(self, call):
        return [call.view(name) for name in self.names]

    def forward(self, call):
        call.view("y")[...] = self.value(*self.inputs(call))

    def record(self, call):
        y, saved = self.linearize(*(a.copy() for a in self.inputs(call)))  # JAX may keep the arrays that it is given
        call.view("y")[...] = y
        return saved

    def backward(self, call, record):
        g = call.view("g")
        cotangents = self.pull(record, g) if record is not None else self.vjp(self.inputs(call), g)
        for name, cotangent in zip(self.names, cotangents):
            if name in self.wanted:
                call.view("d" + name)[...] = cotangent


def make_view(memory, bits, shape, offset):
    return np.frombuffer(memory, f"f{bits // 8}", int(np.prod(shape)), offset).reshape(shape)


sys.path.insert(0, "")
module, _, name = sys.argv[1].rpartition(".")
shared_steps.serve(Function(getattr(importlib.import_module(module), name)), make_view)
