"""The networks of bench/networks.py in PyTorch and JAX: networks_peers.py FRAMEWORK CASE PASS THREADS FOLDER.

For each line of its input reads x.npy and params.npz from FOLDER, takes one step, and writes its results to
FOLDER/peer.npz. Prints the seconds of the step, elapsed and of the processor, and the seconds elapsed with the files. At
the end prints the KiB of VmHWM. The first two steps, which compile, are not printed. A step begins and ends with arrays of
NumPy.
"""
import os
import sys
import time

import numpy as np

FRAMEWORK, CASE, PASS, THREADS, FOLDER = sys.argv[1:]


def load():
    with np.load(os.path.join(FOLDER, "params.npz")) as file:
        return np.load(os.path.join(FOLDER, "x.npy")), dict(file)


def torch_step():
    import torch
    from torch.nn import functional as F
    torch.set_num_threads(int(THREADS))

    def gpt(x, p):
        n, t, d = x.shape
        heads = lambda y: y.view(n, t, d // 64, 64).transpose(1, 2)
        for g, b, q, k, v, o, h, c, up, ub, down, db in zip(*[p[key] for key in GPT]):
            y = F.layer_norm(x, (d,), g, b)
            y = F.scaled_dot_product_attention(heads(y @ q), heads(y @ k), heads(y @ v), is_causal=True)
            x = x + y.transpose(1, 2).reshape(n, t, d) @ o
            x = x + (F.gelu(F.layer_norm(x, (d,), h, c) @ up + ub) @ down + db)
        return x

    def resnet(x, p):
        for a, b in zip(p["A"], p["B"]):
            x = F.relu(x + F.conv2d(F.relu(F.conv2d(x, a, padding=1)), b, padding=1))
        return x

    def layers(x, p):
        for i in range(len(p)):
            x = torch.tanh(x @ p[f"W{i}"])
        return x

    def rnn(x, p):
        for row in p["xs"]:
            x = torch.tanh(x @ p["W"] + row)
        return x

    def heat(x, p):
        for _ in range(200):
            x = x + 0.1 * (x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x)
        return (x * x).mean()

    f = {"gpt": gpt, "resnet": resnet, "mlp": layers, "rnn": rnn, "heat": heat, "product": lambda x, p: x @ p["W"],
         "attention": lambda x, p: F.scaled_dot_product_attention(x, p["K"], p["V"]),
         "conv": lambda x, p: F.conv2d(x, p["K"], padding=1), "conv1x1": lambda x, p: F.conv2d(x, p["K"]),
         "stem": lambda x, p: F.conv2d(x, p["K"], stride=2, padding=3),
         "depthwise": lambda x, p: F.conv2d(x, p["K"], padding=1, groups=x.shape[1]),
         "transposed": lambda x, p: F.conv_transpose2d(x, p["K"], stride=2, padding=1),
         "maxpool": lambda x, p: F.max_pool2d(x, 3, 2, 1)}[CASE]
    if FRAMEWORK == "torch.compile":
        f = torch.compile(f)

    def forward(x, params):
        with torch.inference_mode():
            return {"y": f(torch.from_numpy(x), {key: torch.from_numpy(value) for key, value in params.items()}).numpy()}

    def gradient(x, params):
        v = torch.from_numpy(x).requires_grad_(True)
        trained = {key: torch.from_numpy(value).requires_grad_(key not in ("xs", "mask")) for key, value in params.items()}
        f(v, trained).sum().backward()
        return {"x": v.grad.numpy()} | {k: p.grad.numpy() for k, p in trained.items() if p.grad is not None}
    return forward if PASS == "forward" else gradient


def jax_step():
    import jax
    import jax.numpy as jnp

    def norm(x, g, b):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b

    def gpt(x, p, mask):
        n, t, d = x.shape
        heads = lambda y: y.reshape(n, t, d // 64, 64).swapaxes(1, 2)

        def block(x, w):
            g, b, q, k, v, o, h, c, up, ub, down, db = w
            y = norm(x, g, b)
            weights = jax.nn.softmax(heads(y @ q) @ heads(y @ k).swapaxes(-1, -2) / 8 + mask)
            x = x + (weights @ heads(y @ v)).swapaxes(1, 2).reshape(n, t, d) @ o
            return x + jax.nn.gelu(norm(x, h, c) @ up + ub, approximate=False) @ down + db, None
        return jax.lax.scan(block, x, [p[key] for key in GPT])[0]

    def conv(x, k, stride=1, padding=1, groups=1):
        return jax.lax.conv_general_dilated(x, k, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups)

    def transposed(x, k):
        """The windows of the cotangent, whose elements are 2 apart, meet the kernel turned round."""
        turned = k[:, :, ::-1, ::-1].swapaxes(0, 1)
        return jax.lax.conv_general_dilated(x, turned, (1, 1), [(2, 2)] * 2, lhs_dilation=(2, 2))

    def attend(x, p, _):
        return jax.nn.softmax(x @ p["K"].swapaxes(-1, -2) / 8) @ p["V"]

    def maxpool(x, *_):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0)] * 2 + [(1, 1)] * 2)

    def resnet(x, p, _):
        for a, b in zip(p["A"], p["B"]):
            x = jax.nn.relu(x + conv(jax.nn.relu(conv(x, a)), b))
        return x

    def layers(x, p, _):
        for i in range(len(p)):
            x = jnp.tanh(x @ p[f"W{i}"])
        return x

    def rnn(x, p, xs):
        return jax.lax.scan(lambda x, row: (jnp.tanh(x @ p["W"] + row), None), x, xs)[0]

    def heat(x, p, _):
        step = lambda x, _: (x + 0.1 * (jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x), None)
        segment = jax.checkpoint(lambda x, _: (jax.lax.scan(step, x, None, 20)[0], None))
        return jnp.square(jax.lax.scan(segment, x, None, 10)[0]).mean()

    f = {"gpt": gpt, "resnet": resnet, "mlp": layers, "rnn": rnn, "heat": heat, "product": lambda x, p, _: x @ p["W"],
         "attention": attend, "conv": lambda x, p, _: conv(x, p["K"]), "conv1x1": lambda x, p, _: conv(x, p["K"], 1, 0),
         "stem": lambda x, p, _: conv(x, p["K"], 2, 3), "depthwise": lambda x, p, _: conv(x, p["K"], 1, 1, x.shape[1]),
         "transposed": lambda x, p, _: transposed(x, p["K"]), "maxpool": maxpool}[CASE]
    compiled = jax.jit(f if PASS == "forward" else jax.grad(lambda x, p, c: f(x, p, c).sum(), (0, 1)))

    def step(x, params):
        const = next((params.pop(key) for key in ("mask", "xs") if key in params), np.zeros(0))
        if PASS == "forward":
            return {"y": np.asarray(compiled(x, params, const))}
        dx, dp = jax.block_until_ready(compiled(x, params, const))
        return {"x": np.asarray(dx)} | {k: np.asarray(g) for k, g in dp.items()}
    return step


GPT = ["g", "b", "Q", "K", "V", "O", "h", "c", "U", "ub", "D", "db"]


def main():
    step = (jax_step if FRAMEWORK == "JAX" else torch_step)()
    path = os.path.join(FOLDER, "peer.npz")
    step(*load()), step(*load())
    for _ in sys.stdin:
        if os.path.exists(path):
            os.unlink(path)
        begun = time.perf_counter()
        arrays = load()
        loaded = time.perf_counter(), time.process_time()
        results = step(*arrays)
        took = time.perf_counter() - loaded[0], time.process_time() - loaded[1]
        np.savez(path, **results)
        print(*took, time.perf_counter() - begun, flush=True)
        del arrays, results
    with open("/proc/self/status", encoding="ascii") as file:
        print(next(line.split()[1] for line in file if line.startswith("VmHWM")))


main()
