#!/usr/bin/env python3
"""Writes residuals.txt: what JAX's print_saved_residuals says of chains.

Made with JAX 0.4.30 on Python 3.11 (pip install jax==0.4.30 jaxlib==0.4.30), by hand, outside the tree:

    python make_residuals.py > residuals.txt

Each case is `case NAME`, `policy POLICY`, the chain behind `| `, and what JAX prints
behind `jax `, without the places in the source: these are another language's.
"""
import contextlib
import io
import re

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name, print_saved_residuals

assert jax.__version__ == "0.4.30", jax.__version__
P = jax.checkpoint_policies


def case(name, policy, chain, f, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_saved_residuals(f, *args)
    print(f"case {name}\npolicy {policy}")
    for line in chain.strip().splitlines():
        print("|", line.strip())
    for line in out.getvalue().splitlines():
        line = re.sub(r" from \S+:\d+:\d+( \(.*\))?$", "", line)
        print("jax", line.replace("dot_general", "dot"))
    print()


def layer(W, x):
    return jnp.sin(jnp.dot(W, x))


def layers(W1, W2, W3, x):
    return layer(W3, layer(W2, layer(W1, x)))


def named(W1, W2, W3, x):
    a = checkpoint_name(layer(W1, x), "a")
    b = checkpoint_name(layer(W2, a), "b")
    return layer(W3, b)


WEIGHTS = (jnp.ones((5, 4)), jnp.ones((6, 5)), jnp.ones((7, 6)), jnp.ones(4))
HEAD = "input x: f32[4]\nparam W1: f32[5,4]\nparam W2: f32[6,5]\nparam W3: f32[7,6]\ndef g(W) { dot W; sin }\n"
NAMED = HEAD + "g W1; name a; g W2; name b; g W3"


def attention_heads():
    """Without the softmax, which JAX makes of several operations."""
    def f(Wq, Wk, Wv, x):
        def heads(w, axes):
            return (x @ w).reshape(2, 5, 2, 4).transpose(axes)
        p = jnp.exp(heads(Wq, (0, 2, 1, 3)) @ heads(Wk, (0, 2, 3, 1)))
        return (p @ heads(Wv, (0, 2, 1, 3))).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    head = "input x: f32[2,5,8]\nparam Wq: f32[8,8]\nparam Wk: f32[8,8]\nparam Wv: f32[8,8]\n"
    chain = head + """matmul Wq; reshape 2 5 2 4; transpose axes=[0,2,1,3]
        matmul { use x; matmul Wk; reshape 2 5 2 4; transpose axes=[0,2,3,1] }
        exp
        matmul { use x; matmul Wv; reshape 2 5 2 4; transpose axes=[0,2,1,3] }
        transpose axes=[0,2,1,3]; reshape 2 5 8"""
    args = (*[jnp.ones((8, 8))] * 3, jnp.ones((2, 5, 8)))
    case("attention-heads", "save-all", chain, f, *args)
    case("attention-heads-dots", "dots", chain, jax.checkpoint(f, policy=P.dots_saveable), *args)
    case("attention-heads-nothing", "nothing", chain, jax.checkpoint(f), *args)


def three_layers():
    plain = HEAD + "g W1; g W2; g W3"
    case("layers", "save-all", plain, layers, *WEIGHTS)
    c = jax.checkpoint(layer)
    case("layers-in-blocks", "save-all", HEAD + "checkpoint { g W1 }; checkpoint { g W2 }; checkpoint { g W3 }",
         lambda W1, W2, W3, x: c(W3, c(W2, c(W1, x))), *WEIGHTS)
    d = jax.checkpoint(layer, policy=P.dots_saveable)
    case("layers-in-dots-blocks", "save-all",
         HEAD + "checkpoint policy=dots { g W1 }; checkpoint policy=dots { g W2 }; checkpoint policy=dots { g W3 }",
         lambda W1, W2, W3, x: d(W3, d(W2, d(W1, x))), *WEIGHTS)
    for name, policy, of in [("nothing", "nothing", P.nothing_saveable), ("dots", "dots", P.dots_saveable),
                             ("dots-no-batch", "dots-no-batch", P.dots_with_no_batch_dims_saveable),
                             ("names-a", "names:a", P.save_only_these_names("a")),
                             ("names-a-b", "names:a,b", P.save_only_these_names("a", "b")),
                             ("names-but-a", "names-but:a", P.save_any_names_but_these("a")),
                             ("dots-and-a", "dots+names:a",
                              P.save_from_both_policies(P.dots_saveable, P.save_only_these_names("a")))]:
        case(f"layers-{name}", policy, NAMED, jax.checkpoint(named, policy=of), *WEIGHTS)


def dots_named():
    twice = HEAD + "dot W1; name h; name a; sin; name b; dot W2; sin"

    def f(W1, W2, W3, x):
        h = checkpoint_name(checkpoint_name(jnp.dot(W1, x), "h"), "a")
        return jnp.sin(jnp.dot(W2, checkpoint_name(jnp.sin(h), "b")))
    dots, either = P.dots_saveable, P.save_from_both_policies
    for name, policy, of in [("dots", "dots", dots), ("dots-no-batch", "dots-no-batch", P.dots_with_no_batch_dims_saveable),
                             ("dots-and-b", "dots+names:b", either(dots, P.save_only_these_names("b"))),
                             ("dots-and-a", "dots+names:a", either(dots, P.save_only_these_names("a"))),
                             ("dots-and-h", "dots+names:h", either(dots, P.save_only_these_names("h")))]:
        case(f"named-behind-dot-{name}", policy, twice, jax.checkpoint(f, policy=of), *WEIGHTS)


def halved(stages):
    """f2(checkpoint(f1)(x)), f1 the first half, the larger where odd; two or fewer are not split."""
    if len(stages) == 1:
        return stages[0]
    if len(stages) == 2:
        return lambda x: stages[1](stages[0](x))
    first = (len(stages) + 1) // 2
    f1, f2 = halved(stages[:first]), halved(stages[first:])
    return lambda x: f2(jax.checkpoint(f1)(x))


def sines():
    x = jnp.ones(3)
    for n in [2, 3, 4, 5, 8, 16, 33, 64]:
        chain = f"input x: f32[3]\nrepeat {n} {{ sin }}"

        def plain(x, n=n):
            for _ in range(n):
                x = jnp.sin(x)
            return x

        case(f"sines-{n}", "save-all", chain, plain, x)
        case(f"sines-{n}-recursive", "recursive", chain, halved([jnp.sin] * n), x)


def dense():
    """A region's arguments are those that its backward needs: no bias behind which all is dead."""
    def stages(W, b, c):
        return {"matmul W": lambda v: jnp.matmul(v, W), "add b": lambda v: v + b, "add c": lambda v: v + c,
                "mul b": lambda v: v * b, "sin": jnp.sin, "cos": jnp.cos, "exp": jnp.exp}

    args = (jnp.ones((4, 4)), jnp.ones(4), jnp.ones(4), jnp.ones((5, 4)))
    for number, text in enumerate(["exp; add b; cos", "matmul W; add b; sin; matmul W",
                                   "matmul W; add b; sin; matmul W; add c; sin",
                                   "matmul W; add b; sin; matmul W; add c; sin; matmul W; add b",
                                   "sin; add b; add c; sin; cos", "sin; mul b; add c; sin; cos; add b; exp",
                                   "exp; add b; sin; add c; exp; add b; add c; matmul W; sin"]):
        def net(W, b, c, x, text=text):
            return halved([stages(W, b, c)[stage] for stage in text.split("; ")])(x)

        chain = "input x: f32[5,4]\nparam W: f32[4,4]\nparam b: f32[4]\nparam c: f32[4]\n" + text
        case(f"dense-{number}-recursive", "recursive", chain, net, *args)


def losses():
    def loss(W1, b, x):
        h = checkpoint_name(jnp.tanh(jnp.matmul(x, W1) + b), "h")
        return jnp.sum(jnp.sin(h))

    args = (jnp.ones((4, 3)), jnp.ones(3), jnp.ones((5, 4)))
    chain = "input x: f32[5,4]\nparam W1: f32[4,3]\nparam b: f32[3]\nmatmul W1; add b; tanh; name h; sin; sum"
    case("loss", "save-all", chain, loss, *args)
    case("loss-names", "names:h", chain, jax.checkpoint(loss, policy=P.save_only_these_names("h")), *args)
    case("loss-dots", "dots", chain, jax.checkpoint(loss, policy=P.dots_saveable), *args)


def scans():
    def scan(Ws, x):
        return lax.scan(lambda h, W: (jnp.sin(jnp.dot(W, h)), None), x, Ws)[0]

    case("scan", "save-all", "input x: f32[4]\nparam Ws: f32[3,4,4]\nfor W in Ws { dot W; sin }", scan,
         jnp.ones((3, 4, 4)), jnp.ones(4))


def elements():
    one = {"sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "tanh": jnp.tanh, "exp": jnp.exp, "expm1": jnp.expm1,
           "log": jnp.log, "log1p": jnp.log1p, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "square": jnp.square,
           "reciprocal": jnp.reciprocal, "neg": jnp.negative, "abs": jnp.abs, "sign": jnp.sign, "floor": jnp.floor,
           "asin": jnp.arcsin, "acos": jnp.arccos, "atan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh,
           "sigmoid": jax.nn.sigmoid, "softplus": jax.nn.softplus, "relu": jax.nn.relu, "silu": jax.nn.silu,
           "erf": jax.scipy.special.erf, "mul 2": lambda x: x * 2, "add 2": lambda x: x + 2, "sub 2": lambda x: x - 2,
           "div 2": lambda x: x / 2, "rsub 2": lambda x: 2 - x, "rdiv 2": lambda x: 2 / x, "mul x": lambda x: x * x,
           "add x; mul x": lambda x: (x + x) * x, "ceil": jnp.ceil, "round": jnp.round, "trunc": jnp.trunc,
           "exp2": jnp.exp2, "cbrt": jnp.cbrt, "asinh": jnp.arcsinh, "acosh": jnp.arccosh, "atanh": jnp.arctanh,
           "erfc": jax.scipy.special.erfc, "lgamma": lax.lgamma, "log_sigmoid": jax.nn.log_sigmoid,
           "isnan": jnp.isnan, "isfinite": jnp.isfinite}
    x = jnp.full(4, 0.5)
    for text, f in one.items():
        case(f"element-{text.replace(' ', '-').replace(';', '')}", "save-all", f"input x: f32[4]\n{text}", f, x)
    two = {"add": lambda v, a: v + a, "sub": lambda v, a: v - a, "mul": lambda v, a: v * a, "div": lambda v, a: v / a,
           "max": jnp.maximum, "min": jnp.minimum, "atan2": jnp.arctan2, "logaddexp": jnp.logaddexp,
           "prelu": lambda v, a: jnp.where(v > 0, v, a * v)}
    for op, f in two.items():
        case(f"element-{op}-a", "save-all", f"input x: f32[4]\nparam a: f32[4]\n{op} a", lambda a, x, f=f: f(x, a), x, x)


def transforms():
    def pairs(z):
        return jnp.stack([z.real, z.imag], -1)

    def numbers(v):
        return lax.complex(v[..., 0], v[..., 1])

    x, half = jnp.ones((3, 8, 2)), jnp.ones((3, 5, 2))
    for name, f in (("fft", jnp.fft.fft), ("ifft", jnp.fft.ifft)):
        case(f"transform-{name}", "save-all", f"input x: f32[3,8,2]\n{name}", lambda x, f=f: pairs(f(numbers(x))), x)
    case("transform-rfft", "save-all", "input x: f32[3,8]\nrfft", lambda x: pairs(jnp.fft.rfft(x)), x[..., 0])
    case("transform-irfft", "save-all", "input x: f32[3,5,2]\nirfft", lambda x: jnp.fft.irfft(numbers(x)), half)


three_layers()
dots_named()
sines()
dense()
attention_heads()
losses()
scans()
elements()
transforms()
