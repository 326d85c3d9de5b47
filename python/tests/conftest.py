"""What tests share: the program that the wheel carries, run on files of NumPy's."""
from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ckptc._files import program as path_of_program


# A shell starts what runs in its background with interrupts ignored, and Python has no handler then. Its children neither.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Program:
    """The program, in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([path_of_program(), *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def save(self, **arrays: Any) -> list[str]:
        """Writes an npy for each array. Returns the options that give them: the first input is x."""
        options = []
        for name, values in arrays.items():
            np.save(self.folder / f"{name}.npy", values)
            options += ["-i", "x.npy"] if name == "x" else ["--param", f"{name}={name}.npy"]
        return options

    def load(self, name: str) -> Any:
        return np.load(self.folder / name)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def same(a: Any, b: Any) -> bool:
    """True if two arrays have the same type and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
