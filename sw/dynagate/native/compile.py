"""C source -> a shared library, by the system's compiler, in a cache under the hash of all that it is made of."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from dynagate.base.errors import Error
from dynagate.base.process import run
from dynagate.native.cache import cache_folder, kept
from dynagate.native.source import CSource

C_FLAGS = (
    "-std=gnu11",
    "-O2",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-pthread",
    "-shared",
)
NATIVE = ("-march=native", "-mcpu=native")
"""Flags for this machine's processor: the first one that the compiler knows. Clang on ARM may know the second only."""
CARDS = (80, 89, 90)
NVCC_FLAGS = (
    "-O3",
    "-std=c++17",
    "--shared",
    "-Xcompiler=-fPIC",
    "--threads=0",  # cards in parallel
    *(f"-gencode=arch=compute_{card},code=sm_{card}" for card in CARDS),
    f"-gencode=arch=compute_{CARDS[-1]},code=compute_{CARDS[-1]}",  # newer cards compile this for themselves
)


@dataclass(frozen=True)
class Compiler:
    """How a source becomes a shared library.

    find: the compiler's path, or raises CompileError. suffix: of the file that is compiled. native: compile for the
    processor of this machine. optional: flags that only make compiling faster; those that the compiler does not know
    are left out.
    """

    find: Callable[[], str]
    flags: tuple[str, ...]
    suffix: str
    native: bool = False
    optional: tuple[str, ...] = ()


class CompileError(Error, RuntimeError):
    """The C compiler is missing or failed, or its result could not be kept; the text says which and where."""


def compiler() -> str:
    """The C compiler's path: $CC, or cc. Raises CompileError."""
    return _program("CC", "cc", "C", "GCC or Clang")


def cxx() -> str:
    """The C++ compiler's path: $CXX, or g++. Raises CompileError."""
    return _program("CXX", "g++", "C++", "GCC or Clang")


def nvcc() -> str:
    """CUDA's compiler: $NVCC, or nvcc. Raises CompileError."""
    return _program("NVCC", "nvcc", "CUDA", "nvcc")


def _program(variable: str, usual: str, language: str, expected: str) -> str:
    name = os.environ.get(variable, usual)
    program = shutil.which(name)
    if program is None:
        raise CompileError(
            f"no {language} compiler '{name}' on the path; expected {expected}, or one named by {variable}"
        )
    return program


CSELIB = "--param=max-cselib-memory-locations=20"
"""GCC compares each store in a long block with the last 500 memory locations by default."""
C = Compiler(compiler, C_FLAGS, ".c", native=True)
LOOPS = replace(C, optional=("-fno-tree-pre", "-fno-gcse", "-fno-thread-jumps", CSELIB))
"""For rollouts and solvers. The optimizations left out take a fifth of the time of compilation and gain no speed."""
STRAIGHT = replace(
    C,
    flags=(*C.flags, "-O1"),
    optional=("-fexpensive-optimizations", "-fno-thread-jumps", CSELIB),
)
"""For functions without loops, which it makes as fast as -O2 does, in half of the time."""
CUDA = Compiler(nvcc, NVCC_FLAGS, ".cu")


def library(source: CSource, *, double: bool, folder: Path | None = None, toolchain: Compiler = C) -> Path:
    """The shared library of a source, compiled for this machine unless the cache holds it.

    folder: a cache, the user's unless given. Raises CompileError.
    """
    program, flags = toolchain.find(), toolchain.flags
    precision = ["-DDYNAGATE_DOUBLE"] if double else []
    native = native_flags(program) if toolchain.native else ()
    content = [source.stamp, *flags, *native, *toolchain.optional, *precision, machine(program, native)]
    key = hashlib.sha256("\0".join(content).encode()).hexdigest()[:16]
    file = f"{source.name}-{'f64' if double else 'f32'}.so"

    def make(work: Path, result: Path) -> None:
        for name, text in source.files.items():
            (work / name).write_text(text)
        optional = (flag for flag in toolchain.optional if knows(program, flag))
        command = [program, *flags, *native, *optional, *precision, str(work / f"{source.name}{toolchain.suffix}")]
        run([*command, "-o", str(result / file)], CompileError, folder=work)

    return kept((folder or cache_folder()) / f"{Path(file).stem}-{key}", make, CompileError) / file


def tried() -> str:
    """Compile a function with each toolchain for C, call it, and return the flag for this machine's processor, or "".

    Raises:
        CompileError: There is no compiler, it does not compile the function, or the function does not run here.
    """
    program = compiler()
    with tempfile.TemporaryDirectory() as folder:
        for toolchain in (C, LOOPS, STRAIGHT):
            source = CSource.of("dynagate_trial", {"dynagate_trial.c": TRIAL})
            path = library(source, double=True, folder=Path(folder).resolve(), toolchain=toolchain)
            try:
                function = ctypes.CDLL(str(path)).dynagate_trial
            except (OSError, AttributeError) as error:
                raise CompileError(f"{program} compiles a function that does not load here: {error}") from None
            function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
            if function(0.5) != 2.0:
                raise CompileError(f"{program} compiles a function that returns {function(0.5)}; expected 2.0")
    return "".join(native_flags(program))


TRIAL = """#include "dynagate_simd.h"
double dynagate_trial(double x) {
    vec v = {0};
    for (int j = 0; j < DG_LANES; j++) v[j] = x;
    v = v * v + (real)1.75;
    return v[DG_LANES - 1];
}
DG_END
"""
"""A function of vectors, which `tried` compiles: of 0.5 it is 2.0."""


@cache
def machine(program: str, native: tuple[str, ...]) -> str:
    """Return the compiler's version and, with `native_flags`, the macros it defines for this machine's processor.

    Raises:
        CompileError: The program does not run.
    """
    version = run([program, "--version"], CompileError)
    return version + (run([program, *native, "-dM", "-E", "-x", "c", os.devnull], CompileError) if native else "")


@cache
def native_flags(program: str) -> tuple[str, ...]:
    """Return the flag that compiles for this machine's processor, or no flag if the compiler has none."""
    return next(((flag,) for flag in NATIVE if knows(program, flag)), ())


@cache
def knows(program: str, flag: str) -> bool:
    """Return whether a C compiler accepts a flag without a warning, by compiling an empty file."""
    with tempfile.TemporaryDirectory() as folder:
        empty, result = Path(folder) / "empty.c", Path(folder) / "empty.o"
        empty.write_text("")
        try:
            run([program, "-Werror", flag, "-c", str(empty), "-o", str(result)], CompileError)
        except CompileError:
            return False
    return True
