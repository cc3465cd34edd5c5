"""How the test suite itself is built."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.modules import ROOT

SUITE = ROOT / "tests"


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the full name of each module, function or constant that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    parts = name.split(".")
    return parts[0] in ("tests", "") and any(part.startswith("test_") for part in parts)


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("from tests.hw.test_units import pairs", True),
        ("from tests.hw import test_units as units", True),
        ("import tests.hw.test_units", True),
        ("def f():\n    from .test_units import pairs", True),
        ("from . import test_units", True),
        ("from tests.operands import pairs", False),
        ("from litex.test_tools import run", False),
    ],
)
def test_imports_of_test_modules_are_recognized(tmp_path: Path, line: str, refused: bool) -> None:
    (tmp_path / "file.py").write_text(line)
    assert any(map(is_test_module, imported_modules(tmp_path / "file.py"))) == refused


def test_no_module_imports_from_a_test_module() -> None:
    """What several test modules need is in a helper module in tests/."""
    files = sorted(SUITE.rglob("*.py"))
    assert len(files) > 200
    imports = [f"{path.relative_to(ROOT)}: {name}" for path in files for name in imported_modules(path)]
    assert [line for line in imports if is_test_module(line.split(": ")[1])] == []
