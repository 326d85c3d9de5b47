"""Chains: values, gradients, layouts, plans, residuals, errors, threads and interrupts."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import ckptc
import numpy as np
import pytest
from conftest import Program, same

MLP = "param W; param b; def layer(W, b) { matmul W; add b; tanh }; repeat 6 { layer W b }; square; sum"


def _arrays(rows: int = 40, width: int = 16, dtype: str = "f8") -> tuple[Any, dict[str, Any]]:
    generator = np.random.default_rng(2)
    return generator.normal(size=(rows, width)).astype(dtype), {
        "W": (generator.normal(size=(width, width)) / 4).astype(dtype), "b": generator.normal(size=width).astype(dtype)}


def test_value_and_gradient() -> None:
    x, params = _arrays()
    value, by_x, by_params = ckptc.Chain(MLP).grad(x, **params)
    h, states = x, []
    for _ in range(6):
        states.append(h)
        h = np.tanh(h @ params["W"] + params["b"])
    np.testing.assert_allclose(value, np.sum(h**2), rtol=1e-13)
    cotangent, by_w, by_b = 2 * h, 0, 0
    for before, after in zip(reversed(states), [h, *reversed(states)]):
        inner = cotangent * (1 - after**2)
        by_w, by_b, cotangent = by_w + before.T @ inner, by_b + inner.sum(0), inner @ params["W"].T
    np.testing.assert_allclose(by_x, cotangent, rtol=1e-11)
    np.testing.assert_allclose(by_params["W"], by_w, rtol=1e-11)
    np.testing.assert_allclose(by_params["b"], by_b, rtol=1e-11)


@pytest.mark.parametrize("policy", ["save-all", "nothing", "every:2", "sqrt", "recursive", "revolve:2", "budget:1MB"])
def test_plan_is_the_run(policy: str) -> None:
    x, params = _arrays()
    chain = ckptc.Chain(MLP)
    for threads, value in ((1, True), (2, False)):
        plan, = chain.plan(x, policy=policy, threads=threads, value=value, **params)
        gradient = chain.grad(x, policy=policy, threads=threads, value=value, **params)
        assert plan.counters.__dict__ | {"gap_percent": None} == gradient.counters.__dict__ | {"gap_percent": None}
        assert same(gradient.input, chain.grad(x, threads=1, **params).input)
        assert (gradient.value is None) == (not value)


def test_plans_are_the_programs(program: Program) -> None:
    import json
    x, params = _arrays()
    rows = json.loads(program("plan", *program.save(x=x, **params), "--threads", "2", "--format", "json", "-e",
                              MLP))["policies"]
    plans = ckptc.Chain(MLP).plan(x, threads=2, value=False, **params)
    assert [plan.policy for plan in plans] == [row["policy"] for row in rows]
    for plan, row in zip(plans, rows):
        for name in ("steps", "evaluations", "executions", "recomputed", "checkpoints", "stored_bytes", "saved_bytes",
                     "peak_bytes", "spill_writes", "spill_reads"):
            assert getattr(plan, name) == row[name], (plan.policy, name)
        assert plan.overhead_percent == pytest.approx(row["overhead_percent"], abs=1e-3)


def test_memory_and_residuals(program: Program) -> None:
    chain = ckptc.Chain(MLP)
    shapes = {"W": "f64[16,16]", "b": "f64[16]"}
    with pytest.raises(ckptc.LimitError) as caught:
        chain.plan("f64[40,16]", memory=1, **shapes)
    assert isinstance(caught.value, MemoryError) and caught.value.status == 6
    least = caught.value.least
    plan, = chain.plan("f64[40,16]", memory=least, **shapes)
    assert plan.peak_bytes <= least and plan.policy == f"budget:{least}"
    x, params = _arrays()
    assert chain.grad(x, memory=least, threads=None, **params).counters.peak_bytes <= least
    rows = chain.residuals("f64[40,16]", **shapes)
    lines = program("residuals", *program.save(x=x, **params), "--format", "lines", "-e", MLP).splitlines()
    assert [str(row) for row in rows] == [line.replace("<command-line>", "<chain>") for line in lines]
    tanh = next(row for row in rows if row.op == "tanh")
    assert (tanh.kind, tanh.within, tanh.line, tanh.bytes, tanh.type) == ("output", "layer", 1, 5120, "f64[40,16]")
    assert rows[0].kind == "argument" and rows[0].name == "W"


def test_pictures(tmp_path: pathlib.Path) -> None:
    x, params = _arrays()
    plans = ckptc.Chain(MLP).plan(x, **params)
    assert plans._repr_html_().startswith("<svg") and "<table>" in plans._repr_html_()
    assert plans[0].schedule._repr_html_().startswith("<svg")
    assert "<td>argument</td>" in ckptc.Chain(MLP).residuals(x, **params)._repr_html_()
    assert ckptc.Chain("# a long chain\n" * 20000 + "sin").plan(x)._repr_html_().startswith("<svg")
    np.save(tmp_path / "w.npy", params["b"])
    (tmp_path / "c.ck").write_text('param w = load("w.npy")\nmul w\nsin\n')
    plans = ckptc.Chain(tmp_path / "c.ck").plan(x)
    assert plans._repr_html_().startswith("<svg")
    (tmp_path / "w.npy").unlink()
    assert plans._repr_html_().startswith("<table")
    with pytest.raises(ckptc.Error):
        plans.picture()


def test_files(tmp_path: pathlib.Path) -> None:
    x, params = _arrays()
    np.save(tmp_path / "w.npy", params["b"])
    path = tmp_path / "c.ck"
    path.write_text('param w = load("w.npy")\nmul w\ntanh 3\n')
    for source in (path, str(path)):
        with pytest.raises(ckptc.ChainError) as caught:
            ckptc.Chain(source)
        assert caught.value.place == ckptc.Place(str(path), 3, 6) and "'tanh' takes no operand" in caught.value.message
    path.write_text('param w = load("w.npy")\nmul w')
    assert same(ckptc.Chain(path).run(x), x * params["b"])
    assert ckptc.Chain(path).grad(x).params.keys() == {"w"}
    with pytest.raises(FileNotFoundError):
        ckptc.Chain(tmp_path / "none.ck")


def test_errors() -> None:
    x = np.ones(3)
    with pytest.raises(ckptc.ChainError) as caught:
        ckptc.Chain("tanhh").run(x)
    assert caught.value.place == ckptc.Place("<chain>", 1, 1) and caught.value.hint == "did you mean 'tanh'?"
    assert isinstance(caught.value, ValueError) and caught.value.status == 3
    for call, status, part in (
            (lambda: ckptc.Chain("param w; mul w").run(x), 3, "by its name, as in run(x, W=values)"),
            (lambda: ckptc.Chain("program p(): same; p").run(x), 2, "Chain(text, programs={"),
            (lambda: ckptc.Chain("param width; mul width").run(x, widht=1), 2, "did you mean 'width'?"),
            (lambda: ckptc.Chain("mul 2").grad(x, policy="revolv:2"), 2, "revolve"),
            (lambda: ckptc.Chain("mul 2").grad(x, memory="much"), 2, "8GB"),
            (lambda: ckptc.Chain("mul 2").run(x, threads=0), 2, "threads"),
            (lambda: ckptc.Chain("mul 2").run(x.astype("c16")), 2, "complex128"),
            (lambda: ckptc.Chain("mul 2").run(x.astype(object)), 2, "object"),
            (lambda: ckptc.Chain("mul 2").run(x, out=np.empty(4)), None, ""),
            (lambda: ckptc.Chain("mul 2").run(x, out=np.empty(3, "i8")), 2, "int64"),
            (lambda: ckptc.Chain("mul 2").plan("f64[*]"), 2, "f64[*]"),
            (lambda: ckptc.Chain("matmul 2 3"), 3, ""), (lambda: ckptc.Chain(3), 2, "int")):  # type: ignore[arg-type]
        with pytest.raises(ckptc.Error) as caught:
            call()
        assert (status is None or caught.value.status == status) and part in str(caught.value), str(caught.value)


def test_layouts_and_dtypes() -> None:
    double = ckptc.Chain("mul 2")
    base = np.arange(24.0).reshape(4, 6)
    for x in (base.T, base[:, ::2], base[::-1], base.astype(">f8"), np.float64(3), base[:0], np.asfortranarray(base),
              base.astype("f2"), base.astype("f4"), memoryview(base)):  # type: ignore[list-item]
        assert same(double.run(x), np.asarray(x).astype(np.asarray(x).dtype.newbyteorder("=")) * 2)
    assert same(double.run(np.arange(3)), np.array([0.0, 2, 4])) and same(double.run([1, 2]), np.array([2.0, 4]))
    assert same(double.run(np.array([True])), np.array([2.0])) and double.run(base.astype("u1")).dtype == np.float64
    assert same(ckptc.Chain("argmax axis=1").run(base), np.full(4, 5))
    unaligned = np.frombuffer(b"x" + base.tobytes(), dtype="u1")[1:].view("f8")
    assert same(double.run(unaligned), base.ravel() * 2)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = base.astype(ml_dtypes.bfloat16)
    assert double.run(x).dtype == ml_dtypes.bfloat16 and same(double.run(x), x * ml_dtypes.bfloat16(2))


def test_numbers_are_weak() -> None:
    chain = ckptc.Chain("param w; const c; mul w; add c")
    assert same(chain.run(np.ones(2, "f4"), w=3.1, c=1), np.ones(2, "f4") * np.float32(3.1) + np.float32(1))
    assert chain.params == ("w", "c") and chain.inputs == ("x",) and chain.outputs == ()
    named = ckptc.Chain("param policy; mul policy")
    assert same(named.grad(np.ones(2), params={"policy": 3.0}).input, np.full(2, 3.0))


def test_an_array_is_not_kept() -> None:
    chain = ckptc.Chain("param w = ones; mul w")
    x = np.full(3, 2.0)
    assert same(chain.run(x, w=np.full(3, 5.0)), x * 5)
    with pytest.raises(ckptc.Error):
        ckptc.Chain("param w; mul w").run(x)
    declared = ckptc.Chain("param w: f64[3] = full(7); mul w")
    assert same(declared.run(x, w=np.full(3, 5.0)), x * 5) and same(declared.run(x), x * 7)


def test_several_inputs() -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.full((2, 3), 3.0)
    value, by_x, others = ckptc.Chain("input x; input y; mul y; sin; sum").grad(x, y=y)
    np.testing.assert_allclose(by_x, np.cos(x * y) * y)
    np.testing.assert_allclose(others["y"], np.cos(x * y) * x)


def test_outputs(program: Program) -> None:
    text = "input x: f64[2,3]; input y: f64[2,3]; param w; let a = x * y; let b = a * w; output a, b; use (b * b); sum"
    x, y, w = np.arange(6.0).reshape(2, 3), np.full((2, 3), 3.0), np.array([1.0, 2, 3])
    chain = ckptc.Chain(text)
    assert (chain.inputs, chain.outputs, chain.params) == (("x", "y"), ("a", "b"), ("w",))
    values = chain.run(x, y=y, w=w, outputs=True)
    assert list(values) == ["out", "a", "b"] and same(values["a"], x * y) and same(values["b"], x * y * w)
    assert same(values["out"], chain.run(x=x, y=y, w=w)) and list(chain.run(x, y=y, w=w, outputs=["b"])) == ["out", "b"]
    assert same(chain.run(x, y=y, w=w, of="a"), x * y) and list(chain.run(x, y=y, w=w, outputs=[])) == ["out"]
    value, by_x, others = chain.grad(x, y=y, w=w, of="b")
    assert same(value, x * y * w) and same(by_x, y * w) and set(others) == {"y", "w"}
    of_a, of_b = np.full((2, 3), 10.0), np.linspace(0, 1, 6).reshape(2, 3)
    several = chain.grad(x, y=y, w=w, cotangent={"a": of_a, "b": of_b, "out": 1.0}, policy="sqrt")
    assert several.value is None
    np.testing.assert_allclose(several.input, of_a * y + of_b * y * w + 2 * x * y * w * y * w)
    np.testing.assert_allclose(several.params["w"], (of_b * x * y + 2 * (x * y)**2 * w).sum(0))
    assert same(chain.grad(x, y=y, w=w, cotangent={"out": 2.0}).input, chain.grad(x, y=y, w=w, cotangent=2.0).input)
    np.save(program.folder / "y.npy", y)
    options = [*program.save(x=x, w=w), "-i", "y=y.npy"]
    program("grad", *options, "--of", "b", "-o", "dx.npy", "--grads", "d.npz", "-e", text)
    assert same(by_x, program.load("dx.npy")) and same(others["w"], program.load("d.npz")["w"])
    for plan in chain.plan(w="f64[3]", of="b"):
        assert plan.counters.steps == chain.grad(x, y=y, w=w, of="b").counters.steps
    assert chain.plan(w="f64[3]", of="b")._repr_html_().startswith("<svg")
    assert len(chain.residuals(w=w, of="a")) < len(chain.residuals(w=w))
    with pytest.raises(ckptc.UsageError, match="no output 'c'"):
        chain.run(x, y=y, w=w, outputs=["c"])
    with pytest.raises(ckptc.UsageError, match="'x' is not given"):
        chain.run(y=y, w=w)
    with pytest.raises(ckptc.UsageError, match="'x' is given twice"):
        chain.run(x, x=x, y=y, w=w)


def test_consts_that_are_numbers() -> None:
    chain = ckptc.Chain("const n; slice stop=n; repeat n { add n }", numbers={"n": 2})
    assert same(chain.run(np.arange(5.0)), np.array([4.0, 5]))
    assert chain.plan("f64[5]")._repr_html_().startswith("<svg")
    with pytest.raises(ckptc.UsageError, match="no const 'm'"):
        ckptc.Chain("sin", numbers={"m": 2})


def test_no_copies() -> None:
    import resource
    x, out = np.ones(8_000_000), np.empty(8_000_000)  # 64 MB each
    chain = ckptc.Chain("mul 2")
    chain.run(x[:10])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert chain.run(x, out=out) is out and out[-1] == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 85_000  # out's own pages, and tiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert ckptc.Chain("param w; mul w").run(x, w=x, out=out) is out and out[0] == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    value = chain.run(x[:1000])
    alive = weakref.ref(value.base.obj if isinstance(value.base, memoryview) else value.base)
    view = value[10:20]
    del value
    assert alive() is not None and view.sum() == 20
    del view
    assert alive() is None
    gradient = np.empty(10)
    assert chain.grad(x[:10], out=gradient).input is gradient and gradient[0] == 2


def test_threads() -> None:
    x, params = _arrays(200, 32)
    chain, found = ckptc.Chain(MLP), []
    expected = chain.grad(x, **params)

    def work(number: int) -> None:
        for policy in ("save-all", "sqrt", "revolve:3"):
            own = chain.grad(x, policy=policy, threads=1 + number % 2, **params)
            chain.run(x, W=params["W"] * 0, b=params["b"])
            found.append(same(own.input, expected.input) and same(own.params["W"], expected.params["W"]))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 18


def test_the_gil_is_released() -> None:
    chain, x, ticks = ckptc.Chain("repeat 300 { sin }"), np.ones(200_000), 0
    thread = threading.Thread(target=lambda: chain.run(x, threads=1))
    thread.start()
    while thread.is_alive():
        ticks += 1
        time.sleep(0.001)
    assert ticks > 5


ENDS = "import signal\nsignal.alarm(60)\n"  # a child that no interrupt stops


def test_interrupts() -> None:
    code = (ENDS + "import ckptc, numpy as np\nx = np.ones(100_000)\nc = ckptc.Chain('repeat 100 { sin }')\n"
            "c.run(x[:9])\nprint('ready', flush=True)\ntry:\n    while True: c.run(x)\n"
            "except KeyboardInterrupt: print('interrupted', c.run(x[:1])[0] > 0)\n")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(0.1)
    os.kill(child.pid, signal.SIGINT)
    assert child.communicate(timeout=30)[0] == "interrupted True\n" and child.returncode == 0


def test_options_are_checked() -> None:
    x, params = _arrays()
    with pytest.raises(ckptc.UsageError, match="did you mean 'policy'"):
        ckptc.Chain(MLP).grad(x, polcy="sqrt", **params)
    for threads in "2", 0, 1.5, 10**6:
        with pytest.raises(ckptc.UsageError, match="from 1 to 1024"):
            ckptc.Chain(MLP).run(x, threads=threads, **params)


def test_an_interrupt_stops_a_long_run() -> None:
    code = (ENDS + "import ckptc, numpy as np, time\nx = np.ones((400, 400)) / 400\n"
            "c = ckptc.Chain('param W; repeat 1000000 { matmul W }; sum')\n"
            "for call in (lambda: c.run(x, W=x), lambda: c.grad(x, W=x, policy='revolve:20')):\n"
            "    print('ready', flush=True)\n"
            "    try: call()\n    except KeyboardInterrupt: print('interrupted', flush=True)\n"
            "print(ckptc.Chain('sin').run(0.0))\n")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(2):
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
    assert child.communicate(timeout=30)[0] == "0.0\n" and child.returncode == 0


def test_programs(tmp_path: pathlib.Path) -> None:
    script = pathlib.Path(__file__).parents[2] / "examples/programs/pendulum.py"
    if not script.exists():
        pytest.skip("no examples beside this folder")
    chain = ckptc.Chain("input x: f64[2,3]; program step(k): same; param k = [9.81, 4, 1]; repeat 20 { step k }; sum",
                        programs={"step": f"exec {sys.executable} {script}"})
    x = np.array([[0.1, 1, 2], [0, 0.5, -0.3]])
    gradient = chain.grad(x, policy="revolve:3", threads=1)
    for index in ((0, 0), (1, 2)):
        shifted = np.zeros_like(x)
        shifted[index] = 1e-6
        slope = (chain.run(x + shifted, threads=1) - chain.run(x - shifted, threads=1)) / 2e-6
        assert gradient.input[index] == pytest.approx(float(slope), rel=1e-5)
    with pytest.raises(ckptc.ProgramError):
        ckptc.Chain("program p(): same; p", programs={"p": "exit 3"}).run(x)
