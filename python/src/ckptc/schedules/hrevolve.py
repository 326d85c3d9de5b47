"""Schedules with restart checkpoints in memory and on disk."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._schedule import Costs, Schedule, Step, plan
from .multistage import optimal_steps_binomial
from .planned import PlannedCheckpointSchedule, translate
from .schedule import Forward, Move, StorageType

__all__ = ["DiskRevolve", "HRevolve", "PeriodicDiskRevolve", "Revolve"]


def _check(max_n: int, snapshots_in_ram: int) -> None:
    if max_n < 1:
        raise ValueError(f"max_n is {max_n}, below 1")
    if snapshots_in_ram < 1:
        raise ValueError(f"snapshots_in_ram is {snapshots_in_ram}, below 1")


def _plan(max_n: int, snapshots: int, disk: int | bool | None, uf: float, ub: float, wd: float, rd: float) -> Schedule:
    """Plans MAX_N equal steps with SNAPSHOTS in memory, and DISK of them on disk (True: any number)."""
    _check(max_n, snapshots)
    costs = Costs((Step(uf, ub, count=max_n),), spill_write=wd, spill_read=rd)
    if not disk or max_n == 1:
        return plan(costs, policy=f"revolve:{snapshots}")
    return plan(costs, policy=f"disk-revolve:{snapshots}", disk=disk)


class Revolve(PlannedCheckpointSchedule):
    """Binomial checkpointing with snapshots in memory alone (Griewank and Walther 2000). The fewest forward steps.

    max_n             steps of the forward
    snapshots_in_ram  the most restart checkpoints at once
    uf, ub, wd, rd    times, which do not change this schedule
    """

    def __init__(self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2):
        super().__init__(_plan(max_n, snapshots_in_ram, None, uf, ub, wd, rd))


class HRevolve(PlannedCheckpointSchedule):
    """Snapshots in memory and on disk (as Herrmann and Pallez 2020): the least time, by the policy disk-revolve:S.

    max_n              steps of the forward
    snapshots_in_ram, snapshots_on_disk  the most restart checkpoints at once
    uf, ub, wd, rd     times of a forward step, an adjoint step, a write to disk and a read
    """

    def __init__(self, max_n: int, snapshots_in_ram: int, snapshots_on_disk: int, uf: float = 1, ub: float = 1,
                 wd: float = 2, rd: float = 2):
        super().__init__(_plan(max_n, snapshots_in_ram, snapshots_on_disk, uf, ub, wd, rd))


class DiskRevolve(PlannedCheckpointSchedule):
    """Snapshots in memory, and any number on disk (as Aupy et al. 2016): the least time.

    Arguments as for HRevolve.
    """

    def __init__(self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2):
        super().__init__(_plan(max_n, snapshots_in_ram, True, uf, ub, wd, rd))


class PeriodicDiskRevolve(PlannedCheckpointSchedule):
    """Snapshots on disk at equal distances, and in memory between two of them (as Aupy and Herrmann 2017).

    The distance is the one, of all, that takes the least time. Arguments as for HRevolve.
    """

    def __init__(self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2):
        _check(max_n, snapshots_in_ram)

        def time(period: int) -> float:
            # Each period but the last is run once more, by the forward that stores its start on disk.
            whole, rest = divmod(max_n - 1, period)
            again = optimal_steps_binomial(period, snapshots_in_ram)
            return whole * ((period + again) * uf + wd + rd) + optimal_steps_binomial(rest + 1, snapshots_in_ram) * uf
        self.period = min(range(1, max_n + 1), key=time)
        self._in_ram = snapshots_in_ram
        super().__init__(_plan(max_n, snapshots_in_ram, None, uf, ub, wd, rd))

    def _actions(self) -> Iterator[Any]:
        starts = list(range(0, self._max_n, self.period))
        for start in starts[:-1]:
            yield Forward(start, start + self.period, True, False, StorageType.DISK)
        for start in reversed(starts):
            if start != starts[-1]:
                yield Move(start, StorageType.DISK, StorageType.WORK)
            steps = min(self.period, self._max_n - start)
            part = plan([Step(count=steps)], policy=f"revolve:{self._in_ram}")
            yield from translate(part, first=start)
