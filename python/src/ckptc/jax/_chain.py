"""checkpoint_chain: functions that JAX differentiates within a number of bytes.

A call makes one function with a derivative of its own (jax.custom_vjp). Its forward pass does the actions of the
schedule up to the first that reverses a step. Its backward pass does the others:

    forward pass     forward, save, record        keeps the slots, and what the recorded steps keep
    backward pass    backward, load, forward, record, drop, ...

XLA would merge a step's second run with its first, and keep the results instead. It would also defer gradients of
params, and keep what they need. So each run and each reversal of a step is a program by itself (see run_apart): in the
backward pass its inputs wait for the cotangent. Nothing is fused across steps, so the bits are those of jitted steps.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax import tree_util
from jax.dtypes import float0

from .._errors import UsageError
from .._schedule import Action, Costs, Schedule
from .._schedule import Step as StepCosts
from .._schedule import plan as make_plan
from .._sizes import parse_bytes
from ._steps import Leaves, Recorded, Step, barrier, is_float, size_of, struct

# By Step.key(): a program is compiled once in a process.
_known: dict[str, StepCosts] = {}


class States:
    """The current state, and those in slots."""

    def __init__(self) -> None:
        self.state: Leaves | None = None
        self.slots: dict[int, Leaves] = {}

    def move(self, kind: str, slot: int) -> None:
        """Does an action on a slot: save, load or drop."""
        if kind == "save":
            assert self.state is not None
            self.slots[slot] = self.state
        elif kind == "load":
            self.state = self.slots[slot]
        else:
            del self.slots[slot]


class Machine(States):
    """Does the actions of a schedule on arrays of JAX."""

    def __init__(self, steps: Sequence[Step], operands: Sequence[Leaves]):
        super().__init__()
        self.steps, self.operands = steps, operands
        self.recorded: dict[int, Recorded] = {}
        self.cotangent: Leaves | None = None  # None in the forward pass
        self.found: list[Leaves] = [[] for _ in steps]

    def perform(self, action: Action) -> None:
        kind, begin, end, slot = action
        if kind in ("forward", "record"):
            for number in range(begin, end):
                self._run(number, kind == "record")
        elif kind == "backward":
            self.state = None
            for number in reversed(range(begin, end)):
                self._reverse(number)
        else:
            self.move(kind, slot)

    def _run(self, number: int, keeps: bool) -> None:
        assert self.state is not None
        operands, state = self.operands[number], self.state
        if self.cotangent is not None:
            operands, state, self.cotangent = barrier(operands, state, self.cotangent)
        self.state, recorded = self.steps[number].record(operands, state, state if self.cotangent is None else self.cotangent)
        if keeps:
            self.recorded[number] = recorded

    def _reverse(self, number: int) -> None:
        assert self.cotangent is not None
        *parts, cotangent = barrier(*self.recorded.pop(number), self.cotangent)
        found = self.steps[number].reverse(self.operands[number], Recorded(*parts), cotangent)
        self.found[number], self.cotangent = barrier(*found)


def cotangents(found: Leaves, types: Sequence[Any]) -> Leaves:
    """Returns FOUND with what custom_vjp wants for leaves of TYPES without a cotangent."""
    return [np.zeros(t.shape, float0) if c is None else c for c, t in zip(found, types)]


def bind(steps: Sequence[Step], actions: Sequence[Action]) -> Callable[..., Leaves]:
    """Returns a function of the operands of all steps and of a state. Its derivative follows ACTIONS."""
    first = next(k for k, action in enumerate(actions) if action.kind == "backward")

    @jax.custom_vjp
    def run(operands: list[Leaves], state: Leaves) -> Leaves:
        for step, own in zip(steps, operands):
            state = step.apply(own, state)
        return state

    def forward(operands: list[Leaves], state: Leaves) -> Any:
        machine = Machine(steps, operands)
        machine.state = state
        for action in actions[:first]:
            machine.perform(action)
        return machine.state, (operands, machine.slots, machine.recorded)

    def backward(kept: Any, cotangent: Leaves) -> Any:
        operands, slots, recorded = kept
        machine = Machine(steps, operands)
        machine.slots, machine.recorded = dict(slots), dict(recorded)
        machine.cotangent = [c if is_float(t) else None for c, t in zip(cotangent, steps[-1].out)]
        for action in actions[first:]:
            machine.perform(action)
        assert machine.cotangent is not None
        return ([cotangents(found, step.operands) for found, step in zip(machine.found, steps)],
                cotangents(machine.cotangent, steps[0].state))

    run.defvjp(forward, backward)
    return run


def own_costs(steps: Iterable[Step]) -> Iterator[StepCosts]:
    for number, step in enumerate(steps):
        key = step.key()
        if key not in _known:
            _known[key] = step.costs(number)
        yield _known[key]


def merged(costs: Iterable[StepCosts]) -> tuple[StepCosts, ...]:
    """Returns COSTS with equal neighbours as one."""
    found: list[StepCosts] = []
    for own in costs:
        if found and replace(found[-1], count=own.count) == own:
            found[-1] = replace(own, count=found[-1].count + own.count)
        else:
            found.append(own)
    return tuple(found)


class CheckpointedChain:
    """What checkpoint_chain returns.

    costs     ckptc.Costs: of the last call's shapes
    schedule  ckptc.Schedule: of the last call's shapes
    """

    def __init__(self, functions: Sequence[Callable[..., Any]], memory: int | None, costs: Any, policy: str | None):
        self._functions, self._memory, self._given, self._policy = tuple(functions), memory, costs, policy
        self._traced: dict[Any, Step] = {}
        self._plans: dict[Any, tuple[Schedule, list[Action]]] = {}
        self.costs: Costs | None = None
        self.schedule: Schedule | None = None

    def __repr__(self) -> str:
        return f"<ckptc.jax chain of {len(self._functions)} functions: {self.schedule or 'not planned yet'}>"

    def __call__(self, *arguments: Any) -> Any:
        steps, leaves = self._steps(arguments)
        _, actions = self._planned(steps)
        operands = [[*step.closed_over, *own] for step, own in zip(steps, leaves)]
        out = bind(steps, actions)(operands, leaves[-1])
        return tree_util.tree_unflatten(steps[-1].out_tree, out)

    def plan(self, *arguments: Any) -> Schedule:
        """Returns the schedule for arguments of a call: arrays, or jax.ShapeDtypeStruct. Nothing runs."""
        return self._planned(self._steps(arguments)[0])[0]

    def _steps(self, arguments: tuple[Any, ...]) -> tuple[list[Step], list[Leaves]]:
        """Returns the traced steps. The lists are the leaves of each step's params, then those of the state."""
        count = len(self._functions)
        if len(arguments) not in (1, 2):
            raise UsageError(f"arguments: a chain takes (state) or (params, state), not {len(arguments)} arguments")
        params = [(own,) for own in arguments[0]] if len(arguments) == 2 else [()] * count
        if len(params) != count:
            raise UsageError(f"params: {len(params)} params for {count} functions; give each its own, None if it has none")
        leaves = [tree_util.tree_leaves(own) for own in (*params, arguments[-1])]
        state = tree_util.tree_map(struct, arguments[-1])
        steps: list[Step] = []
        traced: dict[Any, Step] = {}  # those of this call: another may close over other arrays
        for function, own in zip(self._functions, params):
            given = (*tree_util.tree_map(struct, own), state)
            types, tree = tree_util.tree_flatten(given)
            key = (id(function), tree, tuple((t.shape, t.dtype, t.weak_type) for t in types))
            step = self._traced.get(key) or traced.get(key)
            if step is None:
                step = Step(function, given)
                (traced if step.closed_over else self._traced)[key] = step
            steps.append(step)
            state = tree_util.tree_unflatten(steps[-1].out_tree, steps[-1].out)
        return steps, leaves

    def _planned(self, steps: list[Step]) -> tuple[Schedule, list[Action]]:
        if self._given is None:
            self.costs = Costs(merged(own_costs(steps)), output_bytes=sum(map(size_of, steps[-1].out)))
        else:
            self.costs = self._given
        if self.costs not in self._plans:
            schedule = make_plan(self.costs, memory=self._memory, policy=self._policy)
            if schedule.counters.steps != len(steps):
                raise UsageError(f"costs: {schedule.counters.steps} steps for {len(steps)} functions")
            actions = list(schedule)
            if disk := [action for action in actions if action.kind in ("spill", "fetch")]:
                raise UsageError(f"policy: '{schedule.policy}' moves states to disk ({disk[0].kind}), which JAX cannot do")
            self._plans[self.costs] = schedule, actions
        self.schedule, actions = self._plans[self.costs]
        return self.schedule, actions


def checkpoint_chain(functions: Iterable[Callable[..., Any]], memory: int | str | None = None, *, costs: Any = None,
                     policy: str | None = None) -> CheckpointedChain:
    """Returns a function that computes FUNCTIONS one after another, and is differentiated within MEMORY bytes.

    functions  f(params, state) or f(state) for each step, which returns the next state. Both are pytrees
    memory     bytes, as in "8GB", for states, residuals, cotangents and temporary buffers, from the begin of the
               forward pass to the end of the backward pass. Params and their gradients are beside them
    costs      ckptc.Costs, or steps as ckptc.plan takes them. Else XLA's analysis of each step has them
    policy     a rule in the place of a budget, as in ckptc(1): "sqrt", "revolve:4"

    Call the result as run(params, state), where params has one pytree for each function, or as run(state) if the
    functions take nothing else. Functions may close over arrays, which get their gradients too. It works under jit,
    grad, value_and_grad, vjp and vmap. Under vmap the budget is that of one example. Forward-mode derivatives are an
    error of JAX's.

    A call raises LimitError, which has the least bytes that work as `least`, if MEMORY is too small.
    """
    given = list(functions)
    for number, function in enumerate(given):
        if not callable(function):
            raise UsageError(f"functions: number {number} is {type(function).__name__}, which cannot be called")
    if not given:
        raise UsageError("functions: there are none")
    if memory is not None and policy is not None:
        raise UsageError("memory, policy: give one of them")
    if costs is not None and not isinstance(costs, Costs):
        costs = Costs(tuple(own if isinstance(own, StepCosts) else StepCosts(**own) for own in costs))
    return CheckpointedChain(given, None if memory is None else parse_bytes(memory, "memory"), costs, policy)
