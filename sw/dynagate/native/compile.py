"""Compile C, C++ or CUDA source to a shared library, cached under a hash of everything that determines it."""

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
from dynagate.native.wheel_compiler import INSTALL, wheel_compiler

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
"""Flags for this machine's processor, of which the first that the compiler accepts is used. Clang on ARM may accept
only the second.
"""
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
    """How a source becomes a shared library."""

    find: Callable[[], str]
    """Returns the compiler's path or raises CompileError."""
    flags: tuple[str, ...]
    """Flags of every compilation."""
    suffix: str
    """Suffix of the file that is compiled."""
    native: bool = False
    """Whether to compile for the processor of this machine."""
    optional: tuple[str, ...] = ()
    """Flags that only make compilation faster; the ones that the compiler does not accept are left out."""


class CompileError(Error, RuntimeError):
    """The C compiler is missing or failed, or its result could not be kept; the text says which and where."""


class CompileWarning(UserWarning):
    """There is no C compiler, or it failed, and a slower way computes the function."""


def compiler() -> str:
    """Return the path of the C compiler: $CC, or cc, or that of the extra `compiler`.

    Raises:
        CompileError: No compiler is found.
    """
    return _program("CC", "cc", "C", "GCC or Clang")


def cxx() -> str:
    """Return the path of the C++ compiler: $CXX, or g++, or that of the extra `compiler`.

    Raises:
        CompileError: No compiler is found.
    """
    return _program("CXX", "g++", "C++", "GCC or Clang")


def nvcc() -> str:
    """Return the path of CUDA's compiler: $NVCC, or nvcc. Raise CompileError if it is missing."""
    return _program("NVCC", "nvcc", "CUDA", "nvcc")


def _program(variable: str, usual: str, language: str, expected: str) -> str:
    name = os.environ.get(variable, usual)
    program = shutil.which(name)
    if program is None and language in WHEEL_COMMANDS and variable not in os.environ:
        program = wheel_compiler(WHEEL_COMMANDS[language], CompileError)
    if program is None:
        more = f", or: {INSTALL}" if language in WHEEL_COMMANDS else ""
        if shutil.which(name.split()[0] if name.split() else ""):
            more += f". {variable} is the name of one program, without options: write a script for more"
        raise CompileError(
            f"no {language} compiler '{name}' on the path; expected {expected}, or one named by {variable}{more}",
            code="DG-COMPILE-002",
        )
    return program


WHEEL_COMMANDS = {"C": "cc", "C++": "c++"}
"""Language -> command of the compiler in the wheel."""


CSELIB = "--param=max-cselib-memory-locations=20"
"""Flag that limits how many earlier memory locations GCC compares each store with, 500 by default."""
C = Compiler(compiler, C_FLAGS, ".c", native=True)
LOOPS = replace(C, optional=("-fno-tree-pre", "-fno-gcse", "-fno-thread-jumps", CSELIB))
"""Compiler for rollouts and solvers. The omitted optimizations take a fifth of the compile time and gain
no speed.
"""
STRAIGHT = replace(
    C,
    flags=(*C.flags, "-O1", "-ffp-contract=off"),
    optional=("-fexpensive-optimizations", "-fno-thread-jumps", CSELIB),
)
"""Compiler for functions without loops, which become as fast as with -O2 in half the compile time. Their texts state
which products and sums are fused, so results do not depend on the compiler.
"""
BLOCKS = replace(C, flags=(*C.flags, "-ffp-contract=off"))
"""Compiler for the interpreter of blocks, whose results are those of functions without loops."""
CUDA = Compiler(nvcc, NVCC_FLAGS, ".cu")


def library(source: CSource, *, double: bool, folder: Path | None = None, toolchain: Compiler = C) -> Path:
    """Return the shared library of a source, compiled for this machine unless the cache holds it.

    Args:
        source: The source.
        double: Whether numbers are float64.
        folder: Folder of the cache; None for the user's.
        toolchain: The compiler and its flags.

    Raises:
        CompileError: There is no compiler, it fails, or the cache cannot be used.
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
        _compile([*command, "-o", str(result / file)], result / file, toolchain)

    return kept((folder or cache_folder()) / f"{Path(file).stem}-{key}", make, CompileError) / file


def _compile(command: list[str], file: Path, toolchain: Compiler) -> None:
    """Run a compiler that writes a file.

    Raises:
        CompileError: It fails, which the text explains by flags that it lacks, or it writes nothing.
    """
    program = command[0]
    try:
        run(command, CompileError, folder=file.parent)
    except CompileError as error:
        raise CompileError(f"{error.text}\n{_reason(program, toolchain)}", code=error.code) from None
    if not file.is_file():
        raise CompileError(f"{program} ends without an error, but writes no file; {EXPECTED}", code="DG-COMPILE-025")


EXPECTED = f"expected GCC 10, Clang 13 or newer, chosen by CC, or: {INSTALL}"


def _reason(program: str, toolchain: Compiler) -> str:
    """Return why a compiler failed, as far as its flags show it, and what to use instead."""
    if toolchain.suffix != ".c":
        return ""
    version = next(iter(machine(program, ()).splitlines()), program)
    lacking = [flag for flag in toolchain.flags if flag != "-shared" and not knows(program, flag)]
    return f"{version} lacks {', '.join(lacking)}; {EXPECTED}" if lacking else f"It is {version}; {EXPECTED}"


def tried() -> str:
    """Compile a function with each toolchain for C, call it, and return the flag for this machine's processor, or "".

    Raises:
        CompileError: There is no compiler, it does not compile the function, or the function does not run here.
    """
    program = compiler()
    with tempfile.TemporaryDirectory() as folder:
        for toolchain in (C, LOOPS, STRAIGHT, BLOCKS):
            source = CSource.of("dynagate_trial", {"dynagate_trial.c": TRIAL})
            path = library(source, double=True, folder=Path(folder).resolve(), toolchain=toolchain)
            try:
                function = ctypes.CDLL(str(path)).dynagate_trial
            except (OSError, AttributeError) as error:
                raise CompileError(
                    f"{program} compiles a function that does not load here: {error}", code="DG-COMPILE-003"
                ) from None
            function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
            if function(0.5) != 2.0:
                raise CompileError(
                    f"{program} compiles a function that returns {function(0.5)}; expected 2.0", code="DG-COMPILE-004"
                )
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
"""A vectorized function that `tried` compiles; it returns 2.0 for 0.5."""


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
    """Return whether a compiler accepts a flag without a warning.

    An empty C file is compiled; for a library such as `-lm`, it is linked too.
    """
    with tempfile.TemporaryDirectory() as folder:
        empty, result = Path(folder) / "empty.c", Path(folder) / "empty.o"
        empty.write_text("")
        goal = "-shared" if flag.startswith("-l") else "-c"
        try:
            run([program, "-Werror", flag, goal, "-xc", str(empty), "-o", str(result)], CompileError)
        except CompileError:
            return False
    return True
