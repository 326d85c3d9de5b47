"""JAX's part of bench/frameworks: models, and runs of them that count bytes."""
import functools

import jax
import jax.numpy as jnp
import numpy as np

import costs_jax
import run_jax

NAME = f"JAX {jax.__version__}"


def normal(key, *shape):
    return jax.random.normal(key, shape) / shape[0] ** 0.5


def layernorm(x, g):
    x = x - x.mean(-1, keepdims=True)
    return g * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def dropout(x, key):
    return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)


def embed(p, tokens):
    return dropout(p["words"][tokens] + p["places"], p["key"])


def attention(p, x, heads=4):
    n, t, d = x.shape
    q, k, v = jnp.moveaxis((x @ p["qkv"]).reshape(n, t, 3, heads, d // heads), (2, 3), (0, 2))
    weights = q @ k.swapaxes(-1, -2) / (d // heads) ** 0.5
    weights = jax.nn.softmax(jnp.where(jnp.tri(t, dtype=bool), weights, -jnp.inf))
    return (dropout(weights, p["key"]) @ v).swapaxes(1, 2).reshape(n, t, d) @ p["out"]


def attend(p, x):
    return x + attention(p, layernorm(x, p["g"]))


def feed(p, x):
    return x + dropout(jax.nn.gelu(layernorm(x, p["h"]) @ p["up"]), p["key2"]) @ p["down"]


def block(p, x):
    return feed(p, attend(p, x))


def cross_entropy(p, logits):
    rows = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(rows, p["targets"][..., None], -1).mean()


def word_loss(p, x):
    return cross_entropy(p, layernorm(x, p["g"]) @ p["words"].T)


def transformer(key):
    width, length, words, batch = 128, 128, 512, 4
    keys = [jax.random.fold_in(key, i) for i in range(100)]
    first = {"words": normal(keys[0], words, width), "places": normal(keys[1], length, width), "key": keys[2]}
    params = [
        {
            "qkv": normal(keys[i], width, 3 * width), "out": normal(keys[i + 1], width, width),
            "up": normal(keys[i + 2], width, 4 * width), "down": normal(keys[i + 3], 4 * width, width),
            "g": jnp.ones(width), "h": jnp.ones(width), "key": keys[i + 4], "key2": keys[i + 5],
        }
        for i in range(3, 3 + 12 * 6, 6)
    ]
    tokens = lambda key: jax.random.randint(key, (batch, length), 0, words)
    last = {"words": first["words"], "g": jnp.ones(width), "targets": tokens(keys[99])}
    return [embed, *[block] * 12, word_loss], [first, *params, last], lambda: tokens(keys[98])


def halves(key):
    """Eleven blocks of the transformer, each in two steps."""
    _, (first, *params, last), batch = transformer(key)
    parts = [{k: p[k] for k in keys} for p in params[:11] for keys in (("qkv", "out", "g", "key"), ("up", "down", "h", "key2"))]
    return [embed, *[attend, feed] * 11, word_loss], [first, *parts, last], batch


def conv(x, k, stride=1):
    return jax.lax.conv_general_dilated(x, k, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batchnorm(x, g):
    x = x - x.mean((0, 1, 2))
    return g * x * jax.lax.rsqrt((x * x).mean((0, 1, 2)) + 1e-5)


def stem(p, x):
    return jax.nn.relu(batchnorm(conv(x, p["a"]), p["g"]))


def residual(p, x):
    stride = 2 if "skip" in p else 1
    h = jax.nn.relu(batchnorm(conv(x, p["a"], stride), p["g"]))
    skip = batchnorm(conv(x, p["skip"], stride), p["i"]) if "skip" in p else x
    return jax.nn.relu(batchnorm(conv(h, p["b"]), p["h"]) + skip)


def image_loss(p, x):
    return cross_entropy(p, x.mean((1, 2)) @ p["w"])


def resnet(key):
    kernel = lambda i, size, n, m: normal(jax.random.fold_in(key, i), size, size, n, m) / n**0.5
    params = [{"a": kernel(0, 3, 3, 16), "g": jnp.ones(16)}]
    for i, (n, m) in enumerate([(16, 16)] * 4 + [(16, 32)] + [(32, 32)] * 3 + [(32, 64)] + [(64, 64)] * 3):
        p = {"a": kernel(3 * i + 1, 3, n, m), "b": kernel(3 * i + 2, 3, m, m), "g": jnp.ones(m), "h": jnp.ones(m)}
        params.append(p if n == m else {**p, "skip": kernel(3 * i + 3, 1, n, m), "i": jnp.ones(m)})
    params.append({"w": normal(key, 64, 10), "targets": jax.random.randint(key, (16,), 0, 10)})
    return [stem, *[residual] * 12, image_loss], params, lambda: jax.random.normal(key, (16, 32, 32, 3))


def wide(p, x):
    return jax.nn.gelu(x @ p["up"]) @ p["down"]


def linear(p, x):
    return x @ p["w"] + p["b"]


def norm(p, x):
    return layernorm(x, p["g"])


def activate(f, p, x):
    return f(x)


def mlp(key):
    keys = [jax.random.fold_in(key, i) for i in range(14)]
    shared = {"w": normal(keys[0], 256, 256), "b": jnp.zeros(256)}
    relu = functools.partial(activate, jax.nn.relu)
    steps, params = [], []
    for i in range(6):
        steps += [wide, linear, relu, norm]
        params += [{"up": normal(keys[i + 1], 256, 1024), "down": normal(keys[i + 7], 1024, 256)}]
        params += [shared, {}, {"g": jnp.ones(256)}]
    mean_square = functools.partial(activate, lambda x: (x * x).mean())
    return [*steps, mean_square], [*params, {}], lambda: jax.random.normal(key, (512, 256))


def enter(p, x):
    return jnp.tanh(x @ p["w"]), {"x": x, "turn": jnp.int32(1)}


def middle(p, state):
    h, kept = state
    return jnp.tanh(dropout(h, p["key"]) @ p["w"]) + kept["x"], {**kept, "turn": kept["turn"] + 1}


def leave(p, state):
    h, kept = state
    return h * kept["x"] / kept["turn"], kept["turn"]


def skips(key):
    """States of several arrays, some of which pass on."""
    params = [{"w": normal(jax.random.fold_in(key, i), 128, 128), "key": jax.random.fold_in(key, i)} for i in range(10)]
    return [enter, *[middle] * 9, leave], [*params, {}], lambda: jax.random.normal(key, (256, 128))


MODELS = {"transformer": transformer, "halves": halves, "ResNet": resnet, "MLP": mlp, "skips": skips}


@functools.lru_cache(1)
def build(name):
    """The steps, params and batch maker of a model, and the state of an optimiser like Adam."""
    steps, params, batch = MODELS[name](jax.random.PRNGKey(1))
    return steps, params, batch, [run_jax.zeros_for(params), run_jax.zeros_for(params)]


def costs(name):
    steps, params, batch, optimizer = build(name)
    return costs_jax.costs(name, steps, params, batch(), optimizer)


def plain(steps, params, x):
    """jax.vjp of the composition of the jitted steps, with respect to each array once; the gradients added to zeros."""
    steps = [jax.jit(step) for step in steps]
    arrays, tree = jax.tree_util.tree_flatten(params)

    def composition(distinct, x):
        params = jax.tree_util.tree_unflatten(tree, [distinct[id(a)] for a in arrays])
        for step, p in zip(steps, params):
            x = step(p, x)
        return x

    output, back = jax.vjp(composition, {id(a): a for a in arrays}, x)
    found, gradient = back(run_jax.ones(output))
    sums = {at: run_jax.add(zero, found[at]) for at, zero in run_jax.zeros_for(params).items()}
    return jax.tree_util.tree_map(lambda a: sums.get(id(a)), params), gradient


def live_bytes():
    return costs_jax.tree_bytes(jax.live_arrays())


class Counted:
    """While it lasts, record() and reverse() of run_jax note the most bytes of arrays and temporary buffers."""

    def __enter__(self):
        self.peak, self.originals = 0, (run_jax.record, run_jax.reverse)
        jvp = lambda step: lambda p, s: jax.vjp(step, p, s)
        run_jax.record = lambda step, p, s: self.count(self.originals[0], (step, p, s), jvp(step), (p, s))
        run_jax.reverse = lambda r, c: self.count(self.originals[1], (r, c), lambda r, c: r(c), (r, c))
        return self

    def count(self, run, arguments, program, inputs):
        result = run(*arguments)
        self.peak = max(self.peak, live_bytes() + costs_jax.temporary(program, *inputs))
        return result

    def __exit__(self, *_):
        run_jax.record, run_jax.reverse = self.originals


def measure(name, actions=None):
    """Runs a model under ACTIONS, or plain autograd. Returns the fixed bytes, the peak, and the results."""
    steps, params, batch, _ = build(name)
    fixed = live_bytes() + costs_jax.tree_bytes(run_jax.zeros_for(params))
    if actions is None:
        results, peak = plain(steps, params, batch()), None
    else:
        with Counted() as counted:
            results = run_jax.run(steps, params, batch(), actions)
        peak = counted.peak
    return fixed, peak, [np.asarray(a).tobytes() for a in run_jax.leaves(results)]
