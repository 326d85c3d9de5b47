"""The package: its versions, its types, the command line, and the time of an import."""
from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys

import ckptc


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)


def test_versions() -> None:
    shown = subprocess.run([sys.executable, "-m", "ckptc", "--version"], capture_output=True, text=True, check=True)
    assert ckptc.__version__ == importlib.metadata.version("ckptc") == shown.stdout.split()[1]


def test_command_line() -> None:
    command = [sys.executable, "-m", "ckptc"]
    done = subprocess.run([*command, "run", "-e", "add 1; mul 2; sub 3"], input="1 2\n", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1 3\n")
    done = subprocess.run([*command, "run", "-e", "tanh 3"], input="1\n", capture_output=True, text=True)
    assert done.returncode == 3


def test_files() -> None:
    folder = pathlib.Path(ckptc.__file__).parent
    assert (folder / "py.typed").exists() and set(ckptc.__all__) <= set(dir(ckptc))
    names = {pathlib.Path(str(file)).name for file in importlib.metadata.files("ckptc") or ()}
    assert {"LICENSE", "libckptc.so.0"} <= names


def test_import_is_quick_and_small() -> None:
    code = ("import sys, time, numpy; start = time.process_time(); import ckptc; took = time.process_time() - start\n"
            "print(took); print([m for m in ('torch', 'jax', 'ml_dtypes', 'ckptc.schedules') if m in sys.modules])")
    took, modules = min((_python(code).stdout.splitlines() for _ in range(3)), key=lambda lines: float(lines[0]))
    assert float(took) < 0.2 and modules == "[]"


def test_readme() -> None:
    text = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
    code = "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ") or not line)
    printed = _python(code).stdout
    assert "save-all" in printed and "derivative " in printed and "EndReverse()" in printed
