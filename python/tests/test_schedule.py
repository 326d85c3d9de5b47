"""Schedules: from costs, verified, executed on a machine that knows nothing of ckptc, and drawn."""
from __future__ import annotations

import json
import pathlib
import random
import signal
import traceback
from typing import Any

import ckptc
import pytest


class Machine:
    """Executes callbacks on a chain of integers, and refuses what breaks a rule."""

    def __init__(self, steps: int):
        self.steps, self.state, self.cotangent = steps, 0, steps
        self.slots: dict[tuple[str, int], int] = {}
        self.records: set[int] = set()
        self.evaluations = 0

    def forward(self, step: int) -> None:
        assert self.state == step
        self.state, self.evaluations = step + 1, self.evaluations + 1

    def record(self, step: int) -> None:
        self.forward(step)
        assert step not in self.records
        self.records.add(step)

    def backward(self, step: int) -> None:
        assert self.cotangent == step + 1
        self.records.remove(step)
        self.cotangent, self.state = step, -1

    def _save(self, where: str, state: int, slot: int) -> None:
        assert self.state == state and (where, slot) not in self.slots
        self.slots[where, slot] = state

    def _load(self, where: str, state: int, slot: int) -> None:
        assert self.slots[where, slot] == state
        self.state = state

    def _drop(self, where: str, state: int, slot: int) -> None:
        assert self.slots.pop((where, slot)) == state

    def save(self, state: int, slot: int) -> None: self._save("memory", state, slot)
    def load(self, state: int, slot: int) -> None: self._load("memory", state, slot)
    def drop(self, state: int, slot: int) -> None: self._drop("memory", state, slot)
    def spill(self, state: int, slot: int) -> None: self._save("disk", state, slot)
    def fetch(self, state: int, slot: int) -> None: self._load("disk", state, slot)
    def discard(self, state: int, slot: int) -> None: self._drop("disk", state, slot)


def _random_costs(generator: random.Random) -> ckptc.Costs:
    steps = tuple(ckptc.Step(
        forward=generator.choice((1, 2, 5)), backward=generator.uniform(1, 9), state_bytes=generator.randint(1, 20),
        residual_bytes=generator.randint(0, 60), count=generator.choice((1, 1, 1, 7)),
        record=generator.choice((None, 0.5)), keeps_input=generator.random() < 0.7,
        forward_temporary_bytes=generator.choice((0, 5)), backward_temporary_bytes=generator.choice((0, 3)))
        for _ in range(generator.randint(1, 12)))
    return ckptc.Costs(steps, fixed_bytes=generator.choice((0, 100)), output_bytes=generator.choice((None, 4)),
                       spill_write=3, spill_read=2)


def test_random_costs() -> None:
    generator = random.Random(5)
    for _ in range(15):
        costs = _random_costs(generator)
        total = sum(step.count for step in costs.steps)
        save_all = ckptc.plan(costs)
        try:
            ckptc.plan(costs, memory=1)
            least = 1
        except ckptc.LimitError as error:
            assert error.least is not None
            least = error.least
        memory = generator.randint(least, max(least, save_all.counters.peak_bytes))
        policies: list[dict[str, Any]] = [
            {}, {"memory": memory}, {"memory": f"{memory}B", "disk": True}, {"policy": "sqrt"}, {"policy": "every:3"},
            {"policy": f"revolve:{generator.randint(1, 5)}"}, {"policy": "recursive"},
            {"policy": f"disk-revolve:{generator.randint(0, 3)}", "disk": True},
            {"policy": "online:2"}]
        for options in policies:
            schedule = ckptc.plan(costs, **options)
            actions = list(schedule)
            assert schedule.counters.steps == total and len(schedule) == len(actions)
            schedule.verify()
            ckptc.verify(actions, total)
            with pytest.raises(ckptc.CheckError):
                ckptc.verify(actions[:-1], total)
            machine = Machine(total)
            schedule.execute(machine)
            assert machine.cotangent == 0 and not machine.records
            assert machine.evaluations == schedule.counters.evaluations
            if "memory" in options:
                assert schedule.counters.peak_bytes <= memory


def test_costs_as_json(tmp_path: pathlib.Path) -> None:
    spec = {"time_unit": "s", "steps": [{"count": 100, "state_bytes": 10, "residual_bytes": 30, "forward": 5,
                                         "backward": 9}]}
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(spec))
    steps = [ckptc.Step(count=100, state_bytes=10, residual_bytes=30, forward=5, backward=9)]
    expected = ckptc.plan(steps, memory=400)
    rows = [dict(count=100, state_bytes=10, residual_bytes=30, forward=5, backward=9)]
    for costs in (spec, json.dumps(spec), path, str(path), ckptc.Costs(tuple(steps)), rows, iter(steps)):
        other = ckptc.plan(costs, memory="400B")
        assert list(other) == list(expected) and other.counters == expected.counters
    assert expected.policy == "budget:400" and "99" not in expected._repr_html_()[:10]
    assert expected._repr_html_().startswith("<svg")
    assert ckptc.plan(path, policy="disk-revolve:1", disk="1kB")._repr_html_().startswith("<svg")


@pytest.mark.parametrize("text, size", [("8GB", 8 * 10**9), ("512MiB", 2**29), ("2g", 2 * 10**9), ("1.5 KiB", 1536),
                                        ("77", 77), (77, 77), (1e3, 1000), ("0.1TB", 10**11), ("3TiB", 3 * 2**40)])
def test_sizes(text: Any, size: int) -> None:
    assert ckptc.plan([ckptc.Step()], memory=text if size > 10 else size).policy == f"budget:{size}"


@pytest.mark.parametrize("wrong", ["", "GB", "8 G B", "-1", 0, -5, 1.5, "8GBs", type, "1e3", 2**63, "99999999TB"])
def test_wrong_sizes(wrong: Any) -> None:
    with pytest.raises(ckptc.UsageError):
        ckptc.plan([ckptc.Step()], memory=wrong)


def test_wrong_costs() -> None:
    for costs, kind in (([], ckptc.Error), ([{"wards": 1}], ckptc.UsageError), ([3], ckptc.UsageError),
                        ("{", ckptc.DataError), ({"steps": []}, ckptc.Error), ([ckptc.Step(forward=-1)], ckptc.Error),
                        ([ckptc.Step(state_bytes="x")], ckptc.UsageError)):  # type: ignore[arg-type]
        with pytest.raises(kind):
            ckptc.plan(costs)
    with pytest.raises(ckptc.UsageError, match="did you mean 'revolve'"):
        ckptc.plan([ckptc.Step()], policy="revolv")
    with pytest.raises(ckptc.UsageError):
        ckptc.plan([ckptc.Step()], policy="dots")
    with pytest.raises(FileNotFoundError):
        ckptc.plan("none.json")
    with pytest.raises(ckptc.CheckError) as caught:
        ckptc.verify([ckptc.Action("forward", 0, 2, 0)], 1)
    assert caught.value.status == 1 and "action 0" in str(caught.value)


def test_missing_callbacks() -> None:
    schedule, calls = ckptc.plan([ckptc.Step(count=5)], policy="revolve:2"), []
    functions = {name: lambda *arguments: calls.append(arguments) for name in ("forward", "record", "backward", "save")}
    with pytest.raises(ckptc.UsageError, match="'load'"):
        schedule.execute(functions)
    with pytest.raises(ckptc.UsageError, match="'lod'"):
        schedule.execute({**functions, "lod": print})
    with pytest.raises(ckptc.UsageError, match="no function"):
        schedule.execute({**functions, "load": 3})
    assert not calls
    schedule.execute({**functions, "load": functions["save"]})
    ckptc.plan([ckptc.Step(count=5)]).execute({name: functions[name] for name in ("record", "backward")})


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, StopIteration])
def test_exceptions_of_callbacks(kind: type[BaseException]) -> None:
    raised = kind("own")

    def fails(step: int) -> None:
        raise raised
    machine = Machine(9)
    functions = {name: getattr(machine, name) for name in ("forward", "record", "save", "load", "drop")}
    with pytest.raises(kind) as caught:
        ckptc.plan([ckptc.Step(count=9)], policy="revolve:2").execute({**functions, "backward": fails})
    assert caught.value is raised and traceback.extract_tb(raised.__traceback__)[-1].name == "fails"
    assert raised.__cause__ is None and raised.__context__ is None


def test_interrupts() -> None:
    schedule, calls = ckptc.plan([ckptc.Step(count=1_000_000)]), 0

    def record(step: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1000:
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        schedule.execute(record=record, backward=lambda step: None)
    assert calls == 1000


def test_long_schedules() -> None:
    import time
    schedule = ckptc.plan([ckptc.Step(count=1_000_000)], policy="revolve:100")
    start, seen = time.monotonic(), 0
    for _ in schedule:
        seen += 1
        if seen == 100_000:
            break
    assert time.monotonic() - start < 5 and seen == 100_000
