"""Chains of array operations on NumPy's arrays: their values, gradients, plans and residuals."""
from __future__ import annotations

import ctypes as c
import difflib
import operator
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._arrays import Bound, bind, bind_type, show
from ._counters import Counters, read_counters
from ._errors import Error, UsageError
from ._interrupts import Runner
from ._library import (ArrayStruct, ChainOptions, Cotangent, CountersStruct, Number, Owned, PlanOptions, ResidualStruct,
                       RunOptions, call, library)
from ._reports import Plan, Report, Residual, compare_plans, read_residual
from ._schedule import Schedule
from ._sizes import parse_bytes

Array = np.ndarray[Any, Any]
# Those of `ckptc plan` without a policy.
USUAL_POLICIES = ("save-all", "nothing", "dots", "sqrt", "every:2", "every:4", "every:8", "recursive", "revolve:2",
                  "revolve:4", "revolve:8")
_MOST_IDLE = 8
_MOST_THREADS = 1024
_OPTIONS = ("outputs", "of", "policy", "policies", "memory", "max_checkpoints", "spill", "disk", "cotangent", "value",
            "input_gradient", "threads", "tile", "out", "params", "iterations")


class Gradient(tuple[Any, Any, dict[str, Array]]):
    """(value, gradient of the first input, gradients of params and other inputs by name), and the run's counters."""

    counters: Counters

    def __new__(cls, value: Array | None, input: Array | None, params: dict[str, Array],
                counters: Counters) -> Gradient:
        made = super().__new__(cls, (value, input, params))
        made.counters = counters
        return made

    @property
    def value(self) -> Array | None:
        """The chain's value, or None if it was not wanted."""
        value: Array | None = self[0]
        return value

    @property
    def input(self) -> Array | None:
        """The gradient with respect to the first input, in its shape, or None if it was not wanted."""
        gradient: Array | None = self[1]
        return gradient

    @property
    def params(self) -> dict[str, Array]:
        """The gradients with respect to params and to inputs after the first, f32 or f64 as computed."""
        return self[2]


def _threads(given: int | None) -> int:
    """Returns the number of threads: by default the cores that this process may use, as the program does."""
    if given is not None:
        count = operator.index(given) if hasattr(given, "__index__") else 0
        if not 1 <= count <= _MOST_THREADS:
            raise UsageError(f"threads: {given!r} is no whole number from 1 to {_MOST_THREADS}")
        return count
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Chain:
    """A chain of ckptc-chain(5).

    source     the chain's text; or its file: a path-like object, or a str that ends in ".ck"
    numbers    values of consts that stand where a number must, by name: n in "const n; slice stop=n"
    programs   targets of the programs that the chain declares, by name: a command, or a shared object "FILE.so"
    directory  of the paths in load(). The default is the folder of the chain's file, or the working directory

    Raises ChainError if the text is no chain; OSError if the file cannot be read. The params of a call are given by
    name, or in the mapping `params` if their names are those of options. Several threads may call one Chain at the
    same time; the GIL is released while the library computes. An interrupt stops a run before its
    next operation.
    """

    def __init__(self, source: str | os.PathLike[str], *, numbers: Mapping[str, float] | None = None,
                 programs: Mapping[str, str] | None = None, directory: str | os.PathLike[str] | None = None):
        self._name: str | None = None
        if isinstance(source, os.PathLike) or (isinstance(source, str) and source.endswith(".ck")):
            with open(source, "rb") as file:
                self._text = file.read()
            self._name = os.fspath(source)
            directory = os.path.dirname(self._name) or "." if directory is None else directory
        elif isinstance(source, str):
            self._text = source.encode()
        else:
            raise UsageError(f"a chain is a text or a path, not {type(source).__name__}")
        self._directory = None if directory is None else os.fspath(directory)
        self._programs, self._numbers = dict(programs or {}), dict(numbers or {})
        # Handles by the names that are bound in them: an array that is bound cannot be taken back.
        self._idle: dict[frozenset[str], list[Owned]] = {}
        self._lock = threading.Lock()
        self._runner = Runner()
        first = self._make()
        self._idle[frozenset()] = [first]
        self._inputs, self._outputs, self._params = (tuple(_names(first, what)) for what in
                                                     ("input", "output", "param"))

    def __repr__(self) -> str:
        text = self._name or self._text.decode()
        return f"ckptc.Chain({text if len(text) <= 60 else text[:57] + '...'!r})"

    @property
    def text(self) -> str:
        """The chain's source."""
        return self._text.decode()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its inputs. The first is `x` unless it is declared."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs, beside the last value."""
        return self._outputs

    @property
    def params(self) -> tuple[str, ...]:
        """The names of its params and consts, in the order of declaration."""
        return self._params[len(self._inputs) - 1:]

    def _make(self) -> Owned:
        options = ChainOptions(name=_encoded(self._name), directory=_encoded(self._directory))
        if self._numbers:
            options.numbers = (Number * (len(self._numbers) + 1))(
                *(Number(name.encode(), value) for name, value in self._numbers.items()))
        made = Owned("chain_free", "chain_new", self._text, len(self._text), c.byref(options))
        for name, target in self._programs.items():
            call("chain_program", made.handle, name.encode(), os.fspath(target).encode())
        return made

    @contextmanager
    def _bound(self, arrays: Mapping[str, Bound]) -> Iterator[c.c_void_p]:
        """Yields a handle of the chain to which ARRAYS are bound, and which no other thread uses."""
        key = frozenset(arrays)
        with self._lock:
            idle = self._idle.get(key)
            made = idle.pop() if idle else None
        if made is None:
            made = self._make()
        for name, array in arrays.items():
            call("chain_bind", made.handle, name.encode(), array.byref())
        yield made.handle
        with self._lock:
            if key in self._idle or len(self._idle) < _MOST_IDLE:
                self._idle.setdefault(key, []).append(made)

    def _arrays(self, x: Any, given: Mapping[str, Any] | None, named: Mapping[str, Any],
                types: bool) -> tuple[Bound | None, dict[str, Bound]]:
        """Returns the first input, or None if it is not given, and the arrays that are bound by name."""
        both = {**(given or {}), **named}
        first = self._inputs[0]
        for name in named:
            if name != first and name not in self._params:
                near = difflib.get_close_matches(name, [*self._params, *_OPTIONS], 1)
                raise UsageError(f"'{name}' is no param, const or input of the chain, and no option"
                                 + (f"; did you mean '{near[0]}'?" if near else ""))
        if first in both and first not in self._params:
            if x is not None:
                raise UsageError(f"the input '{first}' is given twice")
            x = both.pop(first)
        if x is None and not types:
            raise UsageError(f"the input '{first}' is not given")
        make = bind_type if types else bind
        return None if x is None else make(x, first), {name: make(values, name) for name, values in both.items()}

    def run(self, x: Any = None, /, *, outputs: Iterable[str] | bool | None = None, of: str | None = None,
            threads: int | None = None, tile: int = 0, out: Array | None = None,
            params: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Returns the chain's value on X.

        x        the first input: an array, or what np.asarray takes. In C order and native bytes it is not copied. It
                 may be given by its name instead
        outputs  names of outputs, or True for all: the result is then a dict with these, and the last value as "out"
        of       an output, which is the value then
        threads  the most that compute; the default is the cores. Bits do not depend on it
        tile     rows of a tile; 0: chosen
        out      an array of the value's shape and dtype, in C order: the value is written to it, and it is returned
        params, named  params, consts and inputs after the first, by name: arrays or numbers

        The result has the dtype of x, f64 for integers; i64 for indices. It is a view of the library's memory, which
        lives as long as the view. Raises ChainError, DataError, UsageError, LimitError, ProgramError.
        """
        options, wanted = RunOptions(), _wanted(outputs, self._outputs)
        options.plan.threads, options.plan.tile, options.plan.of_output = _threads(threads), tile, _encoded(of)
        if wanted:
            options.outputs = (c.c_char_p * (len(wanted) + 1))(*(name.encode() for name in wanted))
        if out is not None:
            _set_buffer(options.value, out, "out")
        input_, arrays = self._arrays(x, params, named, False)
        with self._bound(arrays) as chain:
            result = self._runner.run("run", chain, _byref(input_), options, _bytes(input_, arrays))
        value = _result(result, "value")
        assert value is not None
        value = value if out is None else _written(out, value, "out")
        if outputs is None or outputs is False:
            return value
        return {"out": value, **{name: _result(result, "output", name.encode()) for name in wanted}}

    def grad(self, x: Any = None, /, *, of: str | None = None, policy: str | None = None,
             memory: int | str | None = None, max_checkpoints: int = 0, spill: str | os.PathLike[str] | None = None,
             disk: int | str | None = None, cotangent: Any = None, value: bool = True, input_gradient: bool = True,
             threads: int | None = None, tile: int = 0, out: Array | None = None,
             params: Mapping[str, Any] | None = None, **named: Any) -> Gradient:
        """Returns the value, and the gradients of the value by X, by params and by inputs after the first.

        policy     what to keep for the backward pass, as in ckptc(1): "sqrt", "revolve:4", "dots". Bits do not depend
                   on it
        memory     bytes, or as in "8GB": the least recomputation that fits. Without policy and memory all is kept
        max_checkpoints  the most states in memory, for policies that take that
        spill      a directory: states may go to disk there. disk: at most so many bytes
        of         an output, which is differentiated instead of the last value
        cotangent  of the value, in its shape; the default is ones. A dict of several, by output, differentiates these
                   at once; "out" is the last value. There is then no one value: it is None
        value      False: the value is None, which takes less memory
        input_gradient  False: the gradient by x is None
        out        an array for the gradient by x, in C order
        x, threads, tile, params, named  as in run

        Returns a Gradient: (value, gradient by x, {name: gradient}), with the run's counters. Raises what run raises;
        LimitError has the least bytes that work as `least`.
        """
        value = value and not isinstance(cotangent, Mapping)
        options = RunOptions(policy=_encoded(policy), want_value=value, no_gradient=not input_gradient,
                             spill=None if spill is None else os.fsencode(spill))
        _set_plan(options.plan, memory, max_checkpoints, disk, spill is not None, threads, tile, False)
        options.plan.of_output = _encoded(of)
        if out is not None:
            _set_buffer(options.gradient, out, "out")
        given = self._set_cotangents(options, cotangent)
        input_, arrays = self._arrays(x, params, named, False)
        with self._bound(arrays) as chain:
            result = self._runner.run("grad", chain, _byref(input_), options, _bytes(input_, arrays))
        del given
        struct = CountersStruct()
        library.ckptc_result_counters(result.handle, c.byref(struct))
        gradient = _result(result, "gradient") if input_gradient else None
        if out is not None and gradient is not None:
            gradient = _written(out, gradient, "out")
        gradients = {name: found for name in self._params
                     if (found := _result(result, "param", name.encode())) is not None}
        return Gradient(_result(result, "value") if value else None, gradient, gradients, read_counters(struct))

    def _set_cotangents(self, options: RunOptions, cotangent: Any) -> list[Bound]:
        """Sets the cotangents of OPTIONS. Returns their arrays, which must live as long."""
        if cotangent is None:
            return []
        if not isinstance(cotangent, Mapping):
            one = bind(cotangent, "cotangent")
            options.cotangent = c.pointer(one.struct)
            return [one]
        arrays = {"" if name == "out" and name not in self._outputs else name: bind(values, f"cotangent of {name}")
                  for name, values in cotangent.items()}
        if list(arrays) == [""]:
            options.cotangent = c.pointer(arrays[""].struct)
        else:
            options.cotangents = (Cotangent * (len(arrays) + 1))(
                *(Cotangent(name.encode(), c.pointer(array.struct)) for name, array in arrays.items()))
        return list(arrays.values())

    def plan(self, x: Any = None, /, policy: str | Iterable[str] | None = None, *, memory: int | str | None = None,
             max_checkpoints: int = 0, of: str | None = None, disk: int | str | bool | None = None,
             value: bool = True, threads: int | None = None, tile: int = 0, iterations: int = 0,
             params: Mapping[str, Any] | None = None, **named: Any) -> Report[Plan]:
        """Plans the chain on an input of X's type, under one policy or several. No data are read.

        x          an array, or a type as in "f32[64,256]"; so are params. None: the chain declares its type
        policy     a policy, or several. The default is that of memory if it is given, else those of `ckptc plan`
        iterations of each `repeat while`; 0: its max
        others     as in grad: a gradient with the same options has these counters

        Returns a list of Plan, a row for each policy, which a notebook shows as the picture of `ckptc plan --plot`.
        Of several policies, budgets that are too small are left out. Raises ChainError, UsageError, LimitError.
        """
        input_, arrays = self._arrays(x, params, named, True)
        options = PlanOptions(iterations=iterations, of_output=_encoded(of))
        _set_plan(options, memory, max_checkpoints, disk, bool(disk), threads, tile, value)
        if policy is None:
            wanted: list[str | None] = [None] if memory is not None else list(USUAL_POLICIES)
        else:
            wanted = [policy] if isinstance(policy, str) else list(policy)
        with self._bound(arrays) as chain:
            def schedule(one: str | None) -> Schedule:
                made = Owned("plan_free", "plan_chain", chain, _byref(input_), _encoded(one), c.byref(options))
                return Schedule(made, pictured=lambda planned: self._draw(input_, arrays, [planned], options))
            schedules = []
            for one in wanted:
                try:
                    schedules.append(schedule(one))
                except Error as error:
                    if len(wanted) == 1 or getattr(error, "least", None) is None:
                        raise
            options.memory = 0
            save_all = next((made for made in schedules if made.policy == "save-all"), None) or schedule("save-all")
        rows = compare_plans(schedules, save_all.counters)
        names = [row.policy for row in rows]
        return Report(rows, lambda: self._draw(input_, arrays, names, options))

    def residuals(self, x: Any = None, /, policy: str | None = None, *, memory: int | str | None = None,
                  max_checkpoints: int = 0, of: str | None = None, threads: int | None = None, tile: int = 0,
                  params: Mapping[str, Any] | None = None, **named: Any) -> Report[Residual]:
        """Returns what is saved for the backward pass, as `ckptc residuals` lists it: a list of Residual.

        x, policy, memory, of, params, named  as in plan. Without policy and memory everything is kept
        """
        input_, arrays = self._arrays(x, params, named, True)
        options = PlanOptions(residuals=1, of_output=_encoded(of))
        _set_plan(options, memory, max_checkpoints, None, False, threads, tile, False)
        rows = c.POINTER(ResidualStruct)()
        with self._bound(arrays) as chain:
            plan = Owned("plan_free", "plan_chain", chain, _byref(input_), _encoded(policy), c.byref(options))
        count = library.ckptc_plan_residuals(plan.handle, c.byref(rows))
        return Report(read_residual(row.bytes, row.step, row.type.decode(), row.what.decode()) for row in rows[:count])

    def _draw(self, input_: Bound | None, arrays: Mapping[str, Bound], policies: list[str],
              options: PlanOptions) -> str:
        from ._pictures import draw_chain
        given = [f"--threads={options.threads}"]
        given += [f"--tile={options.tile}"] if options.tile else []
        given += [f"--max-checkpoints={options.max_checkpoints}"] if options.max_checkpoints else []
        given += [f"--iterations={options.iterations}"] if options.iterations else []
        given += [f"--of={options.of_output.decode()}"] if options.of_output else []
        given += [f"--param={name}={value!r}" for name, value in self._numbers.items()]
        given += [f"--program={name}={target}" for name, target in self._programs.items()]
        return draw_chain(self._text, self._directory, input_, arrays, self._inputs, policies, given)


def _set_plan(plan: PlanOptions, memory: int | str | None, max_checkpoints: int, disk: int | str | bool | None,
              on_disk: bool, threads: int | None, tile: int, value: bool) -> None:
    plan.memory = 0 if memory is None else parse_bytes(memory, "memory")
    plan.disk_bytes = 0 if disk is None or isinstance(disk, bool) else parse_bytes(disk, "disk")
    plan.max_checkpoints, plan.on_disk, plan.want_value = max_checkpoints, on_disk, value
    plan.threads, plan.tile = _threads(threads), tile


def _set_buffer(buffer: Any, out: Array, what: str) -> None:
    if not isinstance(out, np.ndarray) or not (out.flags.c_contiguous and out.flags.aligned and out.flags.writeable
                                               and out.dtype.isnative):
        raise UsageError(f"{what}: the library writes to a writable array in C order and native bytes alone")
    if out.nbytes:
        buffer.data, buffer.size = out.ctypes.data, out.nbytes


def _written(out: Array, value: Array, what: str) -> Array:
    if out.shape != value.shape or out.dtype != value.dtype:
        raise UsageError(f"{what}: it is {out.dtype}{list(out.shape)}, and the result {value.dtype}{list(value.shape)}")
    return out


def _result(result: Owned, what: str, *name: bytes) -> Array | None:
    struct = ArrayStruct()
    if getattr(library, "ckptc_result_" + what)(result.handle, *name, c.byref(struct)):
        return None
    return show(struct, result)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _byref(array: Bound | None) -> Any:
    return None if array is None else array.byref()


def _bytes(first: Bound | None, others: Mapping[str, Bound]) -> int:
    """Returns the bytes of the arrays of a call."""
    bound = [*others.values(), *([] if first is None else [first])]
    return sum(array.values.nbytes for array in bound if array.values is not None)


def _wanted(outputs: Iterable[str] | bool | None, all_: tuple[str, ...]) -> list[str]:
    if isinstance(outputs, str):
        return [outputs]
    if isinstance(outputs, bool) or outputs is None:
        return list(all_) if outputs else []
    return list(outputs)


def _names(chain: Owned, what: str) -> Iterator[str]:
    """Yields the names of inputs or outputs of CHAIN, or of what can be bound."""
    index = 0
    while (name := getattr(library, "ckptc_chain_" + what)(chain.handle, index)) is not None:
        yield name.decode()
        index += 1
