"""The exceptions of ckptc: one class for each exit status of the program."""
from __future__ import annotations

import re
from typing import NamedTuple, NoReturn


class Place(NamedTuple):
    """Where an error is: a file, with a line and a column from 1, or with a byte offset. What is unknown is None."""

    file: str
    line: int | None = None
    column: int | None = None
    offset: int | None = None


class Error(Exception):
    """What ckptc reports.

    status   int: the exit status that the program has for it
    message  str: what is wrong, without the place and the hint
    hint     str or None: what to do
    place    Place or None

    str(error) is all of it in a line.
    """

    status = 1

    def __init__(self, text: str):
        super().__init__(text)
        self.place, rest = _split_place(text)
        self.message, self.hint = _split_hint(rest)


class CheckError(Error):
    """Actions are no reversal of the chain."""

    status = 1


class UsageError(Error, ValueError):
    """A wrong policy, option or argument."""

    status = 2


class ChainError(Error, ValueError):
    """A wrong chain: its syntax, names or types."""

    status = 3


class DataError(Error, ValueError):
    """Wrong data: costs, arrays or files."""

    status = 4


class SystemFailure(Error):
    """The system failed to read or write."""

    status = 5


class LimitError(Error, MemoryError):
    """Out of memory, too small a budget, or beyond a limit.

    least   int or None: of a budget, the least bytes that work
    """

    status = 6

    def __init__(self, text: str):
        super().__init__(text)
        found = re.search(r"the least that works is (\d+) byte", text)
        self.least = int(found[1]) if found else None


class ProgramError(Error):
    """An external program failed."""

    status = 7


_CLASSES = {made.status: made for made in (CheckError, UsageError, ChainError, DataError, SystemFailure, LimitError,
                                           ProgramError)}


def _split_place(text: str) -> tuple[Place | None, str]:
    """Splits "FILE:LINE:COLUMN: ", "FILE: byte N: " or "FILE: " from TEXT. No file of the last form has a blank."""
    if found := re.match(r"(.*?):(\d+):(\d+): ", text):
        return Place(found[1], int(found[2]), int(found[3])), text[found.end():]
    if found := re.match(r"(.*?): byte (\d+): ", text):
        return Place(found[1], offset=int(found[2])), text[found.end():]
    if found := re.match(r"([^\s:]+): ", text):
        return Place(found[1]), text[found.end():]
    return None, text


def _split_hint(text: str) -> tuple[str, str | None]:
    """Splits the hint from TEXT. The library puts it after the last semicolon, and messages rarely have another."""
    message, separator, hint = text.rpartition("; ")
    if not separator or hint.startswith(("the first was", "the least that works", "negative ones count")):
        return text, None
    return message, hint


# What the library tells a program in C to call, and what a Python program writes instead.
_IN_PYTHON = (("by ckptc_chain_bind", "by its name, as in run(x, W=values)"),
              ("ckptc_chain_bind gives a value", "an argument of its name gives a value"),
              ("ckptc_chain_bind takes its values, as CKPTC_BF16 or CKPTC_F16",
               "an argument of its name takes its values, as an array of ml_dtypes.bfloat16 or float16"),
              ("ckptc_chain_bind takes values that", "an argument of its name takes values that"),
              ("bind it by ckptc_chain_program", "give its target, as in Chain(text, programs={'step': command})"))


def raise_error(status: int, text: str) -> NoReturn:
    """Raises the exception of STATUS."""
    for call, written in _IN_PYTHON:
        text = text.replace(call, written)
    raise _CLASSES.get(status, Error)(text)
