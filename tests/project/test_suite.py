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


PRIVATE_USES = 66
"""Number of places where tests use a private name of the package or of the examples. It may only fall."""
NOT_OURS = {"_asdict", "_replace", "_fields", "_repr_html_", "_repr_mimebundle_"}
"""Names that other projects define as public."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in NOT_OURS


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Yield private attributes of other objects, imports of private names, and private names that are replaced."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("dynagate", "examples")):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (f"{node.lineno}: {part}" for part in parts if is_private(part))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            yield from (f"{node.lineno}: {text}" for text in texts if any(map(is_private, text.split("."))))


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("a._b", 1),
        ("self._b + cls._c", 0),
        ("a._replace(b=1).__dict__", 0),
        ("from dynagate.host import _x, y", 1),
        ("monkeypatch.setattr(a, '_b', None)", 1),
        ("monkeypatch.setattr('dynagate.a._b', None)", 1),
        ("getattr(a, 'b')", 0),
    ],
)
def test_private_uses_are_counted(line: str, count: int) -> None:
    assert len([*private_uses(ast.parse(line))]) == count


def test_private_names_in_tests_become_fewer() -> None:
    files = sorted(SUITE.rglob("*.py"))
    uses = [f"{path.relative_to(ROOT)}:{use}" for path in files for use in private_uses(ast.parse(path.read_text()))]
    assert len(uses) == PRIVATE_USES, "write the smaller number here, or test through a public name:\n" + "\n".join(
        uses
    )
