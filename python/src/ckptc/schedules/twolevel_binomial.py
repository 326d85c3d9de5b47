"""Restart checkpoints on disk at equal distances, and binomial checkpointing between two of them."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._schedule import Step, plan
from .planned import translate
from .schedule import CheckpointSchedule, Copy, EndForward, EndReverse, Forward, Move, Reverse, StorageType

__all__ = ["TwoLevelCheckpointSchedule"]


class TwoLevelCheckpointSchedule(CheckpointSchedule):  # type: ignore[misc]
    """The forward stores a restart checkpoint on disk every `period` steps. Online, any number of adjoint calculations.

    period              steps between two checkpoints on disk
    binomial_snapshots  more restart checkpoints, while the steps between two of them are reversed
    binomial_storage    their StorageType: DISK or RAM
    binomial_trajectory "maximum" or "revolve", as for MultistageCheckpointSchedule
    """

    def __init__(self, period: int, binomial_snapshots: int, *, binomial_storage: Any = StorageType.DISK,
                 binomial_trajectory: str = "maximum"):
        super().__init__()
        if period < 1:
            raise ValueError(f"period is {period}, below 1")
        if binomial_snapshots < 0:
            raise ValueError(f"binomial_snapshots is {binomial_snapshots}, below 0")
        if binomial_storage not in (StorageType.RAM, StorageType.DISK):
            raise ValueError(f"binomial_storage is StorageType.RAM or StorageType.DISK, not {binomial_storage!r}")
        if binomial_trajectory not in ("maximum", "revolve"):
            raise ValueError(f"binomial_trajectory is 'maximum' or 'revolve', not {binomial_trajectory!r}")
        self._period, self._snapshots, self._storage = period, binomial_snapshots, binomial_storage

    def _iterator(self) -> Iterator[Any]:
        while self._max_n is None:
            first = self.n
            self._n = first + self._period
            yield Forward(first, self._n, True, False, StorageType.DISK)
        yield EndForward()
        while True:
            for first in range((self._max_n - 1) // self._period * self._period, -1, -self._period):
                for action in self._between(first, min(self._period, self._max_n - first)):
                    if isinstance(action, Forward):
                        self._n = action.n1
                    elif isinstance(action, Reverse):
                        self._r = self._max_n - action.n0
                    else:
                        self._n = action.n
                    yield action
            self._r = 0
            yield EndReverse()

    def _between(self, first: int, steps: int) -> Iterator[Any]:
        """Yields the reversal of STEPS steps from FIRST, whose restart checkpoint is on disk and stays there."""
        schedule = plan([Step(count=steps)], policy=f"revolve:{self._snapshots + 1}")
        yield Copy(first, StorageType.DISK, StorageType.WORK)
        for action in translate(schedule, lambda on_disk, slot: self._storage, first):
            if isinstance(action, Forward) and action.write_ics and action.n0 == first:
                action = Forward(first, action.n1, False, False, StorageType.WORK)
            elif isinstance(action, (Copy, Move)) and action.n == first:
                action = Copy(first, StorageType.DISK, StorageType.WORK)
            yield action

    @property
    def is_exhausted(self) -> bool:
        return False

    def uses_storage_type(self, storage_type: Any) -> bool:
        return storage_type in (StorageType.DISK, self._storage)
