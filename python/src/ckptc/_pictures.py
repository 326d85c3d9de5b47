"""Pictures of reports: those that the program draws. The wheel carries the program."""
from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ._arrays import Bound, dtype_of
from ._errors import Error, raise_error
from ._files import program

_LONG = 100_000  # bytes; an argument of a program may have 131,071


def _draw(arguments: Sequence[str], folder: str, directory: str | None = None) -> str:
    """Runs the program with ARGUMENTS, and returns the picture that it writes."""
    path = os.path.join(folder, "picture.svg")
    done = subprocess.run([program(), "plan", "--plot", path, "--color", "never", *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False,
                          cwd=directory)
    if done.returncode:
        line = (done.stderr.splitlines() or ["the program drew no picture"])[0]
        raise_error(done.returncode, line.removeprefix("ckptc: ").replace("error: ", "", 1))
    with open(path, encoding="utf-8") as file:
        return file.read()


def draw_spec(spec: bytes, policy: str, on_disk: bool, disk_bytes: int) -> str:
    """Returns the picture of the steps of SPEC, as JSON, under POLICY."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "costs.json")
        with open(path, "wb") as file:
            file.write(spec)
        arguments = ["--spec", path, "--policy", policy]
        if on_disk:
            arguments += ["--spill", folder]
        if disk_bytes:
            arguments += ["--spill-limit", str(disk_bytes)]
        return _draw(arguments, folder)


def draw_chain(text: bytes, directory: str | None, input_: Bound | None, arrays: Mapping[str, Bound],
               inputs: Sequence[str], policies: Sequence[str], options: Sequence[str]) -> str:
    """Returns the picture of the chain TEXT under POLICIES. ARRAYS are bound to its params and further INPUTS."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*options]
        if input_ is not None:
            arguments += ["--shape", input_.type]
        for name, array in arrays.items():
            path = os.path.join(folder, f"param{len(arguments)}.npy")
            _write_type(path, array)
            arguments += [f"--shape={name}={array.type}"] if name in inputs else [f"--param={name}={path}"]
        for policy in policies:
            arguments += ["--policy", policy]
        # load() finds its files from the folder of the chain
        if len(text) <= _LONG:
            return _draw([*arguments, "-e", text.decode()], folder, directory)
        path = os.path.join(folder, "chain.ck")
        with open(path, "wb") as file:
            file.write(text)
        return _draw([*arguments, path], folder)


def try_draw(draw: Callable[[], str | None] | None) -> str:
    """Returns the picture of DRAW, or nothing if it fails: a notebook shows the rest then."""
    try:
        return (draw() if draw else None) or ""
    except (Error, OSError):
        return ""


def _write_type(path: str, array: Bound) -> None:
    """Writes an npy of the type of ARRAY. A plan reads its header; a small one, which may be a number, is whole."""
    shape, dtype = tuple(array.struct.shape[:array.struct.ndim]), dtype_of(array.struct.dtype)
    if array.values is not None and array.values.nbytes <= 1024:
        np.save(path, array.values)
        return
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": np.lib.format.dtype_to_descr(dtype),
                                                    "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
