"""Schedules: the actions of a plan, and their execution by functions of the caller."""
from __future__ import annotations

import ctypes as c
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._counters import Counters, read_counters
from ._errors import UsageError
from ._library import (ActionStruct, CostsStruct, CountersStruct, Owned, PlanOptions, StepCost, call, library)
from ._sizes import parse_bytes

KINDS = ("forward", "record", "save", "load", "drop", "spill", "fetch", "discard", "backward")
_ON_STEPS = ("forward", "record", "backward")
_BLOCK = 1024


class Action(NamedTuple):
    """An action of a schedule. State p is what step p and those after it need: state 0 is the input.

    forward   runs steps begin to end-1 on the current state begin; state end becomes current
    record    as forward, and keeps what `backward` of these steps needs
    backward  reverses steps end-1 down to begin; their cotangents are of state end, then of state begin
    save      puts the current state begin into the empty memory slot
    load      makes state begin, which the memory slot holds, the current one
    drop      empties the memory slot, which holds state begin
    spill, fetch, discard  save, load and drop for slots on disk
    """

    kind: str
    begin: int
    end: int
    slot: int


@dataclass(frozen=True)
class Step:
    """The costs of COUNT equal steps, one after another. Times are in any one unit; sizes are in bytes.

    forward, backward  times of running the step and of reversing it
    state_bytes        of the state before the step
    residual_bytes     of what recording the step keeps, without that state
    record             time of recording it while nobody reads the state after it; None: as forward
    forward_temporary_bytes, record_temporary_bytes, backward_temporary_bytes  workspace while it runs;
                       record_temporary_bytes None: as forward_temporary_bytes
    keeps_input        its reversal needs the state before it
    keeps_output       residual_bytes have the state after it in them
    """

    forward: float = 1.0
    backward: float = 2.0
    state_bytes: int = 1
    residual_bytes: int = 1
    count: int = 1
    record: float | None = None
    forward_temporary_bytes: int = 0
    record_temporary_bytes: int | None = None
    backward_temporary_bytes: int = 0
    keeps_input: bool = True
    keeps_output: bool = False


@dataclass(frozen=True)
class Costs:
    """Steps, and what is beside them.

    fixed_bytes   held all the time
    output_bytes  of the state after the last step; None: as the state before it
    spill_write, spill_read  times of writing a state to disk and of reading it; None: five mean steps
    """

    steps: tuple[Step, ...]
    fixed_bytes: int = 0
    output_bytes: int | None = None
    spill_write: float | None = None
    spill_read: float | None = None


class Schedule:
    """The schedule of a policy: iterate it for its actions, which are computed one by one.

    policy    str: the policy that was planned
    counters  Counters: what it costs

    A schedule does not change. Several threads may iterate one, each by an iterator of its own.
    """

    def __init__(self, plan: Owned, kept: Any = None, pictured: Any = None):
        self._plan, self._kept, self._pictured = plan, kept, pictured
        struct = CountersStruct()
        library.ckptc_plan_counters(plan.handle, c.byref(struct))
        self.counters: Counters = read_counters(struct)
        self.policy: str = library.ckptc_plan_policy(plan.handle).decode()

    def __repr__(self) -> str:
        own = self.counters
        return (f"<ckptc.Schedule {self.policy}: {own.steps} steps, {own.evaluations} evaluations, "
                f"{own.peak_bytes} bytes>")

    def __len__(self) -> int:
        """Returns the number of actions, which it counts once."""
        if not hasattr(self, "_length"):
            self._length = sum(count for count, _ in self._blocks())
        return self._length

    def __bool__(self) -> bool:
        return True

    def _blocks(self) -> Iterator[tuple[int, Any]]:
        """Yields blocks of actions: how many, and an array of the library's structs that the next block overwrites."""
        actions = Owned("actions_free", "actions_new", self._plan.handle)
        block = (ActionStruct * _BLOCK)()
        while count := library.ckptc_actions_read(actions.handle, block, _BLOCK):
            yield count, block

    def __iter__(self) -> Iterator[Action]:
        for count, block in self._blocks():
            for item in block[:count]:
                yield Action(KINDS[item.kind], item.begin, item.end, item.slot)

    def verify(self) -> None:
        """Raises CheckError unless the actions reverse all steps."""
        call("plan_verify", self._plan.handle)

    def execute(self, callbacks: Any = None, **functions: Any) -> None:
        """Calls a function for each action, in order.

        callbacks  an object with methods, a mapping of functions, or functions by name: forward(step), record(step), backward(step),
                   save(state, slot), load(state, slot), drop(state, slot), and spill, fetch and discard, which are
                   those of slots on disk. A range of steps is a call for each. `drop` and `discard` may be missing,
                   and so may what the schedule does not use.

        Raises UsageError, before anything is called, if a function is missing. An exception of a function ends the
        execution and comes out unchanged, KeyboardInterrupt too.
        """
        if callbacks is not None and functions:
            raise UsageError("callbacks: give an object or a mapping, or functions by name, not both")
        called = self._functions(functions if callbacks is None else callbacks)
        forward, record, backward = (called.get(name) for name in _ON_STEPS)
        for kind, begin, end, slot in self:
            if kind == "forward":
                for step in range(begin, end):
                    forward(step)  # type: ignore[misc]
            elif kind == "record":
                for step in range(begin, end):
                    record(step)  # type: ignore[misc]
            elif kind == "backward":
                for step in range(end - 1, begin - 1, -1):
                    backward(step)  # type: ignore[misc]
            elif function := called.get(kind):
                function(begin, slot)

    def _functions(self, callbacks: Any) -> dict[str, Any]:
        if isinstance(callbacks, Mapping):
            if unknown := [name for name in callbacks if name not in KINDS]:
                raise UsageError(f"callbacks: '{unknown[0]}' is no action; they are {', '.join(KINDS)}")
            functions = dict(callbacks)
        else:
            functions = {name: getattr(callbacks, name, None) for name in KINDS}
        functions = {name: function for name, function in functions.items() if function is not None}
        for name, function in functions.items():
            if not callable(function):
                raise UsageError(f"callbacks: '{name}' is {function!r}, which is no function")
        needed = set(KINDS) - set(functions) - {"drop", "discard"}
        if needed:
            missing = needed & {KINDS[item.kind] for count, block in self._blocks() for item in block[:count]}
            if missing:
                raise UsageError(f"callbacks: the schedule needs the function '{min(missing, key=KINDS.index)}'")
        return functions

    def picture(self) -> str | None:
        """Returns the schedule as SVG: steps by time, with the states held, and bytes by time."""
        return self._pictured(self.policy) if self._pictured else None

    def _repr_html_(self) -> str:
        import html

        from ._pictures import try_draw
        return try_draw(self.picture) + f"<p>{html.escape(repr(self))}</p>"


def verify(actions: Iterable[Action], steps: int) -> None:
    """Raises CheckError unless ACTIONS, of any source, reverse STEPS steps: it names the action and the rule."""
    verifier = Owned("verifier_free", "verifier_new", steps, None)
    one = (ActionStruct * 1)()
    for kind, begin, end, slot in actions:
        if kind not in KINDS:
            raise UsageError(f"'{kind}' is no action; they are {', '.join(KINDS)}")
        one[0] = ActionStruct(KINDS.index(kind), 0, begin, end, slot)
        call("verifier_see", verifier.handle, one, 1)
    call("verifier_end", verifier.handle)


def plan(costs: Any, *, memory: int | str | None = None, policy: str | None = None,
         disk: int | str | bool | None = None, max_checkpoints: int = 0) -> Schedule:
    """Plans steps that the caller runs.

    costs    Costs; an iterable of Step, or of dicts with the keys of Step; a dict, a JSON text, or the path of a file,
             as COSTS in ckptc(1) describes them
    memory   bytes, as 8000000000, "8GB" or "512MiB": the least recomputation that fits in so many
    policy   another rule, as in ckptc(1): "revolve:10", "every:4", "sqrt". Without memory and policy everything is kept
    disk     True: states may go to disk; bytes: at most so many
    max_checkpoints  the most states in memory, for policies that take that

    Returns a Schedule. Raises LimitError, which has the least bytes that work as `least`, if the budget is too small;
    UsageError for a wrong policy; DataError for wrong costs.
    """
    options = PlanOptions(max_checkpoints=max_checkpoints)
    if memory is not None:
        options.memory = parse_bytes(memory, "memory")
    if disk is not None and disk is not False:
        options.on_disk = 1
        options.disk_bytes = 0 if disk is True else parse_bytes(disk, "disk")
    spelled = None if policy is None else policy.encode()
    if isinstance(costs, (str, os.PathLike, bytes, dict)):
        text = _spec_text(costs)
        made = Owned("plan_free", "plan_spec", text, len(text), spelled, c.byref(options))
        return _pictured(made, options, lambda: text)
    given = costs if isinstance(costs, Costs) else Costs(_steps(costs))
    struct, kept = _costs_struct(given)
    if any(step.record is not None for step in given.steps):
        times = [step.forward if step.record is None else step.record for step in given.steps]
        options.record = (c.c_double * len(times))(*times)
    made = Owned("plan_free", "plan_costs", c.byref(struct), spelled, c.byref(options))
    del kept
    return _pictured(made, options, lambda: _spec_of(given))


def _pictured(made: Owned, options: PlanOptions, spec: Any) -> Schedule:
    on_disk, disk_bytes = bool(options.on_disk), int(options.disk_bytes)

    def draw(policy: str) -> str:
        from ._pictures import draw_spec
        return draw_spec(spec(), policy, on_disk, disk_bytes)
    return Schedule(made, pictured=draw)


def _spec_text(costs: Any) -> bytes:
    if isinstance(costs, dict):
        return json.dumps(costs).encode()
    if isinstance(costs, bytes):
        return costs
    if isinstance(costs, str) and costs.lstrip().startswith("{"):
        return costs.encode()
    with open(costs, "rb") as file:
        return file.read()


def _steps(costs: Iterable[Any]) -> tuple[Step, ...]:
    steps = []
    for number, step in enumerate(costs):
        if isinstance(step, Mapping):
            try:
                step = Step(**{name: value for name, value in step.items() if name != "name"})
            except TypeError as error:
                raise UsageError(f"costs: step {number}: {error}") from None
        if not isinstance(step, Step):
            raise UsageError(f"costs: step {number} is {type(step).__name__}, not ckptc.Step")
        steps.append(step)
    return tuple(steps)


def _costs_struct(given: Costs) -> tuple[CostsStruct, Any]:
    """Returns the library's struct of GIVEN, and the array that it points to."""
    steps = _steps(given.steps)
    array = (StepCost * max(1, len(steps)))()
    for number, (item, step) in enumerate(zip(array, steps)):
        temporary = step.forward_temporary_bytes
        try:
            item.count, item.forward, item.backward = step.count, step.forward, step.backward
            item.state_bytes, item.residual_bytes = step.state_bytes, step.residual_bytes
            item.forward_temporary_bytes, item.backward_temporary_bytes = temporary, step.backward_temporary_bytes
            item.record_temporary_bytes = (temporary if step.record_temporary_bytes is None
                                           else step.record_temporary_bytes)
        except TypeError as error:
            raise UsageError(f"costs: step {number}: {error}") from None
        item.drops_input, item.keeps_output = not step.keeps_input, step.keeps_output
    struct = CostsStruct(array, len(steps), given.fixed_bytes, -1 if given.output_bytes is None else given.output_bytes,
                         -1 if given.spill_write is None else given.spill_write,
                         -1 if given.spill_read is None else given.spill_read)
    return struct, array


def _spec_of(given: Costs) -> bytes:
    """Returns GIVEN as the JSON that the program reads."""
    def entries(item: Any, names: Iterable[str]) -> dict[str, Any]:
        return {name: getattr(item, name) for name in names if getattr(item, name) is not None}
    spec = entries(given, ("fixed_bytes", "output_bytes", "spill_write", "spill_read"))
    spec["time_unit"] = "none"
    spec["steps"] = [entries(step, Step.__dataclass_fields__) for step in given.steps]
    return json.dumps(spec).encode()
