"""Schedules of ckptc as actions of checkpoint_schedules.

A state that is saved becomes a Forward with write_ics. Its last load is a Move, and earlier ones are Copies. A state
that nobody loads is not stored. Records that are reversed at once are in StorageType.WORK. Others are stored in memory,
and moved to WORK for their reversal.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._schedule import Action, Costs, Schedule, Step, plan
from .schedule import CheckpointSchedule, Copy, EndForward, EndReverse, Forward, Move, Reverse, StorageType

__all__ = ["BudgetCheckpointSchedule", "PlannedCheckpointSchedule"]

_STORES, _LOADS, _DROPS = {"save": False, "spill": True}, {"load": False, "fetch": True}, ("drop", "discard")
Place = Callable[[bool, int], Any]


def _place(on_disk: bool, slot: int) -> Any:
    return StorageType.DISK if on_disk else StorageType.RAM


def _merge(actions: Iterable[Action]) -> list[Action]:
    """Returns ACTIONS without drops, with adjacent forwards as one, records likewise."""
    merged: list[Action] = []
    for action in actions:
        last = merged[-1] if merged else None
        if last and action.kind == last.kind and action.kind in ("forward", "record") and action.begin == last.end:
            merged[-1] = Action(action.kind, last.begin, action.end, 0)
        elif action.kind not in _DROPS:
            merged.append(action)
    return merged


def _last_uses(actions: list[Action]) -> set[int]:
    """Returns the indices of stores that nobody loads, and of the last loads of others."""
    last: dict[tuple[bool, int], int] = {}
    found = set()
    for index, action in enumerate(actions):
        if action.kind in _STORES:
            key = (_STORES[action.kind], action.slot)
            if key in last:
                found.add(last[key])
            last[key] = index
        elif action.kind in _LOADS:
            last[_LOADS[action.kind], action.slot] = index
    return found | set(last.values())


def translate(actions: Iterable[Action], place: Place = _place, first: int = 0) -> Iterator[Any]:
    """Yields ACTIONS as those of checkpoint_schedules, for steps that begin at FIRST. PLACE gives a slot's storage."""
    merged = _merge(actions)
    last_uses = _last_uses(merged)
    stores: list[Any] = []  # places that the current state goes to
    records: list[tuple[int, int, bool]] = []  # begin, end, whether it is in WORK
    for index, (kind, begin, end, slot) in enumerate(merged):
        begin, end = begin + first, end + first
        if kind in _STORES:
            if index not in last_uses:
                stores.append(place(_STORES[kind], slot))
        elif kind in _LOADS:
            move = Move if index in last_uses else Copy
            yield move(begin, place(_LOADS[kind], slot), StorageType.WORK)
        elif kind == "backward":
            yield from _reverse(records, begin, end)
        else:
            recorded = kind == "record"
            reversed_next = recorded and (index + 1 == len(merged) or merged[index + 1].kind == "backward")
            if recorded and stores:
                # One Forward cannot store the state in one place and what the adjoint needs in another.
                yield Forward(begin, begin + 1, True, False, stores[0])
                yield from _spread(begin, stores)
                yield Copy(begin, stores[0], StorageType.WORK)
                stores = []
            storage = StorageType.WORK
            if recorded:
                storage = StorageType.WORK if reversed_next else StorageType.RAM
                records.append((begin, end, reversed_next))
            elif stores:
                storage = stores[0]
            yield Forward(begin, end, bool(stores), recorded, storage)
            yield from _spread(begin, stores)
            stores = []


def _spread(begin: int, stores: list[Any]) -> Iterator[Any]:
    """Yields copies of the state BEGIN from the first of its places to the others."""
    for other in stores[1:]:
        yield Copy(begin, stores[0], other)


def _reverse(records: list[tuple[int, int, bool]], begin: int, end: int) -> Iterator[Any]:
    """Yields the reversal of steps END - 1 to BEGIN, whose records are the last of RECORDS."""
    while end > begin:
        low, high, in_work = records.pop()
        if not in_work:
            yield Move(low, StorageType.RAM, StorageType.WORK)
        stop = max(low, begin)
        yield Reverse(end, stop, stop == low)
        if stop > low:
            records.append((low, stop, True))
        end = stop


class PlannedCheckpointSchedule(CheckpointSchedule):  # type: ignore[misc]
    """Any schedule of ckptc. Offline, one adjoint calculation.

    schedule  ckptc.Schedule, as of ckptc.plan
    place     a function of (on_disk, slot): the StorageType of a slot
    """

    def __init__(self, schedule: Schedule, place: Place = _place):
        super().__init__(schedule.counters.steps)
        self.schedule, self._place, self._exhausted = schedule, place, False
        self._used: set[Any] | None = None

    def _actions(self) -> Iterator[Any]:
        return translate(self.schedule, self._place)

    def _iterator(self) -> Iterator[Any]:
        for action in self._actions():
            yield from self._follow(action)
        self._exhausted = True
        yield EndReverse()

    def _follow(self, action: Any) -> Iterator[Any]:
        """Yields ACTION, after it has set _n and _r; and EndForward if the forward ends with it."""
        if isinstance(action, Forward):
            self._n = action.n1
        elif isinstance(action, Reverse):
            self._r = self._max_n - action.n0
        elif isinstance(action, (Copy, Move)) and action.to_storage == StorageType.WORK:
            self._n = self._restart(action)
        yield action
        if isinstance(action, Forward) and action.n1 == self._max_n and self._r == 0:
            yield EndForward()

    def _restart(self, action: Any) -> int:
        """Returns where the forward is after ACTION, a Copy or a Move to WORK."""
        return int(action.n)

    @property
    def is_exhausted(self) -> bool:
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        if self._used is None:
            self._used = {action.storage for action in self._actions() if isinstance(action, Forward)}
            self._used -= {StorageType.WORK, StorageType.NONE}
        return storage_type in self._used


class BudgetCheckpointSchedule(PlannedCheckpointSchedule):
    """The least recomputation within a number of bytes. Offline, one adjoint calculation.

    max_n   steps that are equal, or None if `costs` are given
    memory  bytes, or as in "8GB"
    state_bytes, residual_bytes  of a restart checkpoint, and of what the adjoint of a step needs
    uf, ub, wd, rd  times of a forward step, an adjoint step, a write to disk and a read
    disk    True, or bytes: restart checkpoints may go to disk
    costs   instead of all but memory and disk: as ckptc.plan takes them

    Raises ckptc.LimitError, which has the least bytes that work, if the budget is too small.
    """

    def __init__(self, max_n: int | None, memory: int | str, *, state_bytes: int = 1, residual_bytes: int = 1,
                 uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2, disk: int | str | bool | None = None,
                 costs: Any = None):
        if costs is None:
            if max_n is None or max_n < 1:
                raise ValueError(f"max_n is {max_n}: give the number of steps, or costs")
            costs = Costs((Step(uf, ub, state_bytes, residual_bytes, max_n),), spill_write=wd, spill_read=rd)
        super().__init__(plan(costs, memory=memory, disk=disk))
