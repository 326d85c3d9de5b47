#!/usr/bin/env python3
"""Writes NAME.npz for each chain NAME.ck beside this file: what JAX, in f64, makes of the same model.

A file has the input x (and other inputs by name), each param and const by name, `value`, each output O as `output.O`,
and for each float input and param P the gradient `grad.P` of the sum of the value. Numbers are rounded to 2^-20 before
JAX sees them, so that the file is the same on each machine but for the results' last bits. NAME.f32.npz is the same in
f32.
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
SINGLE = ["gat.f32", "gpt2.f32", "ignored.f32", "word2vec.f32"]


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


def chosen(logits, classes):
    """The log probability of each row's class."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), classes[..., None], -1)[..., 0]


def cross_entropy(logits, classes):
    return -chosen(logits, classes).mean()


def conv2d(x, kernel, stride=1, padding=0, **options):
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), [(padding, padding)] * 2, **options)


def attention(q, k, v, heads, mask=True):
    """Attention of several heads over the middle axis of three arrays, and the heads beside each other again."""
    q, k, v = (a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3) for a in (q, k, v))
    scores = q @ jnp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    mixed = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(mixed.shape[0], mixed.shape[2], -1)


def kept(shape, p, seed, stream):
    """The elements that dropout keeps: words of Philox4x32-10 as ckptc-chain(5) describes them."""
    words = []
    for block in range(-(-int(np.prod(shape)) // 4)):
        counter, key = [block, 0, stream, 0], [seed, 0]
        for _ in range(10):
            a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += counter
    return np.array(words[:np.prod(shape)]).reshape(shape) >= p * 2**32


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


@model(x=(3, 4), W=(4, 4), U=(4, 4))
def deq(x, W, U):
    z = 0 * x
    for _ in range(200):  # the layer is a contraction
        z = jnp.tanh(z @ W + x @ U)
    return z


@model(x=(3, 4, 6), w1=(6, 6), w2=(6, 6))
def dropout(x, w1, w2):
    hidden = gelu(layernorm(x) @ w1)
    hidden = jnp.where(kept(hidden.shape, 0.3, 5, 0), hidden / 0.7, 0) @ w2
    return x + jnp.where(kept(hidden.shape, 0.2, 5, 1), hidden / 0.8, 0)


@model(x=(7, 4), src=((12,), 7), dst=((12,), 7), w=(4, 5), al=(5,), ar=(5,))
def gat(x, src, dst, w, al, ar):
    h = x @ w
    a = jnp.exp(jax.nn.leaky_relu(h[src] @ al + h[dst] @ ar, 0.2))
    a = a / jnp.zeros(7).at[dst].add(a)[dst]
    return jnp.zeros((7, 5)).at[dst].add(a[:, None] * h[src])


@model(x=(7, 4), A=(7, 7), labels=((7,), 3), w1=(4, 5), w2=(5, 3))
def gcn(x, A, labels, w1, w2):
    return cross_entropy(A @ jax.nn.relu(A @ x @ w1) @ w2, labels)


@model(tokens=((3, 5), 11), targets=((3, 5), 11), wte=(11, 8), wpe=(5, 8), ln1_g=(2, 8), ln1_b=(2, 8),
       qkv_w=(2, 8, 24), qkv_b=(2, 24), o_w=(2, 8, 8), o_b=(2, 8), ln2_g=(2, 8), ln2_b=(2, 8), f_w=(2, 8, 32),
       f_b=(2, 32), p_w=(2, 32, 8), p_b=(2, 8), lnf_g=(8,), lnf_b=(8,))
def gpt2(tokens, targets, wte, wpe, ln1_g, ln1_b, qkv_w, qkv_b, o_w, o_b, ln2_g, ln2_b, f_w, f_b, p_w, p_b, lnf_g,
         lnf_b):
    h, past = wte[tokens] + wpe, jnp.tril(jnp.ones((5, 5)))
    for i in range(2):
        q, k, v = jnp.split((layernorm(h) * ln1_g[i] + ln1_b[i]) @ qkv_w[i] + qkv_b[i], 3, 2)
        h = h + attention(q, k, v, 2, past) @ o_w[i] + o_b[i]
        f = (layernorm(h) * ln2_g[i] + ln2_b[i]) @ f_w[i] + f_b[i]
        h = h + jax.nn.gelu(f, approximate=True) @ p_w[i] + p_b[i]
    return cross_entropy((layernorm(h) * lnf_g + lnf_b) @ wte.T, targets)


@model(images=(2, 3, 8, 8), labels=((2,), 5), pw=(8, 3, 4, 4), pb=(8,), cls=(8,), pos=(5, 8), wqkv=(2, 3, 8, 8),
       wo=(2, 8, 8), w1=(2, 8, 32), w2=(2, 32, 8), head=(8, 5))
def vit(images, labels, pw, pb, cls, pos, wqkv, wo, w1, w2, head):
    patches = conv2d(images, pw, 4).reshape(2, 8, 4).transpose(0, 2, 1) + pb
    h = jnp.concatenate([jnp.tile(cls, (2, 1, 1)), patches], 1) + pos
    for i in range(2):
        t = layernorm(h)
        h = h + attention(t @ wqkv[i, 0], t @ wqkv[i, 1], t @ wqkv[i, 2], 2) @ wo[i]
        h = h + gelu(layernorm(h) @ w1[i]) @ w2[i]
    return cross_entropy(layernorm(h)[:, 0] @ head, labels)


@model(x=(3, 4, 6), t1=(2, 4, 5), t2=(2, 5, 4), c1=(2, 6, 8), c2=(2, 8, 6))
def mixer(x, t1, t2, c1, c2):
    turned = lambda v: jnp.swapaxes(v, 1, 2)
    for a, b, c, d in zip(t1, t2, c1, c2):
        x = x + turned(gelu(turned(layernorm(x)) @ a) @ b)
        x = x + gelu(layernorm(x) @ c) @ d
    return layernorm(x).mean(1) ** 2


@model(images=(3, 3, 12, 12), labels=((3,), 5), k0=(4, 3, 3, 3), g0=(4,), b0=(4,), ka=(4, 4, 3, 3), ga=(4,), ba=(4,),
       kb=(4, 4, 3, 3), gb=(4,), bb=(4,), kd=(8, 4, 1, 1), ks=(8, 4, 3, 3), fc=(8, 5))
def resnet(images, labels, k0, g0, b0, ka, ga, ba, kb, gb, bb, kd, ks, fc):
    def norm(x, g, b):
        x = (x - x.mean((0, 2, 3), keepdims=True)) / jnp.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
        return x * g[:, None, None] + b[:, None, None]
    h = jax.nn.relu(norm(conv2d(images, k0, padding=1), g0, b0))
    h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0)] * 2 + [(1, 1)] * 2)
    inner = jax.nn.relu(norm(conv2d(h, ka, padding=1), ga, ba))
    h = jax.nn.relu(h + norm(conv2d(inner, kb, padding=1), gb, bb))
    h = jax.nn.relu(conv2d(h, ks, 2, 1) + conv2d(h, kd, 2))
    return cross_entropy(h.mean((2, 3)) @ fc, labels)


@model(images=(2, 1, 8, 8), e1=(4, 1, 3, 3), e2=(8, 4, 3, 3), mid=(8, 8, 3, 3), d2=(4, 16, 3, 3), up=(4, 4, 2, 2),
       d1=(4, 8, 3, 3), out=(1, 4, 1, 1))
def unet(images, e1, e2, mid, d2, up, d1, out):
    block = lambda v, kernel: jax.nn.silu(conv2d(v, kernel, padding=1))
    pool = lambda v: v.reshape(*v.shape[:2], v.shape[2] // 2, 2, v.shape[3] // 2, 2).max((3, 5))
    s1 = block(images, e1)
    s2 = block(pool(s1), e2)
    deep = block(pool(s2), mid)
    d = block(jnp.concatenate([deep.repeat(2, 2).repeat(2, 3), s2], 1), d2)
    d = jnp.einsum("ncij,cdab->ndiajb", d, up).reshape(-1, 4, 8, 8)
    return jax.nn.sigmoid(conv2d(block(jnp.concatenate([d, s1], 1), d1), out))


@model(x=(2, 3, 6, 6), dw=(3, 3, 3), pw=(6, 3, 1, 1))
def depthwise(x, dw, pw):
    return conv2d(jax.nn.relu(conv2d(x, dw[:, None], padding=1, feature_group_count=3)), pw)


@model(x=(2, 3, 16), kf=(3, 3, 2), kg=(3, 3, 2), res=(3, 3))
def wavenet(x, kf, kg, res):
    dilated = lambda k: jax.lax.conv_general_dilated(x, k, (1,), [(4, 0)], rhs_dilation=(4,))
    return x + jnp.einsum("ij,njt->nit", res, jnp.tanh(dilated(kf)) * jax.nn.sigmoid(dilated(kg)))


@model(x=(3, 2, 4, 4), M=(4, 8))
def upsample(x, M):
    return jnp.einsum("ncij,ia,jb->ncab", x, M, M)


@model(a=(6, 3), b=(6, 5), wa=(3, 2), wb=(5, 2))
def branches(a, b, wa, wb):
    return (jnp.tanh(a @ wa) ** 2).sum(1) + (jax.nn.sigmoid(b @ wb) ** 2).sum(1)


@model(x=(4, 6), W=(5, 6), b=(5,), A=(2, 6), B=(5, 2))
def lora(x, W, b, A, B):
    return x @ (W + 8 * B @ A).T + b


@model(h=(3, 5, 7), w=(7, 7), t=((3, 5), 7))
def ignored(h, w, t):
    kept = t != -100
    return -(chosen(h @ w, jnp.where(kept, t, 0)) * kept).sum() / kept.sum()


@model(h=(6, 5), t=((6,), 5), weights=(5,))
def weighted(h, t, weights):
    return -(weights[t] * chosen(h, t)).sum() / weights[t].sum()


@model(h=(6, 5), w=(5, 5), t=((6,), 5))
def smoothed(h, w, t):
    labels = 0.9 * jax.nn.one_hot(t, 5) + 0.1 / 5
    return -(labels * jax.nn.log_softmax(h @ w)).sum(1).mean()


@model(x=(6, 4), y=(6, 1), p=(96,))
def flat(x, y, p):
    return ((jnp.tanh(x @ p[:64].reshape(4, 16) + p[64:80]) @ p[80:, None] - y) ** 2).mean()


@model(w=(96,), g=(96,), m=(96,), v=(96,), t=())
def adam(w, g, m, v, t):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return w - 0.01 * m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), {"momentum": m, "spread": v}


@model(xs=(6, 4, 8), W=(8, 8))
def rnn_loss(xs, W):
    h, loss = jnp.zeros((4, 8)), 0.0
    for x in xs:
        h = jnp.tanh(h @ W + x)
        loss = loss + (h * h).sum()
    return loss


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


@model(u=(12, 16), k=(12, 16))
def heat2d(u, k):
    for _ in range(30):
        p, q = (k[1:] + k[:-1]) / 2 * jnp.diff(u, axis=0), (k[:, 1:] + k[:, :-1]) / 2 * jnp.diff(u, axis=1)
        u = u + 0.1 * (jnp.diff(jnp.pad(p, ((1, 1), (0, 0))), axis=0) + jnp.diff(jnp.pad(q, ((0, 0), (1, 1))), axis=1))
    return (u**2).sum()


@model(x=(5,), a=(5,))
def implicit(x, a, iterations=12):
    for _ in range(10):
        old = x
        for _ in range(iterations):
            x = x - (x + 0.1 * a * x**3 - old) / (1 + 0.3 * a * x**2)
    return (x**2).sum()


@model(x=(5,), a=(5,))
def newton(x, a):
    return implicit(x, a, 8)


@model(u=(32,), A=(32, 32), B=(32, 32))
def kuramoto(u, A, B):
    for _ in range(60):
        u = u @ A + u**2 @ B
    return (u**2).mean()


@model(x=(3,), L=(3, 3), P=(3, 3), Q=(3, 3), background=(3,), observations=(6, 3))
def assimilation(x, L, P, Q, background, observations):
    f = lambda s: s @ L + (s @ P) * (s @ Q)
    cost = ((x - background) ** 2).sum() / 2
    for seen in observations:
        for _ in range(5):
            k1 = f(x)
            k2 = f(x + 0.005 * k1)
            k3 = f(x + 0.005 * k2)
            k4 = f(x + 0.01 * k3)
            x = x + 0.01 / 6 * (k1 + 2 * (k2 + k3) + k4)
        cost = cost + ((x - seen) ** 2).sum()
    return cost


@model(w=(10, 10), nu=())
def vorticity(w, nu, most=15, enough=None):
    d = lambda v, axis: (jnp.roll(v, -1, axis) - jnp.roll(v, 1, axis)) / 2
    psi, counts = 0 * w, []
    for _ in range(8):
        count = 0
        while count < most and (enough is None or jnp.linalg.norm(second_differences(psi) + w) > enough):
            psi, count = psi + 0.2 * (second_differences(psi) + w), count + 1
        counts.append(count)
        w = w - 0.1 * (d(psi, 1) * d(w, 0) - d(psi, 0) * d(w, 1)) + nu * second_differences(w)
    assert enough is None or min(counts) < max(counts) < most, counts
    return (w**2).mean()


@model(w=(10, 10), nu=())
def converged(w, nu):
    return vorticity(w, nu, 50, 0.8)


@model(u=(64,), c=(64,), wavelet=(80,), data=(80, 3), sponge=(64,), src=(64,), rec=(64, 3))
def string(u, c, wavelet, data, sponge, src, rec):
    before, loss = u, 0.0
    for w, heard in zip(wavelet, data):
        p = jnp.pad(u, 1)
        lap = p[2:] - 2 * u + p[:-2]
        u, before = sponge * (2 * u - sponge * before + c**2 * lap / 4 + w * src), u
        loss = loss + ((u @ rec - heard) ** 2).sum()
    return loss


CONSTS = {"eps", "adv", "old", "data", "sponge", "src", "t", "weights", "M", "rec", "P", "Q", "background",
          "observations"}
CONSTS_OF = {"gcn": {"A"}, "kuramoto": {"A", "B"}, "lora": {"W", "b"}}
SUITABLE = {  # numbers with which a model makes sense
    "grayscott": lambda a: dict(u=np.abs(a["u"]) / 4 + 0.5, v=np.abs(a["v"]) / 4, F=0.035, k=0.06),  # concentrations
    "lorenz96": lambda a: dict(F=8.0),
    "burgers": lambda a: dict(nu=0.1),
    "vorticity": lambda a: dict(nu=0.05),
    "converged": lambda a: dict(nu=0.05, w=a["w"] - a["w"].mean()),
    "adam": lambda a: dict(v=a["v"] ** 2, t=3.0),
    "deq": lambda a: dict(W=a["W"] / 4),
    "implicit": lambda a: dict(a=np.abs(a["a"])),
    "newton": lambda a: dict(a=np.abs(a["a"])),
    "kuramoto": lambda a: dict(A=a["A"] / 16 + 0.75 * np.eye(32), B=a["B"] / 16),
    "ignored": lambda a: dict(t=np.where(a["t"] == 3, -100, a["t"])),
    "weighted": lambda a: dict(weights=np.abs(a["weights"])),
}


def results(function, arrays):
    """The value of a model and its outputs by name."""
    found = function(**arrays)
    return found if isinstance(found, tuple) else (found, {})


def write(path):
    name, *single = path.split(".")
    function, shapes = MODELS[name]
    random = np.random.default_rng(sum(name.encode()))
    arrays = {}
    for key, shape in shapes.items():
        if len(shape) == 2 and isinstance(shape[0], tuple):
            arrays[key] = random.integers(0, shape[1], shape[0])
        else:
            arrays[key] = np.round(0.5 * random.standard_normal(shape) * 2**20) / 2**20
    arrays |= {key: np.asarray(a) for key, a in SUITABLE.get(name, lambda a: {})(arrays).items()}
    if single:
        arrays = {key: a.astype(np.float32) if a.dtype.kind == "f" else a for key, a in arrays.items()}
    value, outputs = results(function, arrays)
    found = dict(arrays, value=value) | {"output." + key: a for key, a in outputs.items()}
    consts = CONSTS_OF.get(name, CONSTS)
    floats = [key for key in arrays if arrays[key].dtype.kind == "f" and key not in consts]
    total = lambda part: results(function, {**arrays, **part})[0].sum()
    for key, gradient in jax.grad(total)({key: jnp.asarray(arrays[key]) for key in floats}).items():
        found["grad." + key] = gradient
    np.savez(os.path.join(HERE, path + ".npz"), **{key: np.asarray(a) for key, a in found.items()})


if __name__ == "__main__":
    for model_name in sys.argv[1:] or sorted(MODELS) + SINGLE:
        write(model_name)
