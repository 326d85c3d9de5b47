"""The costs of a chain's steps on the device that they run on, and the plan that follows from them.

    state_bytes         tensors between two steps; one that several states pass on counts in each
    residual_bytes      what a recorded step leaves, without its input. With keeps_output its output is part of that
    forward_temporary_bytes, record_temporary_bytes, backward_temporary_bytes
                        the most that is allocated beside states, residuals and cotangents. The reversal of a step
                        makes the gradients of its params before they are added to .grad
    fixed_bytes         the generators' states, copies of buffers, and the output and its cotangent

Params, their .grad, the input's gradient beside the cotangents, and the optimiser's state do not count.
"""
from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from .._errors import LimitError, UsageError
from .._schedule import Action, Costs, Schedule
from .._schedule import Step as StepCosts
from .._schedule import plan as make_plan
from ._engine import Facts, State, Step, as_bytes, forward, needs_gradient, record, reverse
from ._meters import tensor_bytes, usage
from ._surroundings import Autocast, Generators, buffers, params, same_states, swapped_buffers

REPEATS = 3


class Plan(NamedTuple):
    """What is known of a chain for arguments of some shapes.

    start     the first step that is planned. Those before it need no gradients
    actions   of the schedule, for the chain's own numbers of steps
    repeated  the steps that run more than once
    flags     of each state, True for the tensors that need a gradient
    """

    facts: list[Facts]
    flags: list[list[bool]]
    start: int
    costs: Costs
    schedule: Schedule | None
    actions: list[Action]
    repeated: frozenset[int]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [v for v in values if isinstance(v, torch.Tensor)]


def _copy(state: State) -> State:
    return [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in state]


def _is_compiled(module: Any) -> bool:
    return any(getattr(part, "_compiled_call_impl", None) is not None or hasattr(part, "_torchdynamo_orig_callable")
               or type(part).__name__ == "OptimizedModule" for part in module.modules())


class _Trial:
    """A step with the arguments that it is measured on."""

    def __init__(self, step: Step, state: State, outer: list[Any], flags: list[bool], generators: Generators):
        self.step, self.state, self.flags, self.generators = step, state, flags, generators
        self.outer = {k: outer[k] for k in step.outer}
        self.params = params(step.module)
        self.draws = False
        self.autocast = Autocast([*_tensors(state), *_tensors(outer), *self.params])

    def _forward(self, facts: Facts, state: State) -> State:
        with self.autocast.restored():
            return forward(self.step, facts, state, self.outer, self.flags)[0]

    def _record(self, facts: Facts, state: State) -> Any:
        with self.autocast.restored():
            after, _, made = record(self.step, facts, state, self.outer, self.flags, [*self.params, *facts.captured])
        return after, made

    def probe(self) -> tuple[Facts, State]:
        """Returns the facts of the step, and its output."""
        own = buffers(self.step.module)
        facts = Facts(False, _is_compiled(self.step.module), frozenset(), [], [])
        with self.generators.kept(), swapped_buffers(self.step.module, own):
            before = self.generators.read()
            state, outer = _copy(self.state), {k: o.detach().clone() if isinstance(o, torch.Tensor) else o
                                               for k, o in self.outer.items()}
            given = _tensors([*state, *outer.values()])
            versions = [t._version for t in given]
            with torch.no_grad(), self.autocast.restored():
                plain = self.step.call(state, outer)[0]
            self.draws = not same_states(before, self.generators.read())
            now = buffers(self.step.module)
            changed = frozenset(k for k, b in own.items() if k not in now or not _same_bits(b, now[k]))
            facts = facts._replace(writes=versions != [t._version for t in given], buffers=changed)
            state = outer = given = None  # type: ignore[assignment]
        with self.generators.kept(), swapped_buffers(self.step.module, own):
            begin = _sequence()
            after, made = self._record(facts, self.state)
            flags = [k in made.results for k in range(len(after))]
            graded = facts.graded or len(plain) != len(after) or not all(map(_same_bits, plain, after))
            plain = None  # type: ignore[assignment]
            captured = self._captured(made, begin)
            # libraries make their workspaces, and a compiled block its backward pass, before anything is measured
            reverse(made, _ones(after, flags))
        return facts._replace(flags=flags, graded=graded, captured=captured), after

    def _captured(self, made: Any, begin: int) -> list[torch.Tensor]:
        """Returns the leaves of the step's graph that are no params of it."""
        ends = {edge.node for edge in (*made.state.values(), *made.outer.values())}
        known = {id(p) for p in self.params}
        ends |= {p.grad_fn for p in self.params if p.grad_fn is not None}
        found: dict[int, torch.Tensor] = {}
        todo = [edge.node for edge in made.results.values()]
        seen = set(ends)
        while todo:
            node = todo.pop()
            if node in seen or node is None:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                if id(node.variable) not in known:
                    found[id(node.variable)] = node.variable
            elif node._sequence_nr() < begin:
                raise UsageError(f"block '{self.step.name}' reads a tensor with a gradient that is neither an argument "
                                 "nor a param of it; pass it to the block as an argument")
            todo += [following for following, _ in node.next_functions]
        return list(found.values())

    def passes(self, facts: Facts) -> Iterator[None]:
        """Each pass of the step, for a meter."""
        inputs = _copy(self.state)
        yield
        after = self._forward(facts, inputs)
        yield
        cotangents = _ones(after, facts.flags)
        after = None  # type: ignore[assignment]
        yield
        after, recorded = self._record(facts, inputs)
        yield
        after = None  # type: ignore[assignment]
        yield
        before = reverse(recorded, cotangents)
        yield
        del before, recorded
        yield
        after, recorded = self._record(facts, inputs)
        after = inputs = None  # type: ignore[assignment]
        yield
        recorded = cotangents = None  # type: ignore[assignment]

    def bytes(self, rows: Any, after: State) -> dict[str, Any]:
        """Returns the sizes of the step from the ROWS of its passes."""
        held, most = zip(*rows)
        start, ran, seeded, recorded, released, reversed_, clear, kept = range(8)
        state_bytes, after_bytes = tensor_bytes(self.state), tensor_bytes(after)
        residual_bytes = held[released] - held[seeded]
        is_view = tensor_bytes([*self.state, *after]) < state_bytes + after_bytes
        return {
            "state_bytes": state_bytes,
            "residual_bytes": max(0, residual_bytes),
            "keeps_input": is_view or held[kept] - held[clear] > residual_bytes - held[start],
            "keeps_output": held[recorded] == held[released],
            "forward_temporary_bytes": max(0, most[ran] - held[start] - after_bytes),
            "record_temporary_bytes": max(0, most[recorded] - held[recorded]),
            "backward_temporary_bytes": max(0, most[reversed_] - held[released] - state_bytes),
        }

    def times(self, facts: Facts, after: State, device: torch.device) -> dict[str, float]:
        """Returns the milliseconds of the step's passes: the least of REPEATS."""
        cotangents = _ones(after, facts.flags)
        clock = _clock(device)
        found: dict[str, list[float]] = {"forward": [], "record": [], "backward": []}
        for _ in range(REPEATS):
            found["forward"].append(clock(lambda: self._forward(facts, self.state))[0])
            elapsed, (_, recorded) = clock(lambda: self._record(facts, self.state))
            found["record"].append(elapsed)
            found["backward"].append(clock(lambda: reverse(recorded, cotangents))[0])
        return {name: min(times) for name, times in found.items()}


def _ones(state: State, flags: list[bool]) -> dict[int, torch.Tensor]:
    return {k: torch.ones_like(state[k]) for k, flag in enumerate(flags) if flag}


def _sequence() -> int:
    """Returns a number below those of the nodes that this thread makes from now on."""
    with torch.enable_grad():
        return (torch.zeros((), requires_grad=True) * 1).grad_fn._sequence_nr()  # type: ignore[union-attr]


def _same_bits(a: Any, b: Any) -> bool:
    """True if A and B are tensors of the same form and bits, or no tensors."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) == isinstance(b, torch.Tensor)
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(as_bytes(a), as_bytes(b))


def _clock(device: torch.device) -> Callable[[Callable[[], Any]], tuple[float, Any]]:
    """Returns a function that times another one in milliseconds, and returns its result too."""
    if device.type == "cuda":
        def timed(function: Callable[[], Any]) -> tuple[float, Any]:
            with torch.cuda.device(device):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                result = function()
                end.record()
                end.synchronize()
            return begin.elapsed_time(end), result
        return timed
    finish = torch.mps.synchronize if device.type == "mps" else lambda: None
    # what other processes take counts in no time of one thread
    now = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter

    def timed_by_host(function: Callable[[], Any]) -> tuple[float, Any]:
        finish()
        begin = now()
        result = function()
        finish()
        return (now() - begin) * 1e3, result
    return timed_by_host


class Measured(NamedTuple):
    """What plans for all budgets share. PREFIX are the bytes that running the steps before START takes."""

    facts: list[Facts]
    flags: list[list[bool]]
    start: int
    costs: Costs
    prefix: int


def measure(steps: list[Step], first: State, outer: list[Any]) -> Measured:
    """Measures STEPS. Leaves generators, buffers and gradients as they are.

    Two states exist at a time, and what one step needs.
    """
    tensors = _tensors([*first, *outer, *(p for step in steps for p in params(step.module))])
    device = next((t.device for t in tensors), torch.device("cpu"))
    generators = Generators(tensors)
    flags = [[needs_gradient(v) for v in first]]
    all_facts: list[Facts] = []
    gc.collect()
    sizes, times, fixed = [], [], 0
    with generators.kept():
        generator_bytes = sum(s.nbytes for s in generators.read()[:1]) if device.type == "cpu" else 0
        state = [v.detach() if isinstance(v, torch.Tensor) else v for v in first]
        for step in steps:
            item = _Trial(step, state, outer, flags[-1], generators)
            facts, after = item.probe()
            own = {name: value for name, value in buffers(step.module).items() if name in facts.buffers}
            with swapped_buffers(step.module, own):
                sizes.append(item.bytes(usage(item.passes(facts), device), after))
                times.append(item.times(facts, after, device))
            fixed += tensor_bytes(own.values()) + generator_bytes * item.draws
            all_facts.append(facts)
            flags.append(facts.flags)
            state = after
    start = max((i for i, own_flags in enumerate(flags) if not any(own_flags)), default=0)
    output = tensor_bytes(state)
    rows = [StepCosts(**own_sizes, **own_times) for own_sizes, own_times in zip(sizes, times)]
    prefix = 0
    if start:  # the caller holds the input
        fixed += tensor_bytes(first)
        after = [*(row.state_bytes for row in rows[1:]), output]
        prefix = tensor_bytes(first) + max(row.state_bytes * (i > 0) + after[i] + row.forward_temporary_bytes
                                           for i, row in enumerate(rows[:start]))
    return Measured(all_facts, flags, start, _costs(rows[start:], fixed, output), prefix)


def _costs(rows: list[StepCosts], fixed: int, output: int) -> Costs:
    """Returns the costs of ROWS. The caller holds the input, the output and its cotangent: these never become free."""
    if rows:
        rows[0] = replace(rows[0], keeps_input=True)
        if rows[-1].keeps_output:
            # where it was measured, the reversal freed the output early
            last = rows[-1]
            rows[-1] = replace(last, keeps_output=False, residual_bytes=max(0, last.residual_bytes - output),
                               backward_temporary_bytes=last.backward_temporary_bytes + output)
    return Costs(tuple(rows), fixed_bytes=fixed + 2 * output, output_bytes=0)


def agree(measured: Measured, group: Any) -> Measured:
    """Returns MEASURED as all processes of GROUP have it: of each number, the greatest. The times are the first's.

    Blocks that communicate when they run again need the same schedule in all of them.
    """
    found: list[Any] = [None] * torch.distributed.get_world_size(group)
    own = (measured.start, measured.flags, measured.costs, measured.prefix)
    torch.distributed.all_gather_object(found, own, group=group)
    if any(other[:2] != own[:2] for other in found):
        raise UsageError("group: the blocks need other gradients in one process than in another")
    all_rows = list(zip(*(costs.steps for _, _, costs, _ in found)))
    steps = []
    for rows in all_rows:
        sizes = {name: max(getattr(row, name) for row in rows) for name in _SIZES}
        steps.append(replace(rows[0], keeps_input=any(row.keeps_input for row in rows),
                             keeps_output=all(row.keeps_output for row in rows), **sizes))
    fixed = max(costs.fixed_bytes for _, _, costs, _ in found)
    return measured._replace(costs=replace(measured.costs, steps=tuple(steps), fixed_bytes=fixed),
                             prefix=max(prefix for *_, prefix in found))


_SIZES = ("state_bytes", "residual_bytes", "forward_temporary_bytes", "record_temporary_bytes",
          "backward_temporary_bytes")


def plan_steps(measured: Measured, steps: list[Step], memory: int) -> Plan:
    """Plans STEPS for MEMORY bytes."""
    facts, flags, start, costs, prefix = measured
    if start == len(steps):
        return Plan(facts, flags, start, costs, None, [], frozenset())
    which = f"{len(steps)} blocks, '{steps[0].name}' to '{steps[-1].name}'"
    try:
        schedule = make_plan(costs, memory=memory)
    except LimitError as error:
        if error.least is not None and error.least >= prefix:
            raise LimitError(f"{which}: {error}") from None
        schedule = None
    if schedule is None or prefix > memory:
        raise LimitError(f"{which}: cannot run the blocks that need no gradients within {memory} bytes; the least that "
                         f"works is {prefix} bytes")
    actions = [Action(kind, begin + start, end + start, slot) for kind, begin, end, slot in schedule]
    runs = [0] * len(steps)
    for kind, begin, end, _ in actions:
        if kind in ("forward", "record"):
            for i in range(begin, end):
                runs[i] += 1
    return Plan(facts, flags, start, costs, schedule, actions, frozenset(i for i, n in enumerate(runs) if n > 1))


def run_twice(plan: Plan) -> Plan:
    """Returns PLAN with a schedule that runs each step twice."""
    actions, steps = [], range(plan.start, len(plan.facts))
    for i in steps:
        actions += [Action("save", i, 0, i), Action("forward", i, i + 1, 0)]
    for i in reversed(steps):
        actions += [Action("load", i, 0, i), Action("drop", i, 0, i), Action("record", i, i + 1, 0),
                    Action("backward", i, i + 1, 0)]
    return plan._replace(actions=actions, repeated=frozenset(steps))
