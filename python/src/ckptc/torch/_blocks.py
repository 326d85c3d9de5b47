"""The calls of a model's blocks, which are collected and run as a chain when the last one has been called.

While the forward method of a fitted model runs, stand-ins are in the places of its blocks. The call of a stand-in
returns placeholders, tensors without values. They may be arguments of the next block, and nothing else. The last call
returns tensors. The shapes of placeholders come from an exploration: the first time, the blocks also run at once, one
after another and without gradients.
"""
from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from .._errors import UsageError
from .._sizes import parse_bytes
from ._engine import CONSTANT, OUTER, STATE, State, Step, execute
from ._measure import Measured, Plan, agree, measure, plan_steps, run_twice
from ._surroundings import Autocast, Generators, buffers, swapped_buffers

_KNOWN = 64  # plans that are kept
_VALUES = (int, str, bytes, torch.dtype, torch.device, torch.layout)

_T = torch.Tensor
_SAFE = {getattr(_T, name).__get__ for name in (
    "shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_cuda", "is_cpu", "is_mps", "is_sparse",
    "is_quantized", "is_nested", "is_meta", "is_leaf", "itemsize", "nbytes", "names") if hasattr(_T, name)}
_SAFE |= {_T.size, _T.dim, _T.numel, _T.stride, _T.is_floating_point, _T.is_complex, _T.is_contiguous, _T.element_size,
          _T.__len__, _T.is_inference, _T.ndimension, _T.__hash__}


class Between(torch.Tensor):
    """A result of a block that has not run: its `block`, and the block's place in the chain and the `index` of it."""

    block: str
    place: int
    index: int
    session: Any

    @staticmethod
    def make(like: Any, block: str, place: int, index: int, session: Any) -> Between:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            Between, like.shape, strides=like.strides, dtype=like.dtype, device=like.device)
        made.block, made.place, made.index, made.session = block, place, index, session
        return made  # type: ignore[no-any-return]

    def refuse(self, name: str) -> None:
        """Raises an error: NAME is what reads the value."""
        raise UsageError(f"'{name}' reads the result of block '{self.block}' outside of the blocks, before the last "
                         "one was called: the model is no chain there; give fit blocks that run one after another")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _SAFE:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        return cls.__torch_dispatch__(function, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in tree_flatten((args, kwargs))[0]:
            if isinstance(leaf, cls):
                leaf.refuse(getattr(function, "__name__", str(function)))
        raise UsageError("a result of a block is read outside of the blocks: the model is no chain there")

    def __repr__(self, **_: Any) -> str:
        return f"<result {self.index} of block '{self.block}', which has not run>"


class Form(NamedTuple):
    """The form of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


def form_of(tensor: torch.Tensor) -> Form:
    strides = tensor.stride() if tensor.layout == torch.strided else ()
    return Form(tuple(tensor.shape), tuple(strides), tensor.dtype, tensor.device)


def key_of(leaves: Any) -> Any:
    """Returns what a plan depends on of LEAVES: forms and needs of tensors, values that may be sizes or switches."""
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return form_of(value), value.requires_grad
        return type(value), value if isinstance(value, _VALUES) else None
    return tuple(one(value) for value in leaves)


class StandIn:
    """Is in the place of a block while the model runs. It looks like the block but for calls."""

    def __init__(self, session: Session, block: nn.Module, name: str):
        self.__dict__.update(_session=session, _block=block, _name=name)

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return type(self._block)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._block, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.called(self._block, self._name, args, kwargs)

    forward = __call__


class Call(NamedTuple):
    name: str
    block: nn.Module
    leaves: list[Any]
    spec: TreeSpec
    graded: bool


class Fit:
    """What a fitted model keeps: the attribute `ckptc` of it.

    memory    bytes for what the blocks allocate beside params, their gradients and the optimiser's state. Another
              number may be assigned, as in "8GB": what was measured is planned again
    names     of the blocks, in the order in which they run
    schedule  the schedule that ran last, or None
    costs     what was measured for it
    """

    def __init__(self, memory: int | str, names: list[str], group: Any = None):
        self._memory, self.names, self._group = parse_bytes(memory, "memory"), names, group
        self._forget()

    def _forget(self) -> None:
        self._measured: dict[Any, Measured] = {}
        self._plans: dict[Any, Plan] = {}
        self._results: dict[Any, list[tuple[list[Any], TreeSpec]]] = {}
        self._last: Plan | None = None
        self._lock = threading.Lock()
        self._check = False

    def __getstate__(self) -> dict[str, Any]:
        """A copy measures again. It has no group, which cannot be copied."""
        return {"_memory": self._memory, "names": self.names, "_group": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def memory(self) -> int:
        return self._memory

    @memory.setter
    def memory(self, memory: int | str) -> None:
        self._memory = parse_bytes(memory, "memory")
        self._plans, self._last = {}, None

    @property
    def schedule(self) -> Any:
        return self._last and self._last.schedule

    @property
    def costs(self) -> Any:
        return self._last and self._last.costs

    def places(self, model: nn.Module) -> list[tuple[nn.Module, str]]:
        """Returns the module and the name in it of each block."""
        found = []
        for name in self.names:
            path, _, own = name.rpartition(".")
            found.append((model.get_submodule(path), own))
        return found

    @contextmanager
    def session(self, model: nn.Module) -> Iterator[None]:
        """Puts stand-ins into the places of MODEL's blocks."""
        places = self.places(model)
        blocks = [parent._modules[own] for parent, own in places]
        session = Session(self, self.names, blocks)
        try:
            for (parent, own), name, block in zip(places, self.names, blocks):
                parent._modules[own] = StandIn(session, block, name)  # type: ignore[assignment, arg-type]
            yield
            session.finish()
        finally:
            for (parent, own), block in zip(places, blocks):
                parent._modules[own] = block

    def plan(self, key: Any, steps: list[Step], first: State, outer: list[Any]) -> Plan:
        with self._lock:  # the replicas of DataParallel run in threads
            if key not in self._measured:
                _make_room(self._measured)
                measured = measure(steps, first, outer)
                self._measured[key] = measured if self._group is None else agree(measured, self._group)
            if key not in self._plans:
                _make_room(self._plans)
                self._plans[key] = plan_steps(self._measured[key], steps, self.memory)
            self._last = self._plans[key]
            return self._last


def _make_room(known: dict[Any, Any]) -> None:
    while len(known) >= _KNOWN:
        del known[next(iter(known))]


class Session:
    """One run of the model's forward method."""

    def __init__(self, fit: Fit, names: list[str], blocks: list[Any]):
        self.fit, self.names, self.blocks = fit, names, blocks
        self._begin()

    def _begin(self) -> None:
        self.calls: list[Call] = []
        self.results: list[tuple[list[Any], TreeSpec]] = []
        self.explored: State | None = None
        self.generators: tuple[Generators, list[Any]] | None = None
        self.key: Any = None

    def finish(self) -> None:
        if self.calls:
            raise UsageError(f"the model ran {len(self.calls)} of its {len(self.blocks)} blocks, up to "
                             f"'{self.calls[-1].name}': a chain needs all of them")

    def called(self, block: nn.Module, name: str, args: Any, kwargs: Any) -> Any:
        place = len(self.calls)
        if block is not self.blocks[place]:
            raise UsageError(f"block '{name}' was called where '{self.names[place]}' was to come: blocks run in the "
                             "order of `blocks`, each once")
        leaves, spec = tree_flatten((args, kwargs))
        self.calls.append(Call(self.names[place], block, leaves, spec, torch.is_grad_enabled()))
        for leaf in leaves:
            if isinstance(leaf, Between) and (leaf.place != place - 1 or leaf.session is not self):
                raise UsageError(f"block '{name}' reads a result of block '{leaf.block}', which is not the one before "
                                 "it: the model is no chain there; let the blocks between return it too")
        if place == 0:
            self._look_up(leaves, spec)
        if self.explored is not None:
            self._explore(block, leaves, spec)
        if place + 1 == len(self.blocks):
            return self._run()
        values, result_spec = self.results[place]
        made = [Between.make(v, name, place, k, self) if isinstance(v, Form) else v for k, v in enumerate(values)]
        return tree_unflatten(made, result_spec)

    def _modes(self, tensors: Any) -> Any:
        flags = [(part.training, tuple(p.requires_grad for p in part._parameters.values() if p is not None))
                 for block in self.blocks for part in block.modules()]
        return tuple(flags), Autocast(tensors).key()

    def _look_up(self, leaves: list[Any], spec: TreeSpec) -> None:
        """Finds the forms of the blocks' results, or begins to explore them."""
        tensors = [v for v in leaves if isinstance(v, torch.Tensor)]
        tensors += [p for block in self.blocks for p in block.parameters()]
        self.modes = self._modes(tensors)
        self.key = key_of(leaves), repr(spec), self.modes
        known = self.fit._results.get(self.key)
        if known is None:
            self.explored = leaves
            generators = Generators(tensors)
            self.generators = generators, generators.read()
        else:
            self.results = known

    def _explore(self, block: nn.Module, leaves: list[Any], spec: TreeSpec) -> None:
        before, self.explored = self.explored, None
        assert before is not None
        real = [before[v.index] if isinstance(v, Between) else v for v in leaves]
        real = [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in real]  # it may write over them
        del before
        with torch.no_grad(), swapped_buffers(block, buffers(block)):
            args, kwargs = tree_unflatten(real, spec)
            del real
            after, result_spec = tree_flatten(block(*args, **kwargs))
        self.results.append(([form_of(v) if isinstance(v, torch.Tensor) else v for v in after], result_spec))
        self.explored = after

    def _run(self) -> Any:
        """Runs the chain of the calls."""
        if self.explored is not None:
            assert self.generators is not None
            generators, states = self.generators
            generators.write(states)
            _make_room(self.fit._results)
            self.fit._results[self.key] = self.results
        calls, results, modes = self.calls, self.results, self.modes
        self._begin()
        steps, first, outer = chain_of(calls, results)
        sources = tuple((repr(step.spec), step.graded, tuple((place, key if place != CONSTANT else key_of([key]))
                                                for place, key in step.sources)) for step in steps)
        with torch.enable_grad():
            return self._execute((key_of(first), key_of(outer), sources, modes), steps, first, outer)

    def _execute(self, key: Any, steps: list[Step], first: State, outer: list[Any]) -> Any:
        plan = self.fit.plan(key, steps, first, outer)
        if self.fit._check:
            return execute(steps, run_twice(plan), first, outer, True)
        return execute(steps, plan, first, outer)


def chain_of(calls: list[Call], results: list[tuple[list[Any], TreeSpec]]) -> tuple[list[Step], State, list[Any]]:
    """Returns the steps of CALLS, the state before the first, and the outer arguments."""
    outer: list[Any] = []
    numbers: dict[int, int] = {}

    def number(tensor: Any) -> int:
        if id(tensor) not in numbers:
            numbers[id(tensor)] = len(outer)
            outer.append(tensor)
        return numbers[id(tensor)]

    later = [[_source(leaf, number) for leaf in call.leaves] for call in calls[1:]]
    first: State = []
    sources = []
    for leaf in calls[0].leaves:
        if isinstance(leaf, torch.Tensor) and id(leaf) not in numbers:
            sources.append((STATE, len(first)))
            first.append(leaf)
        else:
            sources.append(_source(leaf, number))
    all_sources = [sources, *later]
    steps = []
    for i, call in enumerate(calls):
        final = i + 1 == len(calls)
        live = None if final else frozenset(k for place, k in all_sources[i + 1] if place == STATE)
        constants = {} if final else {k: v for k, v in enumerate(results[i][0]) if not isinstance(v, Form)}
        used = sorted({k for place, k in all_sources[i] if place == OUTER})
        steps.append(Step(call.name, call.block, all_sources[i], call.spec, used, live, constants,
                          call.graded))
    return steps, first, outer


def _source(leaf: Any, number: Any) -> tuple[int, Any]:
    if isinstance(leaf, Between):
        return STATE, leaf.index
    if isinstance(leaf, torch.Tensor):
        return OUTER, number(leaf)
    return CONSTANT, leaf
