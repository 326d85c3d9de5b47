"""Binomial schedules whose snapshots are shared out to memory and disk."""
from __future__ import annotations

from math import comb
from typing import Any

from .._schedule import Schedule, Step, plan
from .planned import PlannedCheckpointSchedule
from .schedule import StorageType

__all__ = ["MultistageCheckpointSchedule", "optimal_extra_steps", "optimal_steps_binomial"]


def optimal_steps_binomial(n: int, s: int) -> int:
    """Returns the fewest forward steps that reverse N steps with S snapshots, the last run of each step counted.

    With t the least number of which C(s + t, s) is at least n, it is (t + 1) n - C(s + t, t - 1). See Griewank and
    Walther (2000).
    """
    if n < 1:
        raise ValueError(f"n is {n}, below 1")
    if s < min(1, n - 1):
        raise ValueError(f"{s} snapshots cannot reverse {n} steps")
    s, t = min(s, n - 1), 0
    while comb(s + t, s) < n:
        t += 1
    return (t + 1) * n - (comb(s + t, t - 1) if t else 0)


def optimal_extra_steps(n: int, s: int) -> int:
    """Returns how many of optimal_steps_binomial(n, s) are beyond n."""
    return optimal_steps_binomial(n, s) - n


def _share_out(schedule: Schedule, in_ram: int) -> dict[int, Any]:
    """Returns the storage of each slot. The IN_RAM slots that are used most are in memory (Stumm and Walther 2009)."""
    uses = [0] * schedule.counters.slots
    for kind, _, _, slot in schedule:
        if kind in ("save", "load"):
            uses[slot] += 1
    order = sorted(range(len(uses)), key=lambda slot: (-uses[slot], -slot))
    return {slot: StorageType.RAM if rank < in_ram else StorageType.DISK for rank, slot in enumerate(order)}


class MultistageCheckpointSchedule(PlannedCheckpointSchedule):
    """Binomial checkpointing with snapshots in memory and on disk. Offline, one adjoint calculation.

    max_n       steps of the forward
    snapshots_in_ram, snapshots_on_disk  the most restart checkpoints at once
    trajectory  "maximum" or "revolve". The fewest forward steps are the same, and so is our schedule
    """

    def __init__(self, max_n: int, snapshots_in_ram: int, snapshots_on_disk: int, *, trajectory: str = "maximum"):
        if max_n < 1:
            raise ValueError(f"max_n is {max_n}, below 1")
        if trajectory not in ("maximum", "revolve"):
            raise ValueError(f"trajectory is 'maximum' or 'revolve', not {trajectory!r}")
        if snapshots_in_ram < 0 or snapshots_on_disk < 0 or snapshots_in_ram + snapshots_on_disk < min(1, max_n - 1):
            raise ValueError(f"{snapshots_in_ram} snapshots in memory and {snapshots_on_disk} on disk cannot reverse "
                             f"{max_n} steps")
        snapshots = max(1, snapshots_in_ram + snapshots_on_disk)
        schedule = plan([Step(count=max_n)], policy=f"revolve:{snapshots}")
        storage = _share_out(schedule, snapshots_in_ram)
        super().__init__(schedule, lambda on_disk, slot: storage[slot])
