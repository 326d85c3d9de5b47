"""NumPy's arrays as those of ckptc.h, and the reverse, without copies where the layout allows it."""
from __future__ import annotations

import ctypes as c
import re
from typing import Any

import numpy as np

from ._errors import UsageError
from ._library import MAX_DIMS, ArrayStruct

_NAMES = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "bool"]
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
_SHORT = ["f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"]


def _bfloat16() -> np.dtype[Any]:
    """Returns ml_dtypes' bfloat16. Without ml_dtypes it is two bytes, as np.load gives it."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype("V2")
    made: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return made


def dtype_of(number: int) -> np.dtype[Any]:
    return _bfloat16() if _NAMES[number] == "bfloat16" else np.dtype(_NAMES[number])


def number_of(dtype: np.dtype[Any], what: str) -> int:
    """Returns the number of DTYPE in ckptc.h."""
    if dtype.name not in _NUMBERS:
        raise UsageError(f"{what}: ckptc has no arrays of dtype {dtype}; convert it, as in astype('float64')")
    return _NUMBERS[dtype.name]


class Bound:
    """An array of ckptc.h, and the NumPy array that its data are in."""

    __slots__ = ("struct", "values")

    def __init__(self, struct: ArrayStruct, values: np.ndarray[Any, Any] | None):
        self.struct, self.values = struct, values

    def byref(self) -> Any:
        return c.byref(self.struct)

    @property
    def type(self) -> str:
        """As the chain language spells it: f32[2,3]."""
        extents = ",".join(str(n) for n in self.struct.shape[:self.struct.ndim])
        return f"{_SHORT[self.struct.dtype]}[{extents}]"


def _struct(number: int, shape: tuple[int, ...], data: int | None, what: str) -> ArrayStruct:
    if len(shape) > MAX_DIMS:
        raise UsageError(f"{what}: an array has at most {MAX_DIMS} dimensions, not {len(shape)}")
    struct = ArrayStruct(number, len(shape))
    struct.shape[:len(shape)] = shape
    struct.data = data
    return struct


def bind(values: Any, what: str, weak: np.dtype[Any] | None = None) -> Bound:
    """Returns VALUES, called WHAT in errors, for the library. An array in C order and native bytes is not copied.

    A Python number gets the dtype WEAK, as it would take that of the other operand in NumPy.
    """
    if weak is not None and isinstance(values, (int, float)):
        array = np.asarray(values, dtype=weak)
    else:
        array = np.asarray(values)
    number = number_of(array.dtype.newbyteorder("="), what)
    if not (array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative):
        array = np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "A"])
    return Bound(_struct(number, array.shape, array.ctypes.data, what), array)


def bind_type(values: Any, what: str) -> Bound:
    """As bind, of the type alone. A text is a type as the chain language spells it, such as "f32[64,256]"."""
    if not isinstance(values, str):
        array = values if hasattr(values, "dtype") and hasattr(values, "shape") else np.asarray(values)
        return Bound(_struct(number_of(np.dtype(array.dtype).newbyteorder("="), what), tuple(array.shape), None, what),
                     None)
    found = re.fullmatch(r"\s*(\w+)\s*\[([\d\s,]*)\]\s*", values)
    if not found or found[1] not in _SHORT:
        raise UsageError(f"{what}: '{values}' is no type; write one such as 'f32[64,256]'")
    extents = [part.strip() for part in found[2].split(",")]
    if extents == [""]:
        extents = []
    if not all(extents):
        raise UsageError(f"{what}: '{values}' leaves an extent open; each extent is a number")
    return Bound(_struct(_SHORT.index(found[1]), tuple(int(n) for n in extents), None, what), None)


def show(struct: ArrayStruct, owner: Any) -> np.ndarray[Any, Any]:
    """Returns the array of STRUCT, a view of the library's memory. OWNER lives as long as any view."""
    shape, dtype = tuple(struct.shape[:struct.ndim]), dtype_of(struct.dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory: Any = (c.c_char * size).from_address(struct.data)
    memory.owner = owner  # the views' base
    made: np.ndarray[Any, Any] = np.frombuffer(memory, dtype).reshape(shape)
    return made
