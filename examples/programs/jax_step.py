#!/usr/bin/env python3
"""A JAX function (x, operands...) -> y as the step of a chain: jax.vjp computes its cotangents.

    ckptc grad --program 'layer=python3 jax_step.py model.layer' --grads gradients.npz layers.ck

MODEL.LAYER is the function in MODEL.py. A record holds the arrays that the function of jax.vjp has saved.
"""
import importlib
import itertools
import mmap
import re
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
sys.path.insert(0, "")
module, _, name = sys.argv[1].rpartition(".")
function = getattr(importlib.import_module(module), name)
forward = jax.jit(function)
record = jax.jit(lambda *inputs: jax.vjp(function, *inputs))  # y, and a tree of arrays that can be called
backward = jax.jit(lambda inputs, g: jax.vjp(function, *inputs)[1](g))
pull = jax.jit(lambda saved, g: saved(g))
records, handles = {}, itertools.count(1)


def view(name):
    """The array NAME in shared memory."""
    dtype, shape = types[name]
    return np.frombuffer(memory, dtype, int(np.prod(shape)), int(at[name])).reshape(shape)


for line in sys.stdin:
    word, *words = line.split()
    at = dict(w.split("=") for w in words if "=" in w)
    if word == "open":
        types = {
            name: (np.dtype("f" + str(int(bits) // 8)), tuple(int(n) for n in shape.split(",") if n))
            for name, bits, shape in re.findall(r"(\w+)=f(32|64)\[([\d,]*)\]", line)
        }
        records.clear()
        names = [name for name in types if name != "y"]  # x and the operands
        wanted = at["gradients"].split(",")
        types |= {"d" + name: types[name] for name in names} | {"g": types["y"]}
        saved = jax.eval_shape(record, *(jax.ShapeDtypeStruct(types[n][1], types[n][0]) for n in names))[1]
        print("ready 1 backward memory record=%d" % sum(a.size * a.dtype.itemsize for a in jax.tree_util.tree_leaves(saved)))
    elif word == "memory":
        memory = mmap.mmap(3, int(words[0]))
        continue
    elif word == "release":
        del records[words[0]]
        continue
    elif word == "backward":
        handle = words[1] if "=" not in words[1] else None
        cotangents = pull(records.pop(handle), view("g")) if handle else backward([view(n) for n in names], view("g"))
        for name, cotangent in zip(names, cotangents):
            if name in wanted:
                view("d" + name)[...] = cotangent
        print("ok")
    elif word == "record":
        y, saved = record(*(view(n).copy() for n in names))  # JAX may keep the arrays that it is given
        handle = str(next(handles))
        records[handle] = saved
        view("y")[...] = y
        print("ok", handle)
    else:
        view("y")[...] = forward(*(view(n) for n in names))
        print("ok")
    sys.stdout.flush()
