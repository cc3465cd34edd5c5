"""Shared libraries for this platform by its own compiler, and for others by the wheel `ziglang`."""

from __future__ import annotations

from pathlib import Path

from dynagate.base.process import run
from dynagate.native.compile import CompileError, compiler
from dynagate.native.platforms import Platform, this_name
from dynagate.native.wheel_compiler import INSTALL, wheel_compiler

FLAGS = (
    "-std=c11",
    "-O2",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
)


def compiler_for(platform: Platform) -> list[str]:
    """Return the command of the C compiler for a platform.

    Raises:
        CompileError: It is missing.
    """
    if platform.name == this_name():
        return [compiler()]
    cross = wheel_compiler("cc", CompileError)
    if cross is None:
        raise CompileError(
            f"no C compiler for {platform.name}; expected the compiler of the wheel: {INSTALL}",
            code="DG-COMPILE-023",
        )
    return [cross, "-target", platform.target]


def shared_library(source: Path, platform: Platform) -> bytes:
    """Return the shared library of a C file, which is compiled next to it.

    Raises:
        CompileError: The compiler is missing or fails.
    """
    library = source.with_suffix(platform.suffix)
    command = [*compiler_for(platform), *FLAGS, *platform.flags, str(source), "-o", str(library), "-lm"]
    run(command, CompileError, folder=source.parent)
    return library.read_bytes()
