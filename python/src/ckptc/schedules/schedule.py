"""Actions, and the class of all schedules, as the package checkpoint_schedules declares them.

Where that package is installed, these are its classes: a program that dispatches on them, such as pyadjoint, takes our
schedules for its own. Elsewhere they are classes of the same interface.
"""
from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Any

__all__ = ["CheckpointAction", "Forward", "Reverse", "Copy", "Move", "EndForward", "EndReverse", "CheckpointSchedule",
           "StorageType", "StepType"]


class StepType(IntEnum):
    """What mixed_step_memoization says of the next steps."""

    NONE = 0
    FORWARD = 1
    FORWARD_REVERSE = 2
    WRITE_ADJ_DEPS = 3
    WRITE_ICS = 4
    READ_ADJ_DEPS = 5
    READ_ICS = 6


class _StorageType(Enum):
    """Where data are: in memory, on disk, in use by the forward or the adjoint, or nowhere."""

    RAM = 0
    DISK = 1
    WORK = -1
    NONE = None

    def __repr__(self) -> str:
        return f"StorageType.{self.name}"


class _CheckpointAction:
    """An action. Two are equal if their classes and arguments are."""

    _fields: tuple[str, ...] = ()

    def __init__(self, *args: Any):
        if len(args) != len(self._fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(self._fields) or 'nothing'}")
        self.args = args

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._fields:
            return self.args[type(self)._fields.index(name)]
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def __repr__(self) -> str:
        shown = ("sys.maxsize" if arg is not True and arg == sys.maxsize else repr(arg) for arg in self.args)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CheckpointAction) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.args))


class _Steps(_CheckpointAction):
    """An action over the steps n0 to n1 - 1."""

    def __len__(self) -> int:
        return int(self.n1 - self.n0)

    def __contains__(self, step: int) -> bool:
        return bool(self.n0 <= step < self.n1)


class _Forward(_Steps):
    """Runs steps n0 to n1 - 1. write_ics: what a restart at n0 needs is stored; write_adj_deps: what the adjoint of
    these steps needs. Both go to `storage`."""

    _fields = ("n0", "n1", "write_ics", "write_adj_deps", "storage")

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n0, self.n1))


class _Reverse(_Steps):
    """Runs the adjoint of steps n1 - 1 down to n0. clear_adj_deps: what it needed may then go."""

    _fields = ("n1", "n0", "clear_adj_deps")

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.n1 - 1, self.n0 - 1, -1))


class _Copy(_CheckpointAction):
    """Copies what is stored for step n to another storage."""

    _fields = ("n", "from_storage", "to_storage")


class _Move(_CheckpointAction):
    """Moves what is stored for step n to another storage. To StorageType.NONE it is deleted."""

    _fields = ("n", "from_storage", "to_storage")


class _EndForward(_CheckpointAction):
    """The forward has reached its end."""


class _EndReverse(_CheckpointAction):
    """The adjoint has reached the first step."""


class _CheckpointSchedule(ABC):
    """A schedule: an iterator of actions.

    max_n  steps of the forward; None: `finalize` tells them when the forward ends
    n      the forward's step, after the action that was given last
    r      steps that the adjoint has run
    """

    def __init__(self, max_n: int | None = None):
        if max_n is not None and max_n < 1:
            raise ValueError(f"max_n is {max_n}, below 1")
        self._n, self._r, self._max_n = 0, 0, max_n
        self._running: Iterator[Any] | None = None

    def __iter__(self) -> _CheckpointSchedule:
        return self

    def __next__(self) -> Any:
        if self._running is None:
            self._running = self._iterator()
        return next(self._running)

    @abstractmethod
    def _iterator(self) -> Iterator[Any]:
        """Yields the actions, and sets _n and _r before each."""

    @property
    @abstractmethod
    def is_exhausted(self) -> bool:
        """True once no other adjoint can be run."""

    @abstractmethod
    def uses_storage_type(self, storage_type: Any) -> bool:
        """True if the schedule may store data there."""

    @property
    def n(self) -> int:
        return self._n

    @property
    def r(self) -> int:
        return self._r

    @property
    def max_n(self) -> int | None:
        return self._max_n

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def finalize(self, n: int) -> None:
        """Tells the schedule that the forward has N steps, once it has run them."""
        if n < 1:
            raise ValueError(f"n is {n}, below 1")
        if self._max_n is None and self._n >= n:
            self._n = self._max_n = n
        elif self._n != n or self._max_n != n:
            raise RuntimeError(f"the forward is at step {self._n} of {self._max_n}, and cannot end at {n}")


for _class in (_StorageType, _CheckpointAction, _Forward, _Reverse, _Copy, _Move, _EndForward, _EndReverse,
               _CheckpointSchedule):
    _class.__name__ = _class.__qualname__ = _class.__name__.lstrip("_")

try:
    from checkpoint_schedules.schedule import (  # type: ignore[import-not-found, unused-ignore]
        CheckpointAction, CheckpointSchedule, Copy, EndForward, EndReverse, Forward, Move, Reverse, StorageType)
except ImportError:
    CheckpointAction, CheckpointSchedule, StorageType = _CheckpointAction, _CheckpointSchedule, _StorageType
    Copy, Move, Forward, Reverse = _Copy, _Move, _Forward, _Reverse
    EndForward, EndReverse = _EndForward, _EndReverse
