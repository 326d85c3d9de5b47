"""Reports: lists of rows, which a notebook shows as a table and a picture."""
from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from ._counters import Counters
from ._schedule import Schedule

Row = TypeVar("Row")


class Report(list[Row]):
    """A list of dataclasses. In a notebook it is a table, under the picture that the program draws for it."""

    def __init__(self, rows: Iterable[Row] = (), draw: Callable[[], str | None] | None = None):
        super().__init__(rows)
        self._draw = draw

    def picture(self) -> str | None:
        """Returns the picture as SVG, or None if the report has none."""
        return self._draw() if self._draw else None

    def _repr_html_(self) -> str:
        from ._pictures import try_draw
        return try_draw(self.picture) + _table(self)


def _table(rows: list[Any]) -> str:
    if not rows:
        return "<p>no rows</p>"
    names = [item.name for item in fields(rows[0]) if item.repr]
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(getattr(row, name))}</td>" for name in names) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


@dataclass(frozen=True)
class Plan:
    """What a policy costs on a chain: a row of `ckptc plan`. Counters that are not here are in schedule.counters.

    saved_bytes        less stored than by save-all
    reduction_percent  less of save-all's peak
    efficiency         reduction_percent over overhead_percent; None without an overhead
    pareto             no other row is better in both peak and overhead
    schedule           Schedule: its actions
    """

    policy: str
    steps: int
    evaluations: int
    executions: int
    recomputed: int
    checkpoints: int
    stored_bytes: int
    saved_bytes: int
    peak_bytes: int
    spill_writes: int
    spill_reads: int
    reduction_percent: float
    overhead_percent: float
    efficiency: float | None
    gap_percent: float | None
    pareto: bool
    schedule: Schedule = field(repr=False, compare=False)

    @property
    def counters(self) -> Counters:
        return self.schedule.counters


def compare_plans(schedules: list[Schedule], save_all: Counters) -> list[Plan]:
    """Returns a row for each of SCHEDULES, compared with save-all."""
    rows = []
    for schedule in schedules:
        own = schedule.counters
        reduction = 100 * (1 - own.peak_bytes / save_all.peak_bytes) if save_all.peak_bytes else 0.0
        others = [other.counters for other in schedules if other is not schedule]
        rows.append(Plan(
            policy=schedule.policy, steps=own.steps, evaluations=own.evaluations, executions=own.executions,
            recomputed=own.recomputed, checkpoints=own.checkpoints, stored_bytes=own.stored_bytes,
            saved_bytes=save_all.stored_bytes - own.stored_bytes, peak_bytes=own.peak_bytes,
            spill_writes=own.spill_writes, spill_reads=own.spill_reads, reduction_percent=reduction,
            overhead_percent=own.overhead_percent,
            efficiency=reduction / own.overhead_percent if own.overhead_percent > 0 else None,
            gap_percent=own.gap_percent, pareto=not any(_beats(other, own) for other in others), schedule=schedule))
    return rows


def _beats(other: Counters, own: Counters) -> bool:
    """True if OTHER is nowhere worse than OWN, and somewhere better."""
    a, b = (other.peak_bytes, other.overhead_percent), (own.peak_bytes, own.overhead_percent)
    return a[0] <= b[0] and a[1] <= b[1] and a != b


@dataclass(frozen=True)
class Residual:
    """An array that is held when the first sweep ends.

    type    str: dtype and shape as JAX writes them, f32[5,4]
    bytes   int
    kind    str: "argument", "output" or "named"
    name    str or None: of the argument or of the value
    op      str or None: the operation that made it
    file, line, column  its place in the chain; None for arguments
    within  str or None: the def that the place is in
    step    int or None: the step that made it
    """

    type: str
    bytes: int
    kind: str
    name: str | None
    op: str | None
    file: str | None
    line: int | None
    column: int | None
    within: str | None
    step: int | None
    what: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.type} {self.what}"


def read_residual(size: int, step: int, type_: str, what: str) -> Residual:
    """Reads a row of the library, whose text WHAT is JAX's."""
    parts: dict[str, Any] = dict.fromkeys(("name", "op", "file", "line", "column", "within"))
    kind = "output"
    if found := re.match(r"from the argument (.*)", what):
        kind, parts["name"] = "argument", found[1]
    elif found := re.match(r"(?:output of (\S+)|named '(.*?)')(?: from (.*):(\d+):(\d+))?(?: \((.*)\))?$", what):
        kind = "named" if found[2] is not None else "output"
        parts.update(op=found[1], name=found[2], file=found[3], within=found[6])
        parts.update(line=found[4] and int(found[4]), column=found[5] and int(found[5]))
    return Residual(type=type_, bytes=size, kind=kind, step=None if step < 0 else step, what=what, **parts)
