"""ckptc.jax: the bits of jitted steps for every budget, XLA's own memory, and the plan's number of runs."""
from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import ckptc
import ckptc.jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

DEPTH = 9


def layer(p: Any, x: Any) -> Any:
    return jnp.tanh(x @ p["w"] + p["b"])


def norm(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def block(p: Any, x: Any) -> Any:
    n, t, d = x.shape
    q, k, v = jnp.moveaxis((norm(x) @ p["qkv"]).reshape(n, t, 3, 4, d // 4), (2, 3), (0, 2))
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (d // 4) ** 0.5)
    x = x + (weights @ v).swapaxes(1, 2).reshape(n, t, d) @ p["out"]
    return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def cell(p: Any, state: Any) -> Any:
    h, c = state
    i, f, g, o = jnp.split(h @ p["w"] + p["b"], 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


# The function, the shapes of its params, and those of its state.
MODELS: dict[str, Any] = {
    "mlp": (layer, {"w": (64, 64), "b": (64,)}, (128, 64)),
    "transformer": (block, {"qkv": (32, 96), "out": (32, 32), "up": (32, 128), "down": (128, 32)}, (4, 32, 32)),
    "lstm": (cell, {"w": (64, 256), "b": (256,)}, ((64, 64), (64, 64))),
}


@pytest.fixture(params=["float32", "float64"])
def dtype(request: Any) -> Iterator[str]:
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(n, int) for n in value)


def make(name: str, dtype: str, depth: int = DEPTH) -> Any:
    """Returns the function of a step, params for DEPTH of them, and a state."""
    function, shapes, state = MODELS[name]
    numbers = np.random.default_rng(1)

    def array(shape: Any) -> Any:
        return jnp.asarray(numbers.standard_normal(shape) / max(1, shape[0]) ** 0.5, dtype)
    params = [{key: array(shape) for key, shape in shapes.items()} for _ in range(depth)]
    return function, params, jax.tree.map(array, state, is_leaf=is_shape)


def mean_square(tree: Any) -> Any:
    return sum((leaf * leaf).mean() for leaf in jax.tree.leaves(tree))


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(params: Any, x: Any) -> Any:
        for own in params:
            x = function(own, x)
        return mean_square(x)
    return run


def after(chain: Any) -> Callable[..., Any]:
    return lambda params, x: mean_square(chain(params, x))


def bits(tree: Any) -> list[Any]:
    return [(a.dtype, a.shape, a.tobytes()) for a in map(np.asarray, jax.tree.leaves(tree))]


def gradients(loss: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """Returns the value and the gradients under jit, and XLA's temporary bytes."""
    compiled = jax.jit(jax.value_and_grad(loss, tuple(range(len(arguments))))).lower(*arguments).compile()
    return compiled(*arguments), compiled.memory_analysis().temp_size_in_bytes


def least_of(functions: Any, *arguments: Any) -> int:
    with pytest.raises(ckptc.LimitError, match="the least that works is") as caught:
        ckptc.jax.checkpoint_chain(functions, 1).plan(*arguments)
    assert caught.value.least
    return int(caught.value.least)


@pytest.mark.parametrize("name", MODELS)
def test_budgets(name: str, dtype: str) -> None:
    """Ten budgets: the bits of jitted steps, at most the plan's memory, and less of it for smaller budgets."""
    function, params, x = make(name, dtype)
    expected = jax.value_and_grad(plain(jax.jit(function)), (0, 1))(params, x)
    everything = ckptc.jax.checkpoint_chain([function] * DEPTH)
    found, most = gradients(after(everything), params, x)
    assert bits(found) == bits(expected)
    assert everything.schedule is not None
    assert most <= (full := everything.schedule.counters.peak_bytes)
    assert everything.schedule.counters.recomputed == 0
    least = least_of([function] * DEPTH, params, x)
    used = []
    for k in range(10):
        chain = ckptc.jax.checkpoint_chain([function] * DEPTH, least + (full - least) * k // 9)
        found, temporary = gradients(after(chain), params, x)
        assert bits(found) == bits(expected), f"budget {k}"
        assert chain.schedule is not None
        assert temporary <= chain.schedule.counters.peak_bytes <= least + (full - least) * k // 9
        used.append(temporary)
    assert used[0] < 0.4 * most
    assert used[0] < 0.8 * gradients(plain(function), params, x)[1]
    # Outside of jit, steps are compiled by themselves as well.
    chain = ckptc.jax.checkpoint_chain([function] * DEPTH, least)
    assert bits(jax.value_and_grad(after(chain), (0, 1))(params, x)) == bits(expected)
    assert bits(jax.jit(chain)(params, x)) == bits(jax.jit(lambda p, s: functional(function, p, s))(params, x))


def functional(function: Any, params: Any, x: Any) -> Any:
    for own in params:
        x = function(own, x)
    return x


@pytest.mark.parametrize("name", MODELS)
def test_whole_program(name: str, dtype: str) -> None:
    """Where XLA compiles plain autodiff whole, it may fuse across steps: of these the LSTM's last bits differ."""
    function, params, x = make(name, dtype)
    found, _ = gradients(after(ckptc.jax.checkpoint_chain([function] * DEPTH, policy="revolve:2")), params, x)
    whole, _ = gradients(plain(function), params, x)
    if name == "lstm":
        assert not jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * abs(b).max()), found,
                                whole) is None
    else:
        assert bits(found) == bits(whole)


@pytest.mark.parametrize("name, depth", [("mlp", 300), ("lstm", 12), ("lstm", 300)])
def test_scan(name: str, depth: int, dtype: str) -> None:
    """Loops: the bits of lax.scan, the plan's memory beside one copy of the params' gradients, and short programs."""
    function, rows, x = make(name, dtype, depth)
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)

    def scanned(params: Any, x: Any) -> Any:
        return mean_square(jax.lax.scan(lambda state, own: (function(own, state), None), x, params)[0])
    expected, most = gradients(scanned, params, x)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    full = ckptc.jax.checkpoint_scan(function).plan(params, x).counters.peak_bytes
    with pytest.raises(ckptc.LimitError) as caught:
        ckptc.jax.checkpoint_scan(function, 1).plan(params, x)
    assert caught.value.least
    for k in (1, 5):
        budget = caught.value.least + (full - caught.value.least) * k // 9
        scan = ckptc.jax.checkpoint_scan(function, budget)
        found, temporary = gradients(after(scan), params, x)
        assert bits(found) == bits(expected), f"budget {k}"
        assert scan.schedule is not None
        assert scan.schedule.counters.peak_bytes <= budget
        assert temporary <= 1.05 * scan.schedule.counters.peak_bytes + size
        assert len(scan.schedule) <= 200
        if k == 1 and depth == 300:
            assert temporary < 0.3 * most + size


def test_scan_closures_and_runs() -> None:
    """A body that closes over a traced array and counts, with integers in its state; and one that changes its type."""
    function, rows, x = make("mlp", "float32", 9)
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    count = [0]

    def loss(kind: str) -> Any:
        def run(scale: Any, params: Any, x: Any) -> Any:
            def body(own: Any, state: Any) -> Any:
                jax.debug.callback(lambda: count.__setitem__(0, count[0] + 1))
                h, number = state
                return function(own, h) * scale + number, number + 1
            if kind == "plain":
                return mean_square(jax.lax.scan(lambda s, own: (body(own, s), None), (x, jnp.int32(0)), params)[0][0])
            chain = ckptc.jax.checkpoint_scan(body, policy=kind)
            chains.append(chain)
            return mean_square(chain(params, (x, jnp.int32(0)))[0])
        return run

    chains: list[Any] = []
    arguments = jnp.float32(0.9), params, x
    expected = jax.jit(jax.value_and_grad(loss("plain"), (0, 1, 2)))(*arguments)
    for policy in ("save-all", "every:7", "revolve:1"):
        jax.effects_barrier()
        count[0] = 0
        found = jax.jit(jax.value_and_grad(loss(policy), (0, 1, 2)))(*arguments)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * float(abs(other).max()))
        jax.effects_barrier()
        assert count[0] == chains[-1].schedule.counters.evaluations
    with pytest.raises(ckptc.UsageError, match="steps of a loop have one type"):
        ckptc.jax.checkpoint_scan(lambda p, x: x.sum())(params, x)
    with pytest.raises(ckptc.UsageError, match="the same leading axis"):
        ckptc.jax.checkpoint_scan(lambda p, x: x)([jnp.ones(3), jnp.ones(4)], x)


def test_jax_checkpoint_on_cpu() -> None:
    """Why steps are branches on CPUs: jax.checkpoint of each step saves nothing there."""
    if jax.default_backend() != "cpu":
        pytest.skip("of CPUs")
    function, params, x = make("lstm", "float32")
    assert gradients(plain(jax.checkpoint(function)), params, x)[1] >= 0.95 * gradients(plain(function), params, x)[1]


@pytest.mark.parametrize("policy", ["save-all", "every:3", "sqrt", "revolve:1", "revolve:2", "recursive", "online:2"])
def test_executions(policy: str) -> None:
    """Steps run as often as the plan says, under jit and outside of it."""
    function, params, x = make("mlp", "float32")
    count = [0]

    def counted(p: Any, x: Any) -> Any:
        jax.debug.callback(lambda: count.__setitem__(0, count[0] + 1))
        return function(p, x)

    chain = ckptc.jax.checkpoint_chain([counted] * DEPTH, policy=policy)
    for how in (jax.jit, lambda f: f):
        count[0] = 0
        jax.block_until_ready(how(jax.grad(after(chain)))(params, x))
        jax.effects_barrier()
        assert chain.schedule is not None
        assert count[0] == chain.schedule.counters.evaluations


def test_leaves() -> None:
    """States and params with integers, None, keys and empty arrays; a state that changes its pytree."""
    def step(p: Any, s: Any) -> Any:
        kept = jax.random.bernoulli(s["key"], 0.8, s["h"].shape)
        h = jnp.where(kept, jnp.tanh(s["h"] @ p["w"]) * p["scale"], 0)
        return {"h": h, "n": s["n"] + 1, "none": None, "key": jax.random.fold_in(s["key"], s["n"]), "empty": s["empty"]}

    def last(p: Any, s: Any) -> Any:
        return (s["h"] ** 2).sum() * s["n"] + p["offset"]

    def total(how: Any, ws: Any, h: Any) -> Any:
        params = [*({"w": w, "scale": jnp.int32(2), "none": None} for w in ws), {"offset": 1.0}]
        state = {"h": h, "n": jnp.int32(0), "none": None, "key": jax.random.key(3), "empty": jnp.zeros((0, 2))}
        return how(params, state)

    def steps(params: Any, state: Any) -> Any:
        for own in params[:-1]:
            state = jax.jit(step)(own, state)
        return jax.jit(last)(params[-1], state)

    ws, h = [p["w"] for p in make("mlp", "float32")[1]], jnp.ones((4, 64))
    expected = jax.value_and_grad(lambda *a: total(steps, *a), (0, 1))(ws, h)
    for policy in ("save-all", "revolve:1", "sqrt"):
        chain = ckptc.jax.checkpoint_chain([step] * DEPTH + [last], policy=policy)
        for how in (jax.jit, lambda f: f):
            assert bits(how(jax.value_and_grad(lambda *a: total(chain, *a), (0, 1)))(ws, h)) == bits(expected)


def test_integers_first() -> None:
    """Tokens as the first state, and a table that the first and the last step share."""
    numbers = np.random.default_rng(1)
    table, tokens = jnp.asarray(numbers.standard_normal((20, 8)), jnp.float32), jnp.asarray(numbers.integers(0, 20, (3, 5)))
    functions = [lambda p, x: p[x], *[lambda p, x: jnp.sin(x)] * 4, lambda p, x: ((x @ p.T) ** 2).mean()]

    def steps(params: Any, x: Any) -> Any:
        for function, own in zip(functions, params):
            x = jax.jit(function)(own, x)
        return x

    def loss(how: Any) -> Any:
        return lambda table: how([table, *[None] * 4, table], tokens)
    chain = ckptc.jax.checkpoint_chain(functions, policy="revolve:1")
    assert bits(jax.jit(jax.grad(loss(chain)))(table)) == bits(jax.grad(loss(steps))(table))


def test_closures() -> None:
    """Functions that close over arrays: over traced ones, those of NumPy, and others at the next call."""
    function, params, x = make("mlp", "float32")
    offset = np.linspace(0, 1, 64, dtype=np.float32)

    def steps(params: Any) -> list[Any]:
        return [lambda x, own=own: function(own, x) + offset for own in params]

    def composed(params: Any, x: Any) -> Any:
        for step in steps(params):
            x = jax.jit(step)(x)
        return mean_square(x)

    def chained(params: Any, x: Any) -> Any:
        return mean_square(ckptc.jax.checkpoint_chain(steps(params), policy="revolve:2")(x))
    assert bits(jax.jit(jax.value_and_grad(chained, (0, 1)))(params, x)) == bits(jax.value_and_grad(composed, (0, 1))(params, x))
    held = [params[0]["w"]]
    chain = ckptc.jax.checkpoint_chain([lambda x: jnp.tanh(x @ held[0])] * 4, policy="revolve:1")
    first = chain(x)
    held[0] = params[1]["w"]
    assert bits(chain(x)) != bits(first)


def test_batches_and_second_derivatives() -> None:
    function, params, x = make("mlp", "float32")
    chain = ckptc.jax.checkpoint_chain([function] * DEPTH, policy="revolve:2")
    several = jnp.stack([x, -x, 2 * x])

    def batched(loss: Any) -> Any:
        return jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (None, 0)))(params, several)

    def twice(loss: Any) -> Any:
        return jax.jit(jax.grad(lambda p: sum((g["w"] ** 2).sum() for g in jax.grad(loss)(p, x))))(params)

    for transform in (batched, twice):
        pairs = zip(*(jax.tree.leaves(transform(loss)) for loss in (after(chain), plain(function))))
        for found, expected in pairs:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: after(chain)(params, x), (x,), (x,))


def test_costs_and_types() -> None:
    function, params, x = make("mlp", "float32", 3)
    costs = [ckptc.Step(forward=1, backward=2, state_bytes=10, residual_bytes=20, count=3)]
    chain = ckptc.jax.checkpoint_chain([function] * 3, 10**6, costs=costs)
    assert chain.plan(params, x).counters.peak_bytes < 1000
    chain = ckptc.jax.checkpoint_chain([function] * 3)
    types = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (params, x))
    assert chain.plan(*types).counters.peak_bytes == chain.plan(params, x).counters.peak_bytes
    assert chain.costs is not None
    (step,) = chain.costs.steps
    assert (step.count, step.state_bytes, step.keeps_input) == (3, 128 * 64 * 4, True)


@pytest.mark.parametrize("call, message", [
    (lambda f: ckptc.jax.checkpoint_chain([]), "functions: there are none"),
    (lambda f: ckptc.jax.checkpoint_chain([3]), "functions: number 0 is int, which cannot be called"),
    (lambda f: ckptc.jax.checkpoint_chain([f], 10, policy="sqrt"), "memory, policy: give one of them"),
    (lambda f: ckptc.jax.checkpoint_chain([f], "much"), "memory: 'much' is no number of bytes"),
    (lambda f: ckptc.jax.checkpoint_chain([f])([1], [2], [3]), "not 3 arguments"),
    (lambda f: ckptc.jax.checkpoint_chain([f])([1, 2], jnp.ones(3)), "2 params for 1 functions"),
    (lambda f: ckptc.jax.checkpoint_chain([f] * 9, policy="disk-revolve:1").plan([None] * 9, jnp.ones(3)), "to disk"),
    (lambda f: ckptc.jax.checkpoint_chain([f], costs=[{"count": 2}]).plan([None], jnp.ones(3)), "2 steps for 1 functions"),
    (lambda f: ckptc.jax.policy("h"), r"write \['h'\]"),
    (lambda f: ckptc.jax.policy([3]), "3 is no name"),
])
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ckptc.UsageError, match=message):
        call(lambda p, x: x)


def test_policy(capsys: Any) -> None:
    """The names that a plan of a chain keeps are those that jax.checkpoint keeps."""
    chain = ckptc.Chain("param W; matmul W; name h; tanh; name k; matmul W; name m; tanh; sum")
    types = {"W": "f64[3,3]"}
    assert ckptc.jax.kept_names(chain, "f64[4,3]", policy="names:h,m", **types) == ["h", "m"]
    assert ckptc.jax.kept_names(chain, "f64[4,3]", policy="nothing", **types) == []
    with pytest.raises(ckptc.UsageError, match="without a name"):
        ckptc.jax.kept_names(chain, "f64[4,3]", policy="save-all", **types)

    def f(W: Any, x: Any) -> Any:
        h = checkpoint_name(x @ W, "h")
        m = checkpoint_name(checkpoint_name(jnp.tanh(h), "k") @ W, "m")
        return jnp.tanh(m).sum()
    rows = chain.residuals("f64[4,3]", policy="names:h,m", **types)
    for names in (["h", "m"], rows):
        kept = jax.checkpoint(f, policy=ckptc.jax.policy(names))
        jax.ad_checkpoint.print_saved_residuals(kept, jnp.ones((3, 3)), jnp.ones((4, 3)))
        text = capsys.readouterr().out
        assert "named 'h'" in text and "named 'm'" in text and "named 'k'" not in text
        assert len(text.splitlines()) == 4


def test_imports() -> None:
    """`import ckptc` reads no JAX, and ckptc.jax no torch."""
    code = ("import sys, ckptc; assert 'jax' not in sys.modules; import ckptc.jax; assert 'torch' not in sys.modules; "
            "print('well')")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "well\n"


def test_page() -> None:
    """The example of JAX.md."""
    text = (pathlib.Path(__file__).parents[1] / "JAX.md").read_text()
    code = "\n".join(line[4:] for line in text.split("## Names")[0].splitlines() if line.startswith("    "))
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["run"].schedule.counters.recomputed > 0
    assert ckptc.jax.checkpoint_chain([names["layer"]] * 16 + [names["loss"]]).plan(
        names["params"], jnp.ones((256, 64))).counters.peak_bytes > 10**6
