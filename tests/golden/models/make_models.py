#!/usr/bin/env python3
"""Writes NAME.npz for each chain NAME.ck beside this file: what JAX, in f64, makes of the same model.

A file has the input x (and other inputs by name), each param and const by name, `value`, and for each float input and
param P the gradient `grad.P` of the sum of the value. Numbers are rounded to 2^-20 before JAX sees them, so that the
file is the same on each machine but for the results' last bits.
Usage: make_models.py [NAME ...], with numpy and jax.
"""
import os
import sys

import numpy as np

os.environ["JAX_ENABLE_X64"] = "1"
import jax
import jax.numpy as jnp

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {}


def model(**shapes):
    """Registers a reference function. SHAPES: the shape of an array of floats, or (shape, most) of indices below most."""
    def register(function):
        MODELS[function.__name__] = (function, shapes)
        return function
    return register


def rms(x, gain):
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def layernorm(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def cross_entropy(logits, classes):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), classes[:, None], 1))


@model(xs=(6, 4, 8), W=(8, 8))
def rnn(xs, W):
    h, ys = jnp.zeros((4, 8)), []
    for x in xs:
        h = jnp.tanh(h @ W + x)
        ys.append(h)
    return jnp.stack(ys)


@model(xs=(3, 6, 4), weight_ih=(15, 4), weight_hh=(15, 5), bias_ih=(15,), bias_hh=(15,))
def gru(xs, weight_ih, weight_hh, bias_ih, bias_hh):
    h, ys = jnp.zeros((3, 5)), []
    for x in xs.transpose(1, 0, 2):
        a, b = x @ weight_ih.T + bias_ih, h @ weight_hh.T + bias_hh
        r, z = jax.nn.sigmoid(a[:, :5] + b[:, :5]), jax.nn.sigmoid(a[:, 5:10] + b[:, 5:10])
        n = jnp.tanh(a[:, 10:] + r * b[:, 10:])
        h = (1 - z) * n + z * h
        ys.append(h)
    return jnp.stack(ys, 1)


@model(xs=(6, 3, 4), weight_ih=(20, 4), weight_hh=(20, 5), bias_ih=(20,), bias_hh=(20,))
def lstm(xs, weight_ih, weight_hh, bias_ih, bias_hh):
    h, c, ys = jnp.zeros((3, 5)), jnp.zeros((3, 5)), []
    for x in xs:
        i, f, g, o = jnp.split(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        ys.append(h)
    return jnp.stack(ys)


@model(x=(3, 5, 16), n1=(16,), wq=(16, 16), wk=(8, 16), wv=(8, 16), wo=(16, 16), n2=(16,), w1=(24, 16), w2=(16, 24),
       w3=(24, 16))
def llama(x, n1, wq, wk, wv, wo, n2, w1, w2, w3):
    angle = jnp.arange(5.0)[:, None] * 10000.0 ** (-2 / 4 * jnp.arange(2.0))
    angle = jnp.concatenate([angle, angle], 1)
    rotate = lambda v: v * jnp.cos(angle) + jnp.concatenate([-v[..., 2:], v[..., :2]], -1) * jnp.sin(angle)
    heads = lambda v, per: v.reshape(-1, 5, 2, per, 4).transpose(0, 2, 3, 1, 4)
    a = rms(x, n1)
    q, k, v = rotate(heads(a @ wq.T, 2)), rotate(heads(a @ wk.T, 1)), heads(a @ wv.T, 1)
    scores = jnp.where(jnp.tril(jnp.ones((5, 5))), q @ jnp.swapaxes(k, -1, -2) / 2, -1e30)
    x = x + (jax.nn.softmax(scores) @ v).transpose(0, 3, 1, 2, 4).reshape(-1, 5, 16) @ wo.T
    b = rms(x, n2)
    return x + (jax.nn.silu(b @ w1.T) * (b @ w3.T)) @ w2.T


@model(ids=((5, 4), 9), win=(9, 4), wout=(9, 4))
def word2vec(ids, win, wout):
    score = (win[ids[:, :1]] * wout[ids[:, 1:]]).sum(2)
    return jax.nn.softplus(score * jnp.array([-1.0, 1, 1])).sum(1).mean()


@model(images=(5, 4), texts=(5, 6), wi=(4, 3), wt=(6, 3), logt=())
def clip(images, texts, wi, wt, logt):
    unit = lambda v: v / jnp.sqrt((v * v).sum(1, keepdims=True))
    similar = unit(images @ wi) @ unit(texts @ wt).T * jnp.exp(logt)
    classes = jnp.arange(5)
    return (cross_entropy(similar, classes) + cross_entropy(similar.T, classes)) / 2


@model(x=(4, 7), e1=(7, 6), e2=(6, 6), d1=(3, 6), d2=(6, 7), eps=(4, 3))
def vae(x, e1, e2, d1, d2, eps):
    q = jax.nn.relu(x @ e1) @ e2
    mu, logvar = q[:, :3], q[:, 3:]
    logits = jax.nn.relu((mu + eps * jnp.exp(logvar / 2)) @ d1) @ d2
    return (jax.nn.softplus(logits) - logits * x).sum() - 0.5 * (1 + logvar - mu**2 - jnp.exp(logvar)).sum()


@model(real=(6, 5), noise=(6, 3), g1=(3, 6), g2=(6, 5), d1=(5, 6), d2=(6, 1))
def gan(real, noise, g1, g2, d1, d2):
    judge = lambda v: jax.nn.leaky_relu(v @ d1, 0.2) @ d2
    return (jax.nn.softplus(-judge(real)) + jax.nn.softplus(judge(jnp.tanh(noise @ g1) @ g2))).mean()


@model(s=(6, 3), w=(3, 4), act=((6,), 4), adv=(6,), old=(6,))
def ppo(s, w, act, adv, old):
    taken = jnp.take_along_axis(jax.nn.log_softmax(s @ w), act[:, None], 1)[:, 0]
    ratio = jnp.exp(taken - old)
    return -jnp.minimum(ratio * adv, jnp.clip(ratio, 0.8, 1.2) * adv).mean()


@model(x=(5, 4), wg=(4, 3), w1=(3, 4, 6), w2=(3, 6, 4))
def moe(x, wg, w1, w2):
    gate = jax.nn.softmax(x @ wg)
    chosen = gate * jax.nn.one_hot(gate.argmax(1), 3)
    return ((jax.nn.relu(x @ w1) @ w2) * chosen.T[:, :, None]).sum(0)


@model(y=(3, 4), w1=(4, 6), w2=(6, 4), wt=(6,))
def neural_ode(y, w1, w2, wt):
    f = lambda v, t: jnp.tanh(v @ w1 + t * wt) @ w2
    for i in range(10):
        t = 0.1 * i
        k1 = f(y, t)
        k2 = f(y + 0.05 * k1, t + 0.05)
        k3 = f(y + 0.05 * k2, t + 0.05)
        k4 = f(y + 0.1 * k3, t + 0.1)
        y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@model(u=(6, 2, 3), lre=(3, 4), lim=(3, 4), Cre=(3, 4), Cim=(3, 4))
def s4d(u, lre, lim, Cre, Cim):
    a = jnp.exp(-jnp.exp(lre)) * jnp.exp(1j * lim)
    s, ys = jnp.zeros((2, 3, 4), complex), []
    for x in u:
        s = a * s + x[:, :, None]
        ys.append(2 * ((Cre + 1j * Cim) * s).real.sum(2))
    return jnp.stack(ys)


@model(x=(2, 6, 4), win=(4, 16), cw=(4, 8), cb=(8,), wbc=(8, 6), wdt=(8, 8), bdt=(8,), Alog=(8, 3), Dp=(8,), wout=(8, 4))
def mamba(x, win, cw, cb, wbc, wdt, bdt, Alog, Dp, wout):
    u, z = jnp.split(x @ win, 2, 2)
    padded = jnp.pad(u, ((0, 0), (3, 0), (0, 0)))
    u = jax.nn.silu(sum(padded[:, i:i + 6] * cw[i] for i in range(4)) + cb)
    dt, bc = jax.nn.softplus(u @ wdt + bdt), u @ wbc
    h, ys = jnp.zeros((2, 8, 3)), []
    for t in range(6):
        d = dt[:, t, :, None]
        h = jnp.exp(d * -jnp.exp(Alog)) * h + d * u[:, t, :, None] * bc[:, t, None, :3]
        ys.append((h * bc[:, t, None, 3:]).sum(2))
    return ((jnp.stack(ys, 1) + u * Dp) * jax.nn.silu(z)) @ wout


def second_differences(v):
    return sum(jnp.roll(v, 1, a) + jnp.roll(v, -1, a) - 2 * v for a in range(v.ndim))


@model(u=(10, 10), v=(10, 10), F=(), k=())
def grayscott(u, v, F, k):
    for _ in range(30):
        uvv = u * v**2
        u, v = (u + 0.16 * second_differences(u) - uvv + F * (1 - u),
                v + 0.08 * second_differences(v) + uvv - (F + k) * v)
    return (v**2).mean()


@model(u=(40,), nu=())
def burgers(u, nu):
    for _ in range(40):
        left, right = u - jnp.roll(u, 1), jnp.roll(u, -1) - u
        u = u - 0.2 * (left * jnp.maximum(u, 0) + right * jnp.minimum(u, 0)) + nu * second_differences(u)
    return (u**2).mean()


@model(u=(32,), k=(32,))
def heat(u, k):
    for _ in range(50):
        q = (k[1:] + k[:-1]) / 2 * (u[1:] - u[:-1])
        u = u + 0.2 * (jnp.pad(q, (0, 1)) - jnp.pad(q, (1, 0)))
    return (u**2).sum()


@model(h=(12, 10), u=(12, 10), v=(12, 10), H=(12, 10))
def shallow(h, u, v, H):
    dx = lambda a: jnp.roll(a, -1, 0) - jnp.roll(a, 1, 0)
    dy = lambda a: jnp.roll(a, -1, 1) - jnp.roll(a, 1, 1)
    for _ in range(20):
        h, u, v = (h - 0.05 * (dx(h * u * H) + dy(h * v * H)),
                   u - 0.05 * (u * dx(u) + v * dy(u) + dx(h)),
                   v - 0.05 * (u * dx(v) + v * dy(v) + dy(h)))
    return (h**2).mean() + (u**2).mean()


@model(q=(6, 2), v=(6, 2), m=(6,))
def nbody(q, v, m):
    for _ in range(20):
        d = q[:, None] - q[None]
        far = ((d**2).sum(2, keepdims=True) + 0.1) ** -1.5
        v = v - 0.01 * (d * far * m[None, :, None]).sum(1)
        q = q + 0.01 * v
    return (q**2).sum()


@model(x=(5, 8), F=())
def lorenz96(x, F):
    f = lambda s: (jnp.roll(s, -1, 1) - jnp.roll(s, 2, 1)) * jnp.roll(s, 1, 1) - s + F
    for _ in range(20):
        k1 = f(x)
        k2 = f(x + 0.025 * k1)
        k3 = f(x + 0.025 * k2)
        k4 = f(x + 0.05 * k3)
        x = x + 0.05 / 6 * (k1 + 2 * (k2 + k3) + k4)
    return (x**2).mean()


@model(u=(8,))
def trajectory(u):
    before, rows = u, []
    for _ in range(4):
        for _ in range(5):
            u, before = 2 * u - before + 0.25 * second_differences(u), u
        rows.append(u)
    return jnp.stack(rows)


@model(u=(24, 24), c=(24, 24), wavelet=(12,), data=(12, 24), sponge=(24, 24), src=(24, 24))
def wave(u, c, wavelet, data, sponge, src):
    weights = [-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12]
    before, loss = u, 0.0
    for w, d in zip(wavelet, data):
        p = jnp.pad(u, 2)
        lap = sum(k * (p[2:-2, i:i + 24] + p[i:i + 24, 2:-2]) for i, k in enumerate(weights))
        u, before = sponge * (2 * u - before + 0.2 * c**2 * lap + w * src), sponge * u
        loss = loss + ((u[3] - d) ** 2).sum()
    return loss


CONSTS = {"eps", "adv", "old", "act", "data", "sponge", "src"}


def write(name):
    function, shapes = MODELS[name]
    random = np.random.default_rng(sum(name.encode()))
    arrays = {}
    for key, shape in shapes.items():
        if len(shape) == 2 and isinstance(shape[0], tuple):
            arrays[key] = random.integers(0, shape[1], shape[0])
        else:
            arrays[key] = np.round(0.5 * random.standard_normal(shape) * 2**20) / 2**20
    if "F" in arrays and name == "lorenz96":
        arrays["F"] = np.float64(8)
    if name == "grayscott":  # concentrations
        arrays["u"], arrays["v"] = np.abs(arrays["u"]) / 4 + 0.5, np.abs(arrays["v"]) / 4
        arrays["F"], arrays["k"] = np.float64(0.035), np.float64(0.06)
    if "nu" in arrays:
        arrays["nu"] = np.float64(0.1)
    found = dict(arrays, value=function(**arrays))
    floats = [key for key in arrays if arrays[key].dtype.kind == "f" and key not in CONSTS]
    value = lambda part: function(**{**arrays, **part}).sum()
    for key, gradient in jax.grad(value)({key: jnp.asarray(arrays[key]) for key in floats}).items():
        found["grad." + key] = gradient
    np.savez(os.path.join(HERE, name + ".npz"), **{key: np.asarray(a) for key, a in found.items()})


if __name__ == "__main__":
    for chosen in sys.argv[1:] or sorted(MODELS):
        write(chosen)
