"""Steps of a chain as programs of JAX: what they record, and what that costs.

A step is traced once, to a jaxpr of its operands and its state. Operands are the leaves of its params, and the arrays
that its function closes over, tracers too. A second jaxpr records the step: it returns the state after it, and what
jax.vjp keeps. Each leaf of that is one of these:

    operand, state, out   an operand, a leaf of the state before, or of the state after: it takes no bytes of its own
    literal               a number
    own                   an array that recording makes

The costs come from these jaxprs and from XLA's analysis of the two compiled programs. They need no run:

    state_bytes         the leaves of the state before the step
    residual_bytes      own arrays, and with keeps_output the state after the step
    *_temporary_bytes   XLA's temporary buffers. A forward action records, so it has the own arrays too
    forward, backward   floating-point operations of the program, and BYTE_COST for each byte that it reads or writes
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import tree_util
from jax.dtypes import float0
from jax.extend import core

from .._errors import UsageError
from .._schedule import Step as StepCosts

Leaves = list[Any]
BYTE_COST = 8.0  # in floating-point operations: a balance between that of CPUs and of accelerators
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Place(NamedTuple):
    """Where a leaf of what jax.vjp keeps comes from. KIND is a word of the table above."""

    kind: str
    index: int
    value: Any = None


def struct(leaf: Any) -> jax.ShapeDtypeStruct:
    """Returns the type of LEAF, which is an array, a number or a type."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf
    aval = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def type_of(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def is_float(leaf: Any) -> bool:
    """True if LEAF has a cotangent."""
    return bool(jax.numpy.issubdtype(leaf.dtype, np.inexact))


def size_of(leaf: Any) -> int:
    """Returns the bytes of an array or of a type."""
    dtype = leaf.dtype
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        keys = jax.eval_shape(jax.random.key_data, type_of(leaf))
        return math.prod(keys.shape) * keys.dtype.itemsize
    return math.prod(leaf.shape) * int(dtype.itemsize)


def barrier(*lists: Sequence[Any]) -> list[Leaves]:
    """Returns LISTS of arrays: XLA computes nothing that reads them before it has all of them. A None stays."""
    flat = [leaf for own in lists for leaf in own if leaf is not None]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in flat):
        flat = list(jax.lax.optimization_barrier(tuple(flat)))
    values = iter(flat)
    return [[None if leaf is None else next(values) for leaf in own] for own in lists]


def _zeros(leaf: Any) -> Any:
    return jax.numpy.zeros(leaf.shape, leaf.dtype)


def _always_true(leaves: Sequence[Any]) -> Any:
    """Returns a condition that is true, and that XLA cannot know before it has LEAVES. None if there is no number."""
    for leaf in leaves:
        if leaf is None or math.prod(leaf.shape) == 0 or jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            continue
        number = jax.lax.real(leaf) if jax.numpy.iscomplexobj(leaf) else leaf
        first = jax.lax.slice(number, [0] * number.ndim, [1] * number.ndim).reshape(()).astype(np.float32)
        return jax.lax.population_count(jax.lax.bitcast_convert_type(first, np.uint32)) < 64  # of 32 bits
    return None


def run_apart(function: Callable[..., Any], ready: Sequence[Any], *arguments: Any) -> Any:
    """Returns function(*ARGUMENTS), which XLA computes when it has READY, and merges with nothing outside.

    On CPUs, XLA drops barriers before it merges equal operations. There the function is a branch of a conditional.
    """
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in tree_util.tree_leaves(arguments))
    condition = _always_true(ready) if traced and jax.default_backend() == "cpu" else None
    if condition is None:
        return function(*arguments)
    types = jax.eval_shape(function, *arguments)
    return jax.lax.cond(condition, function, lambda *_: tree_util.tree_map(_zeros, types), *arguments)


class Recorded(NamedTuple):
    """What a recorded step keeps: own arrays, and those leaves of the states around it that its reversal reads."""

    own: Leaves
    state: Leaves
    out: Leaves


class Step:
    """A step, traced for operands and a state of some types.

    state, out  types of the leaves before and after it
    out_tree    the pytree of the state after it
    """

    def __init__(self, function: Callable[..., Any], given: tuple[Any, ...]):
        """FUNCTION is called with GIVEN: (params, state) or (state,), pytrees of types."""
        self.function, self.given = function, given
        # JAX would remember what FUNCTION closed over when it was traced before: it is traced as a new one.
        closed, out = jax.make_jaxpr(lambda *arguments: function(*arguments), return_shape=True)(*given)
        self.closed_over: Leaves = list(closed.consts)
        self._forward = closed.jaxpr
        types = [type_of(var.aval) for var in (*closed.jaxpr.constvars, *closed.jaxpr.invars)]
        self.state = types[len(types) - len(tree_util.tree_leaves(given[-1])):]
        self.operands = types[:len(types) - len(self.state)]
        self.out = [type_of(var.aval) for var in closed.jaxpr.outvars]
        self.out_tree = tree_util.tree_structure(out)
        self._trace_record()
        self._applying = jax.jit(self.forward)
        self._recording, self._reversing = jax.jit(self._run_record), jax.jit(self._run_reverse)

    def _trace_record(self) -> None:
        count, trees = len(self.operands), []

        def both(operands: Leaves, state: Leaves) -> tuple[Leaves, Leaves]:
            after, reverse = jax.vjp(self.forward, operands, state)
            leaves, tree = tree_util.tree_flatten(reverse)
            trees.append(tree)
            return after, leaves

        closed = jax.make_jaxpr(both)(self.operands, self.state)
        self._tree = trees[0]
        jaxpr, after = closed.jaxpr, len(self.out)
        places = {var: Place("operand" if k < count else "state", k if k < count else k - count)
                  for k, var in enumerate(jaxpr.invars)}
        for k, var in enumerate(jaxpr.outvars[:after]):
            if not isinstance(var, core.Literal):
                places.setdefault(var, Place("out", k))
        places.update((var, Place("literal", 0, value)) for var, value in zip(jaxpr.constvars, closed.consts))
        own: list[int] = []
        self._places: list[Place] = []
        for k, var in enumerate(jaxpr.outvars[after:]):
            if isinstance(var, core.Literal):
                self._places.append(Place("literal", 0, var.val))
                continue
            if var not in places:
                places[var] = Place("own", len(own))
                own.append(after + k)
            self._places.append(places[var])
        self._record, self._own = closed, own
        self.own = [type_of(jaxpr.outvars[k].aval) for k in own]
        self.reads_state = sorted({p.index for p in self._places if p.kind == "state"})
        self.reads_out = sorted({p.index for p in self._places if p.kind == "out"})

    def _run_record(self, operands: Leaves, state: Leaves) -> list[Leaves]:
        found = jax.core.eval_jaxpr(self._record.jaxpr, self._record.consts, *operands, *state)
        return barrier(found[:len(self.out)], [found[k] for k in self._own])

    def apply(self, operands: Leaves, state: Leaves) -> Leaves:
        """Returns the leaves of the state after the step, where nothing is differentiated."""
        found: Leaves = self._applying(operands, state)
        return found

    def forward(self, operands: Sequence[Any], state: Sequence[Any]) -> Leaves:
        """Returns the leaves of the state after the step."""
        consts = len(self._forward.constvars)
        return jax.core.eval_jaxpr(self._forward, list(operands[:consts]), *operands[consts:], *state)

    def record(self, operands: Leaves, state: Leaves, ready: Leaves) -> tuple[Leaves, Recorded]:
        """Returns the leaves of the state after the step, and what reverse() needs. The step runs when READY is there.

        All runs of a step compute the same arrays, also if nobody keeps them: so their bits are the same.
        """
        out, own = run_apart(self._recording, ready, operands, state)
        return out, Recorded(own, [state[k] for k in self.reads_state], [out[k] for k in self.reads_out])

    def reverse(self, operands: Leaves, recorded: Recorded, cotangent: Leaves) -> tuple[Leaves, Leaves]:
        """Returns the cotangents of the operands and of the state before. They are None where a leaf has none."""
        found: tuple[Leaves, Leaves] = run_apart(self._reversing, cotangent, operands, recorded, cotangent)
        return found

    def _run_reverse(self, operands: Leaves, recorded: Recorded, cotangent: Leaves) -> tuple[Leaves, Leaves]:
        sources = {"operand": dict(enumerate(operands)), "own": dict(enumerate(recorded.own)),
                   "state": dict(zip(self.reads_state, recorded.state)), "out": dict(zip(self.reads_out, recorded.out))}
        leaves = [p.value if p.kind == "literal" else sources[p.kind][p.index] for p in self._places]
        given = [np.zeros(t.shape, float0) if c is None else c for c, t in zip(cotangent, self.out)]
        by_operands, by_state = tree_util.tree_unflatten(self._tree, leaves)(given)

        def known(found: Leaves, types: Leaves) -> Leaves:
            return [c if is_float(t) else None for c, t in zip(found, types)]
        return known(by_operands, self.operands), known(by_state, self.state)

    def key(self) -> str:
        """Returns a text that is the same for steps of equal costs."""
        return _ADDRESS.sub("", f"{self._record.jaxpr} {self._tree} {jax.default_backend()}")

    def costs(self, number: int) -> StepCosts:
        """Returns the costs of the step, whose NUMBER is for errors."""
        recorded = Recorded(self.own, [self.state[k] for k in self.reads_state], [self.out[k] for k in self.reads_out])
        cotangent = [t if is_float(t) else None for t in self.out]
        try:
            recording = _compiled(self._recording, self.operands, self.state)
            reversing = _compiled(self._reversing, self.operands, recorded, cotangent)
        except NameError as error:  # an axis of shard_map or pmap
            raise UsageError(f"step {number} cannot be compiled by itself: {error}; give the costs as costs=") from None
        own, keeps_output = sum(map(size_of, self.own)), bool(self.reads_out)
        after = sum(map(size_of, self.out)) if keeps_output else 0
        return StepCosts(
            forward=recording[0], backward=reversing[0], state_bytes=sum(map(size_of, self.state)),
            residual_bytes=own + after, forward_temporary_bytes=recording[1] + own,
            record_temporary_bytes=recording[1], backward_temporary_bytes=reversing[1],
            keeps_input=bool(self.reads_state), keeps_output=keeps_output)


def _compiled(function: Any, *types: Any) -> tuple[float, int]:
    """Returns the cost and the temporary bytes of a program."""
    made = function.lower(*types).compile()
    found = made.cost_analysis() or {}
    if isinstance(found, (list, tuple)):
        found = found[0] if found else {}
    cost = max(0.0, found.get("flops", 0.0)) + BYTE_COST * max(0.0, found.get("bytes accessed", 0.0))
    memory = made.memory_analysis()
    return max(1.0, cost), int(memory.temp_size_in_bytes) if memory is not None else 0
