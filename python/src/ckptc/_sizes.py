"""Numbers of bytes as users write them."""
from __future__ import annotations

import operator
import re
from typing import Any

from ._errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_bytes(value: Any, what: str) -> int:
    """Returns VALUE in bytes: an integer, or a text such as "8GB", "512MiB", "2G" or "1.5 GiB". It is at least 1."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?)?b?\s*", value, re.IGNORECASE)
        if not found:
            raise UsageError(f"{what}: '{value}' is no number of bytes; write an integer, or as in '8GB' or '512MiB'")
        whole, _, fraction = found[1].partition(".")
        unit = _UNITS[(found[2] or "").lower()]
        # exact: a fraction of a byte is dropped
        size: int = int(whole or 0) * unit + int(fraction or 0) * unit // 10**len(fraction)
    else:
        try:
            size = int(operator.index(value))
        except TypeError:
            if not (isinstance(value, float) and value.is_integer()):
                raise UsageError(f"{what}: {value!r} is no number of bytes; write an integer, or as in '8GB'") from None
            size = int(value)
    if not 0 < size < 2**63:
        raise UsageError(f"{what}: {value!r} is no number of bytes from 1 to 2^63 - 1")
    return size
