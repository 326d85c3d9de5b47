"""libckptc by ctypes: the structs and the functions of ckptc.h, and nothing else of the library.

ctypes releases the GIL while a function runs.
"""
from __future__ import annotations

import ctypes as c
from typing import Any

from ._errors import raise_error
from ._files import find_file

MAX_DIMS = 32


class ErrorStruct(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 1020)]


class StepCost(c.Structure):
    _fields_ = [("count", c.c_int64), ("forward", c.c_double), ("backward", c.c_double), ("state_bytes", c.c_int64),
                ("residual_bytes", c.c_int64), ("forward_temporary_bytes", c.c_int64),
                ("record_temporary_bytes", c.c_int64), ("backward_temporary_bytes", c.c_int64),
                ("drops_input", c.c_int), ("keeps_output", c.c_int)]


class CostsStruct(c.Structure):
    _fields_ = [("steps", c.POINTER(StepCost)), ("step_count", c.c_size_t), ("fixed_bytes", c.c_int64),
                ("output_bytes", c.c_int64), ("spill_write", c.c_double), ("spill_read", c.c_double)]


class PlanOptions(c.Structure):
    _fields_ = [("allocator", c.c_void_p), ("memory", c.c_int64), ("max_checkpoints", c.c_int64),
                ("disk_bytes", c.c_int64), ("on_disk", c.c_int), ("threads", c.c_int), ("residuals", c.c_int),
                ("want_value", c.c_int), ("tile", c.c_int64), ("iterations", c.c_int64),
                ("record", c.POINTER(c.c_double)), ("of_output", c.c_char_p), ("reserved", c.c_int64 * 1)]


class CountersStruct(c.Structure):
    _fields_ = [(name, c.c_int64) for name in (
        "steps", "evaluations", "recomputed", "checkpoints", "slots", "disk_slots", "stored_bytes", "peak_bytes",
        "spill_writes", "spill_reads")] + [(name, c.c_double) for name in (
            "forward_time", "backward_time", "recomputed_time", "overhead_percent", "gap_percent")] + [
                ("executions", c.c_int64), ("reserved", c.c_int64 * 3)]  # type: ignore[assignment]


class ActionStruct(c.Structure):
    _fields_ = [("kind", c.c_int), ("unused", c.c_int), ("begin", c.c_int64), ("end", c.c_int64), ("slot", c.c_int64)]


class ArrayStruct(c.Structure):
    _fields_ = [("dtype", c.c_int), ("ndim", c.c_int), ("shape", c.c_int64 * MAX_DIMS), ("data", c.c_void_p)]


class Number(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


class ChainOptions(c.Structure):
    _fields_ = [("allocator", c.c_void_p), ("name", c.c_char_p), ("directory", c.c_char_p),
                ("numbers", c.POINTER(Number)), ("reserved", c.c_int64 * 3)]


class ResidualStruct(c.Structure):
    _fields_ = [("bytes", c.c_int64), ("step", c.c_int64), ("type", c.c_char_p), ("what", c.c_char_p)]


class Buffer(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t)]


class Cotangent(c.Structure):
    _fields_ = [("name", c.c_char_p), ("cotangent", c.POINTER(ArrayStruct))]


class RunOptions(c.Structure):
    _fields_ = [("policy", c.c_char_p), ("plan", PlanOptions), ("spill", c.c_char_p),
                ("cotangent", c.POINTER(ArrayStruct)), ("want_value", c.c_int), ("no_gradient", c.c_int),
                ("value", Buffer), ("gradient", Buffer), ("outputs", c.POINTER(c.c_char_p)),
                ("cotangents", c.POINTER(Cotangent)), ("stop", c.POINTER(c.c_int)), ("reserved", c.c_int64 * 1)]


_handle, _text, _size = c.c_void_p, c.c_char_p, c.c_size_t
_made, _error, _array = c.POINTER(c.c_void_p), c.POINTER(ErrorStruct), c.POINTER(ArrayStruct)
# Each function's result and arguments. Those whose last argument is an error return a status.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "version": (_text, []),
    "plan_costs": (c.c_int, [_made, c.POINTER(CostsStruct), _text, c.POINTER(PlanOptions), _error]),
    "plan_spec": (c.c_int, [_made, _text, _size, _text, c.POINTER(PlanOptions), _error]),
    "plan_chain": (c.c_int, [_made, _handle, _array, _text, c.POINTER(PlanOptions), _error]),
    "plan_free": (None, [_handle]),
    "plan_counters": (None, [_handle, c.POINTER(CountersStruct)]),
    "plan_policy": (_text, [_handle]),
    "plan_residuals": (_size, [_handle, c.POINTER(c.POINTER(ResidualStruct))]),
    "plan_verify": (c.c_int, [_handle, _error]),
    "action_name": (_text, [c.c_int]),
    "actions_new": (c.c_int, [_made, _handle, _error]),
    "actions_read": (_size, [_handle, c.POINTER(ActionStruct), _size]),
    "actions_free": (None, [_handle]),
    "verifier_new": (c.c_int, [_made, c.c_int64, c.c_void_p, _error]),
    "verifier_see": (c.c_int, [_handle, c.POINTER(ActionStruct), _size, _error]),
    "verifier_end": (c.c_int, [_handle, _error]),
    "verifier_free": (None, [_handle]),
    "array_bytes": (c.c_int64, [_array]),
    "chain_new": (c.c_int, [_made, _text, _size, c.POINTER(ChainOptions), _error]),
    "chain_bind": (c.c_int, [_handle, _text, _array, _error]),
    "chain_program": (c.c_int, [_handle, _text, _text, _error]),
    "chain_input": (_text, [_handle, _size]),
    "chain_output": (_text, [_handle, _size]),
    "chain_param": (_text, [_handle, _size]),
    "chain_free": (None, [_handle]),
    "run": (c.c_int, [_made, _handle, _array, c.POINTER(RunOptions), _error]),
    "grad": (c.c_int, [_made, _handle, _array, c.POINTER(RunOptions), _error]),
    "result_value": (c.c_int, [_handle, _array]),
    "result_output": (c.c_int, [_handle, _text, _array]),
    "result_gradient": (c.c_int, [_handle, _array]),
    "result_param": (c.c_int, [_handle, _text, _array]),
    "result_counters": (None, [_handle, c.POINTER(CountersStruct)]),
    "result_free": (None, [_handle]),
}


def _load() -> c.CDLL:
    loaded = c.CDLL(find_file("lib", "libckptc.so.0"))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, "ckptc_" + name)
        function.restype, function.argtypes = result, arguments
    return loaded


library = _load()
__version__: str = library.ckptc_version().decode()


def call(name: str, *arguments: Any) -> None:
    """Calls the function ckptc_NAME, whose last argument is an error. Raises the error if it fails."""
    error = ErrorStruct()
    if getattr(library, "ckptc_" + name)(*arguments, c.byref(error)):
        raise_error(error.status, error.message.decode("utf-8", "replace"))


class Owned:
    """An object of the library, which ckptc_NAME makes, and ckptc_FREE frees when Python frees this."""

    __slots__ = ("handle", "_free")

    def __init__(self, free: str, name: str, *arguments: Any):
        self.handle = c.c_void_p()
        self._free = getattr(library, "ckptc_" + free)
        call(name, c.byref(self.handle), *arguments)

    def __del__(self) -> None:
        if self.handle:
            self._free(self.handle)
            self.handle = c.c_void_p()
