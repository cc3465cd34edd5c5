"""Check the names of modules and classes: `python docs/lint_names.py`, which `make lint` runs.

A public class name stands for one class in the package, and names of files, arguments and local variables say what they
hold. docs/words.toml lists the exceptions: class names for which the field itself has two meanings, forbidden file
names and forbidden names of variables.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
SETTINGS = ROOT / "docs/words.toml"
PACKAGES = ("sw/dynagate", "hw", "fixedpoint", "sim")


def public_classes(text: str) -> list[str]:
    """Return the names of the public classes at the top level of a module, given its source."""
    return [x.name for x in ast.parse(text).body if isinstance(x, ast.ClassDef) and not x.name.startswith("_")]


def collisions(modules: Mapping[str, str], allowed: Iterable[str]) -> Iterator[str]:
    """Yield a complaint for each class name that two modules define, and for each exception that is not needed.

    Args:
        modules: Path of each module -> its source.
        allowed: Class names that several modules may define.
    """
    places: dict[str, list[str]] = {}
    for path, text in sorted(modules.items()):
        for name in public_classes(text):
            places.setdefault(name, []).append(path)
    for name, paths in sorted(places.items()):
        if len(paths) > 1 and name not in allowed:
            yield f"class {name} is in {' and '.join(paths)}; give each class a name of its own"
    for name in allowed:
        if len(places.get(name, ())) < 2:
            yield f"docs/words.toml: '{name}' is no collision any more; remove it from class_names_with_two_meanings"


def forbidden_files(paths: Iterable[str], forbidden: Mapping[str, str]) -> Iterator[str]:
    """Yield a complaint for each module whose file name is forbidden.

    Args:
        paths: Paths of the modules.
        forbidden: File name without its suffix -> names to use instead.
    """
    for path in sorted(paths):
        if (stem := Path(path).stem) in forbidden:
            yield f"{path}: the name does not say what the file holds; expected {forbidden[stem]}"


def forbidden_variables(modules: Mapping[str, str], forbidden: Iterable[str]) -> Iterator[str]:
    """Yield a complaint for each argument and local variable whose name is forbidden.

    Args:
        modules: Path of each module -> its source.
        forbidden: Names that tell how a value came to be there.
    """
    for path, text in sorted(modules.items()):
        for node in ast.walk(ast.parse(text)):
            name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
            if name in forbidden:
                yield f"{path}:{node.lineno}: '{name}' does not say what the variable holds; expected the noun"


def sources() -> dict[str, str]:
    """Return the source of each module of the package, by its path."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def main() -> int:
    """Print all complaints and return the exit status."""
    settings = tomllib.loads(SETTINGS.read_text())
    modules = sources()
    allowed, forbidden = settings["class_names_with_two_meanings"], settings["file_names"]
    complaints = [*collisions(modules, allowed), *forbidden_files(modules, forbidden)]
    complaints += forbidden_variables(modules, settings["variable_names"])
    print("\n".join(complaints), end="\n" if complaints else "")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
