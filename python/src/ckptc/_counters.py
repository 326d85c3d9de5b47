"""What a schedule costs, as the library counts it."""
from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from ._library import CountersStruct


@dataclass(frozen=True)
class Counters:
    """What a plan predicts or a gradient measured. Times are in the unit of the costs. See COUNTERS in ckptc(1).

    steps             of the chain
    evaluations       forward executions of steps, recording ones too
    recomputed        evaluations - steps
    checkpoints       the most states in memory slots at once
    slots, disk_slots slots in memory and on disk are numbered from 0 up to these, exclusive
    stored_bytes      held when the first sweep ends
    peak_bytes        of everything, at the highest
    spill_writes, spill_reads  states to disk, and back
    forward_time, backward_time  of a pass that keeps everything
    recomputed_time   of all other computations
    overhead_percent  recomputed time over the times above
    gap_percent       a budget recomputes at most this much more than the least; None: unknown
    executions        evaluations that compute the state after the step
    """

    steps: int
    evaluations: int
    recomputed: int
    checkpoints: int
    slots: int
    disk_slots: int
    stored_bytes: int
    peak_bytes: int
    spill_writes: int
    spill_reads: int
    forward_time: float
    backward_time: float
    recomputed_time: float
    overhead_percent: float
    gap_percent: float | None
    executions: int


_NAMES = [field.name for field in fields(Counters)]


def read_counters(struct: CountersStruct) -> Counters:
    values: dict[str, Any] = {name: getattr(struct, name) for name in _NAMES}
    gap = values["gap_percent"]
    values["gap_percent"] = None if math.isnan(gap) or gap < 0 else gap
    return Counters(**values)
