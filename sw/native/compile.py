"""C source -> a shared library, by the system's compiler, kept by the hash of all that it is made of."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dynagate.native.emit import Source

C_FLAGS = (
    "-std=gnu11",
    "-O2",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-pthread",
    "-shared",
)
CARDS = (80, 89, 90)
NVCC_FLAGS = (
    "-O3",
    "-std=c++17",
    "--shared",
    "-Xcompiler=-fPIC",
    "--threads=0",  # cards side by side
    *(f"-gencode=arch=compute_{card},code=sm_{card}" for card in CARDS),
    f"-gencode=arch=compute_{CARDS[-1]},code=compute_{CARDS[-1]}",  # newer cards compile this for themselves
)
CACHE_VARIABLE = "DYNAGATE_CACHE"


@dataclass(frozen=True)
class Toolchain:
    """How a source becomes a shared library.

    find: the compiler's path, or raises CompileError. suffix: of the file that is compiled. target: arguments with
    which the compiler tells what it compiles for, if that depends on the machine.
    """

    find: Callable[[], str]
    flags: tuple[str, ...]
    suffix: str
    target: tuple[str, ...] = ()


class CompileError(RuntimeError):
    """The C compiler is missing or failed, or its result could not be kept; the text says which and where."""


def cache_folder() -> Path:
    """Where libraries are kept: $DYNAGATE_CACHE, or dynagate in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get(CACHE_VARIABLE) or Path(base) / "dynagate")


def compiler() -> str:
    """The C compiler's path: $CC, or cc. Raises CompileError."""
    return _program("CC", "cc", "C", "GCC or Clang")


def nvcc() -> str:
    """CUDA's compiler: $NVCC, or nvcc. Raises CompileError."""
    return _program("NVCC", "nvcc", "CUDA", "nvcc")


def _program(variable: str, usual: str, language: str, expected: str) -> str:
    name = os.environ.get(variable, usual)
    found = shutil.which(name)
    if found is None:
        raise CompileError(
            f"no {language} compiler '{name}' on the path; expected {expected}, or one named by {variable}"
        )
    return found


C = Toolchain(compiler, C_FLAGS, ".c", ("-march=native", "-dM", "-E", "-x", "c", os.devnull))
CUDA = Toolchain(nvcc, NVCC_FLAGS, ".cu")


def library(source: Source, *, double: bool, folder: Path | None = None, toolchain: Toolchain = C) -> Path:
    """The shared library of a source, compiled for this machine unless the folder holds it whole.

    A library that was cut short by a full disk or a kill is made again; two processes may compile at once.
    Raises CompileError.
    """
    folder = folder or cache_folder()
    program, flags = toolchain.find(), toolchain.flags
    precision = ["-DDYNAGATE_DOUBLE"] if double else []
    content = [source.stamp, *flags, *precision, machine(program, toolchain.target)]
    key = hashlib.sha256("\0".join(content).encode()).hexdigest()[:16]
    target = folder / f"{source.name}-{'f64' if double else 'f32'}-{key}.so"
    if _is_whole(target):
        return target
    with scratch_beside(target, CompileError) as scratch:
        for name, text in source.files.items():
            (scratch / name).write_text(text)
        made = scratch / target.name
        _run([program, *flags, *precision, str(scratch / f"{source.name}{toolchain.suffix}"), "-o", str(made)])
        (scratch / "sum").write_text(_checksum(made))
        made.replace(target)
        (scratch / "sum").replace(_checksum_file(target))
    return target


@contextmanager
def scratch_beside(target: Path, failure: type[Exception]) -> Iterator[Path]:
    """A folder to make a file of the cache in, on the file's own disk, so that it is put in place whole or not at all.
    Raises `failure` where it cannot be kept."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".compiling-") as scratch:
            yield Path(scratch)
    except OSError as error:
        raise failure(
            f"cannot keep {target.name} in {target.parent} ({error.strerror}); "
            f"set {CACHE_VARIABLE} to a folder that can be written"
        ) from None


def _is_whole(target: Path) -> bool:
    try:
        return _checksum_file(target).read_text() == _checksum(target)
    except OSError:
        return False


def _checksum_file(target: Path) -> Path:
    return target.with_suffix(".sha256")


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def machine(program: str, target: tuple[str, ...]) -> str:
    """What the compiler makes of this machine: its version, and what it tells of its target when asked so. Raises
    CompileError."""
    return _run([program, "--version"]) + (_run([program, *target]) if target else "")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-20:])
        raise CompileError(f"{command[0]} failed with status {done.returncode}:\n{tail}")
    return done.stdout
