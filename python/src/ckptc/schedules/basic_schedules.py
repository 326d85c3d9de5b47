"""Schedules without recomputation. The forward's number of steps need not be known: `finalize` tells it."""
from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from .schedule import CheckpointSchedule, Copy, EndForward, EndReverse, Forward, Move, Reverse, StorageType

__all__ = ["NoneCheckpointSchedule", "SingleDiskStorageSchedule", "SingleMemoryStorageSchedule"]


def _sweep(schedule: Any, length: int, deps: bool, storage: Any) -> Iterator[Any]:
    """Yields forwards of LENGTH steps until SCHEDULE is finalized, and EndForward."""
    while schedule._max_n is None:
        first = schedule._n
        schedule._n = first + length
        yield Forward(first, first + length, False, deps, storage)
    yield EndForward()


class SingleMemoryStorageSchedule(CheckpointSchedule):  # type: ignore[misc]
    """Keeps what the adjoint needs of all steps in memory. Online, any number of adjoint calculations."""

    def __init__(self) -> None:
        super().__init__()

    def _iterator(self) -> Iterator[Any]:
        yield from _sweep(self, sys.maxsize, True, StorageType.WORK)
        while True:
            self._r = self._max_n
            yield Reverse(self._max_n, 0, True)
            self._r = 0
            yield EndReverse()

    @property
    def is_exhausted(self) -> bool:
        return False

    def uses_storage_type(self, storage_type: Any) -> bool:
        return bool(storage_type == StorageType.WORK)


class SingleDiskStorageSchedule(CheckpointSchedule):  # type: ignore[misc]
    """Keeps what the adjoint needs of all steps on disk. Online.

    move_data  False: any number of adjoint calculations. True: one, which takes the data away
    """

    def __init__(self, move_data: bool = False):
        super().__init__()
        self._move_data, self._exhausted = move_data, False

    def _iterator(self) -> Iterator[Any]:
        yield from _sweep(self, 1, True, StorageType.DISK)
        read = Move if self._move_data else Copy
        while True:
            for step in range(self._max_n - 1, -1, -1):
                self._n = step
                yield read(step, StorageType.DISK, StorageType.WORK)
                self._r = self._max_n - step
                yield Reverse(step + 1, step, True)
            if self._move_data:
                self._exhausted = True
                yield EndReverse()
                return
            self._r = 0
            yield EndReverse()

    @property
    def is_exhausted(self) -> bool:
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        return storage_type in (StorageType.DISK, StorageType.WORK)


class NoneCheckpointSchedule(CheckpointSchedule):  # type: ignore[misc]
    """Keeps nothing: there is no adjoint calculation. Online."""

    def __init__(self) -> None:
        super().__init__()
        self._exhausted = False

    def _iterator(self) -> Iterator[Any]:
        for action in _sweep(self, sys.maxsize, False, StorageType.NONE):
            self._exhausted = isinstance(action, EndForward)
            yield action

    @property
    def is_exhausted(self) -> bool:
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        return False
