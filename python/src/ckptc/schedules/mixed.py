"""Schedules whose units store either a restart checkpoint, or what the adjoint of a step needs (Maddison 2024)."""
from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from .schedule import (CheckpointSchedule, Copy, EndForward, EndReverse, Forward, Move, Reverse, StepType,
                       StorageType)

__all__ = ["MixedCheckpointSchedule", "mixed_step_memoization", "optimal_steps_mixed"]


@lru_cache(maxsize=8)
def _tables(n: int, s: int) -> tuple[Any, Any]:
    """Returns two arrays, by units up to S and steps up to N: the fewest forward steps, and the first advance.

    The first advance is 0 where the first step's adjoint data are stored, else the steps to run from a restart
    checkpoint. Of equal ones it is the longest.
    """
    cost, advance = np.zeros((s + 1, n + 1), np.int64), np.zeros((s + 1, n + 1), np.int64)
    cost[:, 1] = 1
    for units in range(1, s + 1):
        own, fewer = cost[units], cost[units - 1]
        for steps in range(2, n + 1):
            if steps <= units + 1:
                own[steps] = steps
            elif units == 1:
                own[steps], advance[units, steps] = steps * (steps + 1) // 2 - 1, steps - 1
            else:
                lengths = np.arange(2, steps)
                totals = lengths + own[2:steps] + fewer[steps - 2:0:-1]
                best = len(totals) - 1 - int(np.argmin(totals[::-1]))
                own[steps], advance[units, steps] = totals[best], lengths[best]
                if 1 + fewer[steps - 1] < own[steps]:
                    own[steps], advance[units, steps] = 1 + fewer[steps - 1], 0
    return cost, advance


def _check(n: int, s: int) -> int:
    """Returns how many of S units N steps can use."""
    if n < 1:
        raise ValueError(f"n is {n}, below 1")
    if s < min(1, n - 1):
        raise ValueError(f"{s} units cannot reverse {n} steps")
    return min(s, n - 1)


def optimal_steps_mixed(n: int, s: int) -> int:
    """Returns the fewest forward steps that reverse N steps with S units."""
    s = _check(n, s)
    return int(_tables(n, s)[0][s, n])


def mixed_step_memoization(n: int, s: int) -> tuple[StepType, int, int]:
    """Returns what to do first with N steps and S units: what is stored, steps to advance, and all forward steps."""
    s = _check(n, s)
    cost, advance = _tables(n, s)
    if n == 1:
        return StepType.FORWARD_REVERSE, 1, 1
    length = int(advance[s, n])
    return (StepType.WRITE_ICS if length else StepType.WRITE_ADJ_DEPS), length or 1, int(cost[s, n])


class MixedCheckpointSchedule(CheckpointSchedule):  # type: ignore[misc]
    """Restart checkpoints and adjoint data of single steps, in equal units. Offline, one adjoint calculation.

    max_n      steps of the forward
    snapshots  units
    storage    StorageType of the units: DISK or RAM
    """

    def __init__(self, max_n: int, snapshots: int, *, storage: Any = StorageType.DISK):
        if storage not in (StorageType.RAM, StorageType.DISK):
            raise ValueError(f"storage is StorageType.RAM or StorageType.DISK, not {storage!r}")
        if max_n < 1:
            raise ValueError(f"max_n is {max_n}, below 1")
        self._units = _check(max_n, snapshots)
        super().__init__(max_n)
        self._storage, self._exhausted = storage, False

    def _iterator(self) -> Iterator[Any]:
        _, advance = _tables(self._max_n, self._units)
        first, steps, units = 0, self._max_n, self._units
        kept = False  # a restart checkpoint of FIRST is stored, in one of UNITS
        left: list[tuple[int, int, int]] = []  # first, steps, units of what is reversed after the current steps
        while True:
            units = min(units, steps - 1)
            length = int(advance[units, steps])
            if steps == 1:
                yield from self._forward(first, 1, False, True, StorageType.WORK)
                yield from self._reverse(first)
            elif length:
                yield from self._forward(first, length, not kept, False, StorageType.WORK if kept else self._storage)
                left.append((first, length, units))
                first, steps, units, kept = first + length, steps - length, units - 1, False
                continue
            else:
                yield from self._forward(first, 1, False, True, self._storage)
                left.append((first, 0, 0))
                first, steps, units, kept = first + 1, steps - 1, units - 1, False
                continue
            while left and not left[-1][1]:
                first = left.pop()[0]
                self._n = first + 1
                yield Move(first, self._storage, StorageType.WORK)
                yield from self._reverse(first)
            if not left:
                break
            first, steps, units = left.pop()
            kept = bool(advance[min(units, steps - 1), steps])
            self._n = first
            yield (Copy if kept else Move)(first, self._storage, StorageType.WORK)
        self._exhausted = True
        yield EndReverse()

    def _forward(self, first: int, length: int, ics: bool, deps: bool, storage: Any) -> Iterator[Any]:
        self._n = first + length
        yield Forward(first, self._n, ics, deps, storage)
        if self._n == self._max_n and self._r == 0:
            yield EndForward()

    def _reverse(self, step: int) -> Iterator[Any]:
        self._r += 1
        yield Reverse(step + 1, step, True)

    @property
    def is_exhausted(self) -> bool:
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        return bool(storage_type == self._storage)
