"""JAX's part of bench/steps: a function, and its gradients by jax.grad."""
import jax
import numpy as np

PROGRAM = "jax_step.py steps_jax.layer"
CHAIN = "program layer(w, b): same; param ws; param bs; for w, b in ws, bs { layer w b }; sum"
OWN = "jax.grad, steps jitted"


def layer(x, w, b):
    return x + jax.nn.gelu(x @ w + b)


def arrays():
    generator = np.random.default_rng(1)
    normal = lambda *shape: generator.standard_normal(shape, np.float32)
    return normal(32, 64), {"ws": normal(8, 64, 64) / 8, "bs": normal(8, 64) / 8}


def gradients(x, ws, bs):
    def loss(x, ws, bs, step):
        for w, b in zip(ws, bs):
            x = step(x, w, b)
        return x.sum()

    ways = {OWN: jax.grad(lambda *inputs: loss(*inputs, jax.jit(layer)), (0, 1, 2))}
    ways["jax.grad, jitted whole"] = jax.jit(jax.grad(lambda *inputs: loss(*inputs, layer), (0, 1, 2)))
    for name, way in ways.items():
        gx, gws, gbs = map(np.asarray, way(x, ws, bs))
        yield name, gx, {"ws": gws, "bs": gbs}
