"""checkpoint_scan: one function, run on each row of stacked params, that JAX differentiates within a number of bytes.

An action on several steps is one loop (lax.scan), so the program is as long as the schedule has actions, not steps. Where
an optimal schedule has more than MOST_ACTIONS, a schedule of equal segments with fewer is taken if it fits: of these
the fastest. What is planned is what runs in both.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax import lax, tree_util

from .._errors import UsageError
from .._schedule import Action, Costs, Schedule
from .._schedule import Step as StepCosts
from .._schedule import plan as make_plan
from .._sizes import parse_bytes
from ._chain import States, cotangents, own_costs
from ._steps import Leaves, Recorded, Step, barrier, is_float, run_apart, size_of, struct

MOST_ACTIONS = 200


def _row(stacked: Leaves, number: Any) -> Leaves:
    return [lax.dynamic_index_in_dim(leaf, number, keepdims=False) for leaf in stacked]


class Loops(States):
    """Does the actions of a schedule. SHARED are the arrays that the step closes over, STACKED those with its params."""

    def __init__(self, step: Step, shared: Leaves, stacked: Leaves):
        super().__init__()
        self.step, self.shared, self.stacked = step, shared, stacked
        self.recorded: dict[int, tuple[int, Recorded]] = {}  # by the end of a range: its begin, and its rows
        self.cotangent: Leaves | None = None  # None in the forward pass
        self.found: Any = None

    def start(self, cotangent: Leaves) -> None:
        def zeros(leaves: Leaves) -> Leaves:
            return [jax.numpy.zeros(leaf.shape, leaf.dtype) if is_float(leaf) else None for leaf in leaves]
        self.cotangent, self.found = cotangent, (zeros(self.shared), zeros(self.stacked))

    def perform(self, action: Action) -> None:
        kind, begin, end, slot = action
        if kind in ("forward", "record"):
            self._run(begin, end, kind == "record")
        elif kind == "backward":
            self.state = None
            while end > begin:
                first, rows = self.recorded.pop(end)
                low = max(first, begin)
                self._reverse(first, low, end, rows)
                if first < low:
                    self.recorded[low] = first, rows
                end = low
        else:
            self.move(kind, slot)

    def _run(self, begin: int, end: int, keeps: bool) -> None:
        assert self.state is not None
        state = self.state
        if self.cotangent is not None:
            state, self.cotangent = barrier(state, self.cotangent)
        ready = self.cotangent

        def one(state: Leaves, number: Any) -> Any:
            operands = [*self.shared, *_row(self.stacked, number)]
            after, recorded = self.step.record(operands, state, state if ready is None else ready)
            return after, recorded if keeps else None

        def loop(state: Leaves) -> Any:
            return lax.scan(one, state, jax.numpy.arange(begin, end))

        self.state, rows = run_apart(loop, state if ready is None else ready, state)
        if keeps:
            self.recorded[end] = begin, rows

    def _reverse(self, first: int, low: int, end: int, rows: Recorded) -> None:
        """Reverses steps END-1 down to LOW. Row 0 of ROWS is that of the step FIRST."""
        shared = len(self.shared)

        def one(carried: Any, number: Any) -> Any:
            cotangent, (sums, stacked) = carried
            recorded = tree_util.tree_map(lambda leaf: lax.dynamic_index_in_dim(leaf, number - first, keepdims=False), rows)
            found, cotangent = self.step.reverse([*self.shared, *_row(self.stacked, number)], recorded, cotangent)
            sums = [None if s is None else s + own for s, own in zip(sums, found[:shared])]
            stacked = [None if s is None else lax.dynamic_update_index_in_dim(s, own, number, 0)
                       for s, own in zip(stacked, found[shared:])]
            return (cotangent, (sums, stacked)), None

        # A branch of a conditional would copy the gradients.
        (self.cotangent, self.found), _ = lax.scan(one, (self.cotangent, self.found), jax.numpy.arange(low, end),
                                                   reverse=True)


def bind(step: Step, count: int, actions: Sequence[Action]) -> Callable[..., Leaves]:
    """Returns a function of shared arrays, stacked params and a state. Its derivative follows ACTIONS."""
    first = next(k for k, action in enumerate(actions) if action.kind == "backward")

    @jax.custom_vjp
    def run(shared: Leaves, stacked: Leaves, state: Leaves) -> Leaves:
        def one(state: Leaves, number: Any) -> Any:
            return step.apply([*shared, *_row(stacked, number)], state), None
        return lax.scan(one, state, jax.numpy.arange(count))[0]

    def forward(shared: Leaves, stacked: Leaves, state: Leaves) -> Any:
        machine = Loops(step, shared, stacked)
        machine.state = state
        for action in actions[:first]:
            machine.perform(action)
        kept = [rows for _, rows in machine.recorded.values()]
        ends[:] = [(end, begin) for end, (begin, _) in machine.recorded.items()]
        return machine.state, (shared, stacked, machine.slots, kept)

    def backward(kept: Any, cotangent: Leaves) -> Any:
        shared, stacked, slots, rows = kept
        machine = Loops(step, shared, stacked)
        machine.slots = dict(slots)
        machine.recorded = {end: (begin, own) for (end, begin), own in zip(ends, rows)}
        machine.start([c if is_float(t) else None for c, t in zip(cotangent, step.out)])
        for action in actions[first:]:
            machine.perform(action)
        assert machine.cotangent is not None
        return (cotangents(machine.found[0], shared), cotangents(machine.found[1], stacked),
                cotangents(machine.cotangent, step.state))

    ends: list[tuple[int, int]] = []
    run.defvjp(forward, backward)
    return run


def fitting(costs: Costs, memory: int | None, policy: str | None) -> tuple[Schedule, list[Action]]:
    """Returns the schedule of POLICY, or the fastest that fits in MEMORY and makes no long program."""
    best = make_plan(costs, memory=memory, policy=policy)
    if policy is not None or memory is None or len(best) <= MOST_ACTIONS:
        return best, list(best)
    count, found = best.counters.steps, []
    for length in sorted({max(1, -(-count // segments)) for segments in range(1, MOST_ACTIONS // 3)}):
        periodic = make_plan(costs, policy=f"every:{length}")
        if periodic.counters.peak_bytes <= memory and len(periodic) <= MOST_ACTIONS:
            found.append(periodic)
    if found:
        best = min(found, key=lambda schedule: schedule.counters.recomputed_time)
    return best, list(best)


class CheckpointedScan:
    """What checkpoint_scan returns.

    costs     ckptc.Costs: of the last call's shapes
    schedule  ckptc.Schedule: of the last call's shapes
    """

    def __init__(self, body: Callable[..., Any], memory: int | None, policy: str | None):
        self._body, self._memory, self._policy = body, memory, policy
        self._plans: dict[Any, tuple[Schedule, list[Action]]] = {}
        self.costs: Costs | None = None
        self.schedule: Schedule | None = None

    def __call__(self, params: Any, state: Any) -> Any:
        step, count = self._step(params, state)
        _, actions = self._planned(step, count)
        out = bind(step, count, actions)(step.closed_over, tree_util.tree_leaves(params), tree_util.tree_leaves(state))
        return tree_util.tree_unflatten(step.out_tree, out)

    def plan(self, params: Any, state: Any) -> Schedule:
        """Returns the schedule for arguments of a call: arrays, or jax.ShapeDtypeStruct. Nothing runs."""
        return self._planned(*self._step(params, state))[0]

    def _step(self, params: Any, state: Any) -> tuple[Step, int]:
        types = tree_util.tree_map(struct, params)
        counts = {leaf.shape[0] if leaf.shape else None for leaf in tree_util.tree_leaves(types)}
        if len(counts) != 1 or None in counts or 0 in counts:
            raise UsageError("params: each array needs the same leading axis, with a row for each step")
        rows = tree_util.tree_map(lambda t: jax.ShapeDtypeStruct(t.shape[1:], t.dtype, weak_type=t.weak_type), types)
        step = Step(self._body, (rows, tree_util.tree_map(struct, state)))
        before, after = ([(t.shape, t.dtype) for t in leaves] for leaves in (step.state, step.out))
        if before != after or step.out_tree != tree_util.tree_structure(state):
            raise UsageError(f"body: it returns {step.out_tree} of {after}, and takes {tree_util.tree_structure(state)} of "
                             f"{before}; steps of a loop have one type")
        return step, counts.pop()

    def _planned(self, step: Step, count: int) -> tuple[Schedule, list[Action]]:
        own: StepCosts = next(own_costs([step]))
        # A loop stacks the states after its steps beside those before them.
        own = replace(own, count=count, keeps_output=False)
        self.costs = Costs((own,), output_bytes=sum(map(size_of, step.out)))
        if self.costs not in self._plans:
            schedule, actions = fitting(self.costs, self._memory, self._policy)
            if any(action.kind in ("spill", "fetch") for action in actions):
                raise UsageError(f"policy: '{schedule.policy}' moves states to disk, which JAX cannot do")
            self._plans[self.costs] = schedule, actions
        self.schedule, actions = self._plans[self.costs]
        return self.schedule, actions


def checkpoint_scan(body: Callable[..., Any], memory: int | str | None = None, *,
                    policy: str | None = None) -> CheckpointedScan:
    """Returns a function that runs BODY on each row of stacked params, and is differentiated within MEMORY bytes.

    body    body(params, state) returns the next state, of the same types. Both are pytrees
    memory  bytes, as for checkpoint_chain
    policy  a rule in the place of a budget, as in ckptc(1)

    Call the result as run(params, state), where each array of params has a row for each step. It returns the last state.
    The gradients have the bits of lax.scan.

    A call raises LimitError, which has the least bytes that work as `least`, if MEMORY is too small.
    """
    if not callable(body):
        raise UsageError(f"body: {type(body).__name__} cannot be called")
    if memory is not None and policy is not None:
        raise UsageError("memory, policy: give one of them")
    return CheckpointedScan(body, None if memory is None else parse_bytes(memory, "memory"), policy)
