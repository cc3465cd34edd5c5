"""The digest of the generator's source: a change of the generator is a change of the design."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import dynagate

PACKAGES = ("algorithms", "fixedpoint", "graph", "hw")
MODULES = ("configuration", "joints", "naming", "region", "robot", "spatial")
"""What decides a design, by names within the package."""

APART = (
    "fixedpoint/files.py",
    "fixedpoint/sweep.py",
    "hw/cost.py",
    "hw/datasheet.py",
    "hw/design.py",
    "hw/source.py",
    "hw/synth.py",
    "hw/yosys.py",
)
"""Files of these packages that read, describe or measure designs. What they find is in design.json, if it is kept."""


@cache
def source_digest() -> str:
    """16 hexadecimal digits, the same for a checkout and a wheel of it, wherever they lie."""
    digest = hashlib.sha256()
    for name, path in source_files():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def source_files() -> list[tuple[str, Path]]:
    """The files that decide a design, sorted, named by their place in the package such as hw/units/add.py."""
    return sorted((name, path) for name, path in _all_files() if name not in APART)


def _all_files() -> Iterator[tuple[str, Path]]:
    (top,) = map(Path, dynagate.__path__)
    for module in MODULES:
        yield f"{module}.py", top / f"{module}.py"
    for package in PACKAGES:  # in a checkout these lie in several places
        (folder,) = map(Path, import_module(f"dynagate.{package}").__path__)
        for path in folder.rglob("*.py"):
            yield f"{package}/{path.relative_to(folder).as_posix()}", path
