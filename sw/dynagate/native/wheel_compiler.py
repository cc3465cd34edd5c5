"""The C and C++ compiler of the wheel `ziglang`, a Clang with all headers, for computers without a compiler.

The extra `dynagate[compiler]` installs it with pip and without root. It is used if no other compiler is found.
"""

from __future__ import annotations

import hashlib
import shlex
from importlib.util import find_spec
from pathlib import Path

from dynagate.base.errors import Error
from dynagate.native.cache import cache_folder, kept

WHEEL = "ziglang"
INSTALL = "pip install 'dynagate[compiler]'"
"""Command that installs the compiler."""

FLAGS = ("-fno-sanitize=undefined",)
"""Flags that remove what this compiler adds to functions by default: checks that stop the process."""


def wheel_compiler(language: str, failure: type[Error]) -> str | None:
    """Return the path of a script that runs the compiler of the wheel, or None if the wheel is not installed.

    Args:
        language: "cc" for C, or "c++".
        failure: Exception to raise if the script cannot be written.
    """
    spec = find_spec(WHEEL)
    folders = list(spec.submodule_search_locations or []) if spec else []
    program = next((path for folder in folders for path in Path(folder).glob("zig*") if path.stem == "zig"), None)
    if program is None or not program.is_file():
        return None
    text = f'#!/bin/sh\nexec {shlex.quote(str(program))} {language} {" ".join(FLAGS)} "$@"\n'
    name = f"zig-{language.replace('+', 'p')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def make(work: Path, result: Path) -> None:
        (result / language).write_text(text)

    return str(kept(cache_folder() / name, make, failure) / language)
