#!/usr/bin/env python3
"""Writes tests/golden/scans.txt: values and gradients of loops that collect, by jax.lax.scan.

Made with jax 0.10.2 by

    python3 tests/golden/make_scans.py tests/golden/scans.txt

A line is a JSON object: a chain, its input, its value, and the gradients by the input and by the param W, of the value's sum.
"""
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(7)
xs = rng.normal(size=(6, 3)).round(3)
W = rng.normal(size=(3, 3)).round(3)
Ws = rng.normal(size=(2, 3, 3)).round(3)
lines = []


def emit(chain, function, weights):
    declared = f"param W = {weights.tolist()}\n"
    value = function(xs, weights)
    by_x, by_w = jax.grad(lambda x, w: function(x, w).sum(), (0, 1))(xs, weights)
    arrays = {"input": xs, "value": value, "by_input": by_x, "by_W": by_w}
    lines.append(json.dumps({"chain": declared + chain} | {k: np.asarray(v).tolist() for k, v in arrays.items()}))


def cell(w):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h

    return step


def rnn(x, w):
    return jax.lax.scan(cell(w), jnp.zeros(3), x)[1]


CELL = "use h; matmul W; add x; tanh; name h"
BEGIN = "const zero = zeros\nuse zero; name h\n".replace("const zero", "const zero: f64[3]")
emit(f"input xs: f64[*,3]\n{BEGIN}for x in xs {{ {CELL}; collect ys }}\nuse ys", rnn, W)
emit(f"input xs: f64[*,3]\n{BEGIN}for x in xs {{ {CELL}; collect ys every=2 }}\nuse ys", lambda x, w: rnn(x, w)[1::2], W)
emit(f"input xs: f64[*,3]\n{BEGIN}for x in xs {{ checkpoint {{ {CELL}; collect ys }} }}\nuse ys; matmul W; sin; add h",
     lambda x, w: jnp.sin(rnn(x, w) @ w) + rnn(x, w)[-1], W)


def both(x, w):
    def step(h, x):
        a = jnp.sin(h * x)
        b = a @ w + h
        return b, (a, b)

    end, (a, b) = jax.lax.scan(step, jnp.ones(3), x)
    return a * b + end


emit("input xs: f64[*,3]\nconst one: f64[3] = ones\nuse one; name h\n"
     "for x in xs { use h; mul x; sin; collect a; matmul W; add h; name h; collect b }\nuse a; mul b; add h", both, W)


def layers(x, w):
    for k in range(2):
        x = rnn(x, w[k])
    return x


emit("const zero: f64[3] = zeros\nname y\n"
     "for V in W { use zero; name h; for x in y { use h; matmul V; add x; tanh; name h; collect ys }; use ys; name y }",
     layers, Ws)


def counted(x, w):
    def step(h, i):
        h = jnp.sin(0.9 * h @ w + i)
        return h, h

    return jax.lax.scan(step, x, jnp.arange(5.0))[1][1::2]


emit("repeat 5 as i { mul 0.9; matmul W; add i; sin; collect ys every=2 }\nuse ys", counted, W)

with open(sys.argv[1], "w") as f:
    f.write("\n".join(lines) + "\n")
