"""The papers' examples go with the package: what they take of it is there. Their numbers are tests marked `long`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "papers"
APART = ("__main__", "learn", "vector_environments")
"""It runs all figures; these need what the extra `learn` brings."""
MODULES = [path for path in sorted(FOLDER.rglob("*.py")) if path.stem not in (*APART, "__init__")]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_a_module_finds_what_it_imports(path: Path) -> None:
    importlib.import_module(".".join(path.relative_to(FOLDER.parent.parent).with_suffix("").parts))
