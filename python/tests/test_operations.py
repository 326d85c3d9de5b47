"""Each operation by a Chain: the bytes of the program's value and gradients."""
from __future__ import annotations

import json
from typing import Any

import ckptc
import numpy as np
from conftest import Program, same
from samples import SAMPLES


def _sample(row: dict[str, Any]) -> tuple[tuple[int, ...], str, dict[str, tuple[int, ...]]]:
    name = row["name"]
    if name in SAMPLES:
        return SAMPLES[name]
    if row["operands"] == 1:
        return (5, 7), f"{name} a", {"a": (7,)}
    assert row["operands"] == 0, f"tests/samples.py has no sample of {name}"
    return (5, 7), name, {}


def _values(name: str, shape: tuple[int, ...], generator: Any) -> Any:
    if name == "i":
        return generator.integers(0, 2, shape)
    if name == "I":
        return np.eye(*shape)
    return generator.normal(size=shape)


def test_operations(program: Program) -> None:
    rows = json.loads(program("ops", "--format", "json"))["ops"]
    assert len(rows) > 100 and set(SAMPLES) <= {row["name"] for row in rows}
    generator, differing = np.random.default_rng(1), []
    for row in rows:
        shape, text, params = _sample(row)
        text = "".join(f"{'const' if name in 'iI' else 'param'} {name}\n" for name in params) + text
        arrays = {name: _values(name, of, generator) for name, of in params.items()}
        x = generator.normal(size=shape)
        chain = ckptc.Chain(text)
        options = program.save(x=x, **arrays)
        program("grad", *options, "-o", "dx.npy", "--value", "y.npy", "--grads", "d.npz", "-e", text)
        gradient = chain.grad(x, params=arrays, policy="sqrt")
        expected = program.load("d.npz")
        differing += [f"{row['name']}: {what}" for what, equal in (
            ("the value", same(chain.run(x, params=arrays), program.load("y.npy"))),
            ("the value of grad", same(gradient.value, program.load("y.npy"))),
            ("the gradient by x", same(gradient.input, program.load("dx.npy"))),
            ("those by params", set(gradient.params) == set(expected) and all(
                same(gradient.params[name], expected[name]) for name in expected))) if not equal]
    assert not differing
