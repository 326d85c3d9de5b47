"""The execution of a schedule on the steps of a chain, as part of torch's autograd.

state     what flows between two steps: the flat list of a step's results, without those that nobody reads
outer     arguments of steps that are no results of steps, such as a mask. They exist all the time

Each step has a node in the graph of autograd. A node hands an empty tensor, the token, to the next one, so that the
nodes run one after another. The first backward calls of a run perform the schedule as far as their own step. So a
gradient of a param reaches its hooks, DistributedDataParallel's too, as soon as in plain autograd, and is added in
plain autograd's order.
"""
from __future__ import annotations

from collections.abc import Callable
import threading
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from .._errors import CheckError, UsageError
from ._surroundings import Autocast, Generators, buffers, params, same_states, swapped_buffers, without_hooks

State = list[Any]

STATE, OUTER, CONSTANT = range(3)


class Step(NamedTuple):
    """A call of a block.

    sources   of each flat argument: (STATE, its index there), (OUTER, its index there) or (CONSTANT, a value)
    spec      of (args, kwargs)
    outer     indices of the outer arguments that it reads
    live      indices of its results that the next step reads; None: all
    constants results that are no tensors, as the call promised them: by index
    graded    False if it was called without gradients
    """

    name: str
    module: Any
    sources: list[tuple[int, Any]]
    spec: TreeSpec
    outer: list[int]
    live: frozenset[int] | None
    constants: dict[int, Any]
    graded: bool

    def call(self, state: State, outer: dict[int, Any]) -> tuple[State, TreeSpec]:
        values = (state, outer)
        leaves = [key if place == CONSTANT else values[place][key] for place, key in self.sources]
        args, kwargs = tree_unflatten(leaves, self.spec)
        del leaves
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.graded):
            leaves, spec = tree_flatten(self.module(*args, **kwargs))
        for index, value in self.constants.items():
            if index >= len(leaves) or not _equal(leaves[index], value):
                raise UsageError(f"block '{self.name}' returned {leaves[index]!r} and not {value!r}, as it did for "
                                 "the same shapes: a number that changes must be a tensor")
        if self.live is not None:
            leaves = [leaf if index in self.live else None for index, leaf in enumerate(leaves)]
        return leaves, spec


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b))


class Facts(NamedTuple):
    """What measuring found of a step.

    writes    it writes over its arguments, and so gets copies
    graded    without gradients it computes other bits, and so always runs with them
    buffers   names of the buffers that it changes
    captured  leaves with gradients that are neither arguments nor params
    flags     of its results, True for those that need a gradient
    """

    writes: bool
    graded: bool
    buffers: frozenset[tuple[str, str]]
    captured: list[torch.Tensor]
    flags: list[bool]


class Enter(torch.autograd.Function):
    """Begins a step's graph. A leaf would hold its tensor even where the backward pass does not read it."""

    @staticmethod
    def forward(ctx: Any, root: Any, *tensors: torch.Tensor) -> Any:
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return None, *cotangents


_ROOT = torch.zeros((), requires_grad=True)  # lets Enter's results need gradients


class Record(NamedTuple):
    """What the reversal of a step needs: the ends of its graph, by index in a state or among outer arguments."""

    results: dict[int, GradientEdge]
    state: dict[int, GradientEdge]
    outer: dict[int, GradientEdge]
    params: list[torch.Tensor]


def needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _copied(values: Any) -> Any:
    clone = lambda v: v.clone() if isinstance(v, torch.Tensor) else v
    return {k: clone(v) for k, v in values.items()} if isinstance(values, dict) else [clone(v) for v in values]


def forward(step: Step, facts: Facts, state: State, outer: dict[int, Any], flags: list[bool]) -> tuple[State, TreeSpec]:
    if facts.graded:
        after, spec, _ = record(step, facts, state, outer, flags, [])
        return after, spec
    with torch.no_grad():
        if facts.writes:
            state, outer = _copied(state), _copied(outer)
        after, spec = step.call(state, outer)
        # an output may be an input that has a graph
        return [v.detach() if needs_gradient(v) else v for v in after], spec


def record(step: Step, facts: Facts, state: State, outer: dict[int, Any], flags: list[bool],
           wanted: list[torch.Tensor]) -> tuple[State, TreeSpec, Record]:
    """Runs STEP with gradients. FLAGS are those of STATE, WANTED the params that get gradients."""
    with torch.enable_grad():
        inner = [k for k, flag in enumerate(flags) if flag]
        outside = [k for k, value in outer.items() if needs_gradient(value)]
        own, others = list(state), dict(outer)
        del state, outer
        ends: list[GradientEdge] = []
        if inner or outside:
            # detached: what made them may have read the step's params, too
            entered = Enter.apply(_ROOT, *(own[k].detach() for k in inner), *(others[k].detach() for k in outside))
            ends = [get_gradient_edge(t) for t in entered]
            own_entered, others_entered = entered[:len(inner)], entered[len(inner):]
            for k, t in zip(inner, own_entered):
                own[k] = t
            for k, t in zip(outside, others_entered):
                others[k] = t
            del entered, own_entered, others_entered
        if facts.writes:
            own, others = _copied(own), _copied(others)
        after, spec = step.call(own, others)
        results = {k: get_gradient_edge(v) for k, v in enumerate(after) if needs_gradient(v)}
        after = [v.detach() if needs_gradient(v) else v for v in after]
    made = Record(results, dict(zip(inner, ends)), dict(zip(outside, ends[len(inner):])), wanted)
    return after, spec, made


def reverse(made: Record, cotangents: dict[int, Any]) -> tuple[dict[int, Any], dict[int, Any], list[Any]]:
    """Returns the cotangents of a step's state and of its outer arguments, and the gradients of its params."""
    given = [(edge, cotangents[k]) for k, edge in made.results.items() if cotangents.get(k) is not None]
    inputs = [*made.state.values(), *made.outer.values(), *made.params]
    if not given or not inputs:
        return {}, {}, [None] * len(made.params)
    with without_hooks(made.params):
        found = torch.autograd.grad([edge for edge, _ in given], inputs, [cotangent for _, cotangent in given],
                                    allow_unused=True)
    first, second = len(made.state), len(made.state) + len(made.outer)
    return (dict(zip(made.state, found[:first])), dict(zip(made.outer, found[first:second])), list(found[second:]))


def digest(state: State) -> list[Any]:
    """Returns a number for the bits of each tensor of STATE, on its device."""
    return [_digest(v) if isinstance(v, torch.Tensor) else v for v in state]


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _digest(tensor: torch.Tensor) -> Any:
    total, first = torch.zeros((), dtype=torch.int64, device=tensor.device), 1
    for part in as_bytes(tensor).split(1 << 20):  # the numbers take 16 times as many bytes
        places = torch.arange(first, first + part.numel(), device=part.device)
        total += ((part.to(torch.int64) + 1) * (places * 0x5851F42D4C957F2D | 1)).sum()
        first += part.numel()
    return tuple(tensor.shape), tensor.dtype, total


def _same_digest(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == 3:
        return a[:2] == b[:2] and bool(torch.equal(a[2], b[2]))
    return _equal(a, b)


def _versions(values: Any) -> list[int]:
    """Returns how often each tensor of VALUES was written."""
    return [v._version for v in values if isinstance(v, torch.Tensor) and not v.is_inference()]


class Run:
    """One forward and one backward pass. It ends with the graph that the forward pass made."""

    def __init__(self, steps: list[Step], plan: Any, first: State, outer: list[Any], check: bool = False):
        self.steps, self.plan, self.outer, self.check = steps, plan, outer, check
        tensors = [t for t in (*first, *outer) if isinstance(t, torch.Tensor)]
        self.params = [[*params(step.module), *facts.captured] for step, facts in zip(steps, plan.facts)]
        tensors += [p for own in self.params for p in own]
        self.generators, self.autocast = Generators(tensors), Autocast(tensors)
        self.ran: set[int] = set()
        self.drawn: dict[int, list[Any]] = {}
        self.snapshots: dict[int, dict[tuple[str, str], torch.Tensor]] = {}
        self.versions: dict[int, list[int]] = {}
        self.digests: dict[int, list[Any]] = {}
        self.state: State | None = list(first)
        self.spec: TreeSpec | None = None
        self.outer_versions = _versions(outer)
        self.slots: dict[int, tuple[State, list[int]]] = {}  # with the versions of their tensors
        self.records: dict[int, Record] = {}
        self.cotangents: dict[int, Any] = {}
        self.cursor, self.next = 0, -1
        self.ended: str | None = None

    # the forward pass

    def sweep(self) -> tuple[State, TreeSpec]:
        """Runs the schedule up to its first reversal. Returns the last state."""
        for i in range(self.plan.start):
            self._run(i, False)
        self._advance()
        state, self.state = self.state, None
        assert state is not None and self.spec is not None
        return state, self.spec

    def _advance(self) -> None:
        """Performs the actions before the next reversal."""
        actions = self.plan.actions
        while self.cursor < len(actions) and actions[self.cursor].kind != "backward":
            kind, begin, end, slot = actions[self.cursor]
            self.cursor += 1
            if kind in ("forward", "record"):
                for i in range(begin, end):
                    self._run(i, kind == "record")
            elif kind == "save":
                assert self.state is not None
                self.slots[slot] = self.state, _versions(self.state)
            elif kind == "load":
                self.state, versions = self.slots[slot]
                if versions != _versions(self.state):
                    _refuse_write("an argument", self.steps[begin].name)
            elif kind == "drop":
                del self.slots[slot]

    def _run(self, i: int, recorded: bool) -> None:
        """Makes state I + 1 the current one."""
        state, self.state = self.state, None
        assert state is not None
        with self.autocast.restored():
            if i in self.ran:
                self._again(i, state, recorded)
            else:
                self._once(i, state, recorded)
        if self.check:
            found = digest(self.state)  # type: ignore[arg-type]
            known = self.digests.setdefault(i, found)
            for k, (a, b) in enumerate(zip(known, found)):
                if not _same_digest(a, b):
                    which = "" if len(found) == 1 else f" number {k}"
                    raise CheckError(f"block '{self.steps[i].name}' computes another result{which} when it runs again: "
                                     "it depends on something that changes between its runs")

    def _once(self, i: int, state: State, recorded: bool) -> None:
        step, repeats = self.steps[i], i in self.plan.repeated
        if repeats and (changing := self.plan.facts[i].buffers):
            self.snapshots[i] = {name: value.clone() for name, value in buffers(step.module).items()
                                 if name in changing}
        before = self.generators.read() if repeats else []
        self._perform(i, state, recorded)
        if repeats:
            if not same_states(before, self.generators.read()):
                self.drawn[i] = before
            self.versions[i] = _versions(self.params[i])
        self.ran.add(i)

    def _again(self, i: int, state: State, recorded: bool) -> None:
        step = self.steps[i]
        if self.versions[i] != _versions(self.params[i]):
            _refuse_write("a param", step.name)
        if step.outer and self.outer_versions != _versions(self.outer):
            _refuse_write("an argument", step.name)
        now = self.generators.read() if i in self.drawn else []
        outer_again, _thread.again = recomputing(), True
        try:
            if now:
                self.generators.write(self.drawn[i])
            with swapped_buffers(step.module, self.snapshots.get(i)):
                self._perform(i, state, recorded)
        finally:
            _thread.again = outer_again
            if now:
                self.generators.write(now)

    def _perform(self, i: int, state: State, recorded: bool) -> None:
        step, facts, flags = self.steps[i], self.plan.facts[i], self.plan.flags[i]
        outer = {k: self.outer[k] for k in step.outer}
        if recorded:
            self.state, self.spec, made = record(step, facts, state, outer, flags, self.params[i])
            if [k in made.results for k in range(len(self.state))] != facts.flags:
                raise UsageError(f"block '{step.name}' returned other results that need gradients than when it was "
                                 "measured, for arguments of the same shapes")
            self.records[i] = made
        else:
            self.state, self.spec = forward(step, facts, state, outer, flags)

    # the backward pass

    def reverse(self, i: int, cotangents: dict[int, Any] | None) -> tuple[dict[int, Any], dict[int, Any], list[Any]]:
        """Reverses step I, which comes after step I + 1. COTANGENTS are given for the last step."""
        if self.ended:
            raise RuntimeError(self.ended)
        if torch.is_grad_enabled():
            raise RuntimeError("create_graph=True is not possible for blocks that ckptc.torch.fit runs; "
                               "differentiate the model that was given to fit")
        try:
            if cotangents is not None:
                self.cotangents = cotangents
            self._advance()
            action = self.plan.actions[self.cursor]
            self.state = None
            assert action.begin <= i < action.end
            made = self.records.pop(i)
            given, self.cotangents = self.cotangents, {}
            self.cotangents, outer, by_params = reverse(made, given)
            if i == action.begin:
                self.cursor += 1
            found = self.cotangents
            if i == self.plan.start:
                self.end("the backward pass of these blocks ran already, and has freed what it needs: "
                         "retain_graph=True is not possible; run the forward pass again")
            return found, outer, by_params
        except BaseException:
            self.end("the backward pass of these blocks ended by an exception; run the forward pass again")
            raise

    def end(self, reason: str) -> None:
        self.ended = reason
        self.state, self.slots, self.records, self.cotangents = None, {}, {}, {}
        self.snapshots, self.drawn = {}, {}


def _refuse_write(what: str, block: str) -> None:
    raise RuntimeError(f"{what} of block '{block}' was written after the forward pass: the backward pass computes the "
                       "block again, and needs it as it was")


_thread = threading.local()


def recomputing() -> bool:
    """Returns True while a block runs again, as a forward hook may want to know."""
    return getattr(_thread, "again", False)


class Node(torch.autograd.Function):
    """A step in the graph. Its inputs are the state or the token before it, outer arguments, and its params."""

    @staticmethod
    def forward(ctx: Any, run: Run, i: int, results: Any, inputs: Any, *tensors: torch.Tensor) -> Any:
        """RESULTS are the last step's by index; of other steps, the device of the token.

        INPUTS are the indices of the state's tensors, those of outer arguments, and the cotangent of the token before.
        """
        ctx.run, ctx.i, ctx.inputs = run, i, inputs
        ctx.set_materialize_grads(False)
        ctx.results = list(results) if isinstance(results, dict) else None
        return tuple(results.values()) if isinstance(results, dict) else torch.empty(0, device=results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        given = None if ctx.results is None else dict(zip(ctx.results, cotangents))
        del cotangents
        state, outer, by_params = ctx.run.reverse(ctx.i, given)
        inner, outside, token = ctx.inputs
        first = [state.get(k) for k in inner] if token is None else [token]
        return (None, None, None, None, *first, *(outer.get(k) for k in outside), *by_params)


def execute(steps: list[Step], plan: Any, first: State, outer: list[Any], check: bool = False) -> Any:
    """Runs STEPS on the state FIRST by PLAN. Returns the last step's results, which are in the graph."""
    run = Run(steps, plan, first, outer, check)
    last, spec = run.sweep()
    ids: dict[int, int] = {}  # a tensor that is twice in the results is once in the graph
    for k, value in enumerate(last):
        if isinstance(value, torch.Tensor) and plan.flags[-1][k]:
            ids.setdefault(id(value), k)
    if not ids:
        return tree_unflatten(last, spec)
    inner = [k for k, flag in enumerate(plan.flags[plan.start]) if flag]
    inputs = [first[k] for k in inner] if plan.start == 0 else []
    del first
    token, results = None, {k: last[k] for k in ids.values()}
    device = next(iter(results.values())).device
    for i in range(plan.start, len(steps)):
        outside = [k for k in steps[i].outer if needs_gradient(outer[k])]
        final = i + 1 == len(steps)
        made = results if final else device
        cotangent = None if i == plan.start else torch.empty(0, device=device)
        token = Node.apply(run, i, made, (inner, outside, cotangent), *inputs, *(outer[k] for k in outside),
                           *run.params[i])
        inputs = [token]
    found = dict(zip(ids, token))
    return tree_unflatten([found.get(id(value), value) for value in last], spec)


