"""ckptc.schedules: each class on a machine with the rules of checkpoint_schedules."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ckptc
import pytest
from ckptc.schedules import (BudgetCheckpointSchedule, Copy, DiskRevolve, EndForward, EndReverse, Forward, HRevolve,
                             MixedCheckpointSchedule, Move, MultistageCheckpointSchedule, NoneCheckpointSchedule,
                             PeriodicDiskRevolve, Reverse, Revolve, SingleDiskStorageSchedule,
                             SingleMemoryStorageSchedule, StorageType, TwoLevelCheckpointSchedule)
from ckptc.schedules.mixed import optimal_steps_mixed
from ckptc.schedules.multistage import optimal_steps_binomial

RAM, DISK, WORK = StorageType.RAM, StorageType.DISK, StorageType.WORK


def run(schedule: Any, n: int, adjoints: int = 1) -> dict[str, int]:
    """Runs SCHEDULE on N steps, and returns what it took. Data are sets of steps: of restarts, and for adjoints."""
    stored: dict[Any, dict[int, tuple[frozenset[int], frozenset[int]]]] = {RAM: {}, DISK: {}}
    work: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    forward, reverse, ended = 0, 0, False
    took = {"forwards": 0, "RAM": 0, "DISK": 0, "writes": 0, "reads": 0}
    for action in schedule:
        if isinstance(action, Forward):
            assert forward == action.n0
            end = min(action.n1, n)
            assert end <= n - reverse
            steps = frozenset(range(action.n0, end))
            made = (steps if action.write_ics else frozenset(), steps if action.write_adj_deps else frozenset())
            work = (frozenset(), frozenset())
            if action.storage in stored:
                assert action.n0 not in stored[action.storage] and schedule.uses_storage_type(action.storage)
                stored[action.storage][action.n0] = made
                took["writes"] += action.storage == DISK
            elif action.storage == WORK:
                work = made
            took["forwards"] += len(steps)
            forward = end
            if end == n and not ended:
                schedule.finalize(n)
        elif isinstance(action, (Copy, Move)):
            place = stored[action.from_storage]
            ics, deps = place.pop(action.n) if isinstance(action, Move) else place[action.n]
            took["reads"] += action.from_storage == DISK
            if action.to_storage == WORK:
                work = (ics, deps)
                if action.n in ics:
                    forward = action.n
                    assert ics >= set(range(forward, n - reverse))
            else:
                stored[action.to_storage][action.n] = (ics, deps)
        elif isinstance(action, Reverse):
            assert action.n1 == n - reverse and work[1] >= set(range(action.n0, action.n1))
            reverse = n - action.n0
            if action.clear_adj_deps:
                work = (work[0], frozenset())
        elif isinstance(action, EndForward):
            assert forward == n and not ended
            ended = True
        else:
            assert isinstance(action, EndReverse) and reverse == n and ended
            adjoints, reverse = adjoints - 1, 0
            if not adjoints:
                break
        assert schedule.r == reverse and schedule.max_n in (None, n)
        for storage in (RAM, DISK):
            took[storage.name] = max(took[storage.name], len(stored[storage]))
    if schedule.is_exhausted:
        assert not stored[RAM] and not stored[DISK]
        with pytest.raises(StopIteration):
            next(schedule)
    return took


SIZES = [(1, 1), (2, 1), (3, 2), (10, 3), (24, 2), (57, 5), (100, 9)]


@pytest.mark.parametrize("n, s", SIZES)
def test_binomial(n: int, s: int) -> None:
    took = run(Revolve(n, s), n)
    assert took["forwards"] == optimal_steps_binomial(n, min(s, n - 1)) and took["RAM"] <= s and not took["DISK"]
    for in_ram in range(s + 1):
        for trajectory in ("maximum", "revolve"):
            took = run(MultistageCheckpointSchedule(n, in_ram, s - in_ram, trajectory=trajectory), n)
            assert took["forwards"] == optimal_steps_binomial(n, min(s, n - 1))
            assert took["RAM"] <= in_ram and took["DISK"] <= s - in_ram


def _fewest(n: int, s: int) -> int:
    """By trying every first advance: with the start stored, n steps and s snapshots, the start's counted."""
    @functools.cache
    def fewest(n: int, s: int) -> int:
        if n == 1:
            return 1
        if s == 1:
            return n * (n + 1) // 2
        return min(m + fewest(n - m, s - 1) + fewest(m, s) for m in range(1, n))
    return fewest(n, s)


@pytest.mark.parametrize("n, s", [(n, s) for n in (1, 2, 5, 12, 30) for s in (1, 2, 4)])
def test_fewest_steps(n: int, s: int) -> None:
    assert optimal_steps_binomial(n, s) == _fewest(n, s)


@pytest.mark.parametrize("n, s", SIZES)
def test_disk(n: int, s: int) -> None:
    for costs in ({}, {"wd": 10, "rd": 10}, {"wd": 0.1, "rd": 0.1, "uf": 2}):
        uf, wd, rd = costs.get("uf", 1), costs.get("wd", 2), costs.get("rd", 2)

        def time(took: dict[str, int]) -> float:
            return took["forwards"] * uf + took["writes"] * wd + took["reads"] * rd
        most = time(run(Revolve(n, s), n))
        for disk in (1, 3):
            took = run(HRevolve(n, s, disk, **costs), n)
            assert took["RAM"] <= s and took["DISK"] <= disk and time(took) <= most + 1e-9
            most = time(took)
        took = run(DiskRevolve(n, s, **costs), n)
        assert took["RAM"] <= s and time(took) <= most + 1e-9
        periodic = run(PeriodicDiskRevolve(n, s, **costs), n)
        assert periodic["RAM"] <= s and time(periodic) >= time(took) - 1e-9


@pytest.mark.parametrize("storage", [RAM, DISK])
@pytest.mark.parametrize("n, s", SIZES)
def test_mixed(n: int, s: int, storage: Any) -> None:
    took = run(MixedCheckpointSchedule(n, s, storage=storage), n)
    assert took["forwards"] == optimal_steps_mixed(n, s) <= optimal_steps_binomial(n, s)
    assert took[storage.name] <= s and took["RAM"] + took["DISK"] == took[storage.name]


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 35])
def test_online(n: int) -> None:
    for make, adjoints in ((SingleMemoryStorageSchedule, 1), (SingleDiskStorageSchedule, 3),
                           (functools.partial(SingleDiskStorageSchedule, True), 1)):
        took = run(make(), n, adjoints)
        assert took["forwards"] == n and took["RAM"] == 0
    for storage in (RAM, DISK):
        took = run(TwoLevelCheckpointSchedule(10, 2, binomial_storage=storage), n, 2)
        assert took["RAM"] <= (2 if storage == RAM else 0)
    schedule = NoneCheckpointSchedule()
    assert isinstance(next(schedule), Forward)
    schedule.finalize(n)
    assert isinstance(next(schedule), EndForward) and schedule.is_exhausted and schedule.n == n


@pytest.mark.parametrize("residual_bytes", [0, 1, 3, 50])
@pytest.mark.parametrize("disk", [None, True, 8])
def test_budget(residual_bytes: int, disk: Any) -> None:
    def make(memory: int) -> BudgetCheckpointSchedule:
        return BudgetCheckpointSchedule(40, memory, state_bytes=2, residual_bytes=residual_bytes, disk=disk)
    with pytest.raises(ckptc.LimitError) as caught:
        make(1)
    assert caught.value.least is not None
    for memory in (caught.value.least, caught.value.least + 9, 5 * caught.value.least, 10000):
        schedule = make(memory)
        took = run(schedule, 40)
        counters = schedule.schedule.counters
        assert took["forwards"] == counters.evaluations and counters.peak_bytes <= memory
        assert memory < 10000 or took["forwards"] == 40


@pytest.mark.parametrize("make", [
    lambda: Revolve(0, 1), lambda: Revolve(3, 0), lambda: HRevolve(3, 0, 1),
    lambda: MultistageCheckpointSchedule(3, 0, 0),
    lambda: MultistageCheckpointSchedule(3, 1, 0, trajectory="x"), lambda: MixedCheckpointSchedule(3, 0),
    lambda: MixedCheckpointSchedule(3, 1, storage=WORK), lambda: TwoLevelCheckpointSchedule(0, 1),
    lambda: BudgetCheckpointSchedule(None, 5), lambda: TwoLevelCheckpointSchedule(2, 1, binomial_storage=WORK)])
def test_wrong_arguments(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError):
        make()


def test_actions() -> None:
    action = Forward(2, 5, True, False, RAM)
    if Forward.__module__ == "ckptc.schedules.schedule":  # those of checkpoint_schedules cannot be compared
        assert action == Forward(2, 5, True, False, RAM) != Forward(2, 5, True, False, DISK)
        assert Copy(1, RAM, WORK) != Move(1, RAM, WORK)
    assert list(action) == [2, 3, 4] and len(action) == 3 and 4 in action and 5 not in action
    assert repr(action) == "Forward(2, 5, True, False, StorageType.RAM)"
    assert list(Reverse(5, 3, True)) == [4, 3]
    with pytest.raises(RuntimeError):
        Revolve(5, 2).finalize(4)
