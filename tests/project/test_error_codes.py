"""`docs/error_codes.py`: every error has one code of its own, and `--assign` gives new errors the next numbers."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from dynagate.cli import codes

ROOT = Path(__file__).parents[2]

BASE = """
class Error(Exception):
    def __init__(self, *args, code=""): ...
class ArgumentError(Error, ValueError): ...
class LimitError(Error):
    def __init__(self, limit):
        super().__init__(f"no {limit} limit", code="DG-ONE-001")
"""
AREAS = """# The first line.
[ONE]
about = "the first subject"
modules = ["base/", "one"]
highest = 7

[TWO]
about = "the second subject"
modules = ["one/two", "robot/", "cli/"]
highest = 0
"""
PARTS = {
    "raised": ("one.py", 'raise ArgumentError("a")', True),
    "returned": ("one.py", 'def made() -> ArgumentError:\n    return ArgumentError("a")', True),
    "kept": ("one.py", 'error = Error(\n    "a",\n)', True),
    "in a module": ("one.py", 'raise errors.ArgumentError("a")', True),
    "by a helper": ("one.py", 'def check(failure: type[Error]):\n    raise failure("a")', True),
    "by a helper with a default": (
        "one.py",
        'def check(x, failure: type[Error] = Error):\n    raise failure("a")',
        True,
    ),
    "of the same class": ("one.py", 'raise type(error)("a")', True),
    "a warning": ("one.py", 'warn("a", RobotWarning)', True),
    "in its constructor": (
        "one.py",
        'class OwnError(Error):\n    def __init__(self, x):\n        super().__init__("a")',
        True,
    ),
    "a line of a file": ("robot/urdf.py", 'self.errors.add("a", lax=True)', True),
    "of an option": ("cli/options.py", 'self.fail("a", param, ctx)', True),
    "of a command": ("cli/options.py", 'raise UsageError("a")', True),
    "without arguments": ("one.py", "raise ArgumentError()", True),
    "of a class with its own text": ("one.py", 'raise LimitError("speed")', False),
    "of Python": ("one.py", 'raise ValueError("a")', False),
    "the same again": ("one.py", "raise error.within(()) from None\ndef within() -> Error: ...", False),
    "with the code of another": ("one.py", 'raise ArgumentError("a", code=error.code)', False),
    "something else with this name": ("one.py", 'seen.add("a")\nself.fail("a")', False),
}
"""Ways to create an error: the file, its text, and whether the tool gives it a code."""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import error_codes
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return error_codes


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    write(folder, "base/errors.py", BASE)
    for name in ("one/two.py", "robot/__init__.py", "cli/__init__.py"):
        write(folder, name, "")
    (tmp_path / "areas.toml").write_text(AREAS)
    return folder


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def complaints(tool: ModuleType, package: Path, explained: tuple[str, ...] = ()) -> list[str]:
    return list(
        tool.complaints(tool.Package(package), tomllib.loads((package.parent / "areas.toml").read_text()), explained)
    )


def test_the_package_has_one_code_for_each_error(tool: ModuleType) -> None:
    assert list(tool.complaints(tool.Package(), tool.read_areas(), codes.explanations())) == []


@pytest.mark.parametrize("name", PARTS)
def test_an_error_without_a_code_is_reported_and_gets_one(tool: ModuleType, package: Path, name: str) -> None:
    file, text, needs_code = PARTS[name]
    path = write(package, file, text)
    found = complaints(tool, package)
    assert len(found) == needs_code
    assert all("an error without a code" in line and f"{file}:" in line for line in found)
    assert tool.assign(tool.Package(package), package.parent / "areas.toml") == needs_code
    assert complaints(tool, package) == []
    assert ('code="DG-' in path.read_text()) == needs_code


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("one.py", 'raise ArgumentError("a", code="DG-ONE-001")', "the code DG-ONE-001 twice"),
        ("one.py", 'raise ArgumentError("a", code="DG-ONE-008")', "above the highest number of its area"),
        ("one.py", 'raise ArgumentError("a", code="DG-THREE-001")', "expected DG-AREA-123 with an area of"),
        ("one.py", 'raise ArgumentError("a", code="DG-ONE-1")', "expected DG-AREA-123 with an area of"),
        ("one.py", 'raise ArgumentError("a", code="")', "expected DG-AREA-123 with an area of"),
        ("one.py", "raise ArgumentError", r"create the error: raise ArgumentError(text)"),
        ("one.py", 'raise failing("a")', "'failing' is no class of errors, nor a function that returns one"),
        ("one.py", 'def check(failure: type[Exception]):\n    raise failure("a")', "'failure' is no class of errors"),
        (
            "cli/options.py",
            'raise click.UsageError("a")',
            "raise a class of cli/refusals.py in place of click.UsageError",
        ),
    ],
)
def test_wrong_codes_are_reported(tool: ModuleType, package: Path, file: str, text: str, complaint: str) -> None:
    assert complaints(tool, package) == []
    write(package, file, text)
    (found,) = complaints(tool, package)
    assert complaint in found


def test_an_explanation_without_an_error_is_reported(tool: ModuleType, package: Path) -> None:
    assert complaints(tool, package, ("DG-ONE-001",)) == []
    (found,) = complaints(tool, package, ("DG-ONE-001", "DG-ONE-002"))
    assert "no error has the code DG-ONE-002" in found


def test_an_area_of_a_module_that_was_moved_is_reported(tool: ModuleType, package: Path) -> None:
    (package / "robot" / "__init__.py").rename(package / "machine.py")
    (found,) = complaints(tool, package)
    assert "area TWO lists 'robot/', with which no module begins" in found


def test_numbers_go_on_after_the_highest_and_never_change(tool: ModuleType, package: Path) -> None:
    areas = package.parent / "areas.toml"
    path = write(package, "one.py", 'raise ArgumentError("a", code="DG-ONE-003")\nraise Error("b")\nraise Error("c")\n')
    other = write(package, "one/two.py", 'raise Error("d")\n')
    assert tool.assign(tool.Package(package), areas) == 3
    first = path.read_text()
    assert [line.split('"')[-2] for line in first.splitlines()] == ["DG-ONE-003", "DG-ONE-008", "DG-ONE-009"]
    assert 'code="DG-TWO-001"' in other.read_text()
    assert [area["highest"] for area in tomllib.loads(areas.read_text()).values()] == [9, 1]
    assert areas.read_text().startswith("# The first line.\n[ONE]\n")
    assert tool.assign(tool.Package(package), areas) == 0
    assert path.read_text() == first
    write(package, "one.py", 'raise Error("e")\n' + first.splitlines()[0] + "\n")  # two are removed, one is new
    assert tool.assign(tool.Package(package), areas) == 1
    assert path.read_text().splitlines()[0] == 'raise Error("e", code="DG-ONE-010")'


@pytest.mark.parametrize(
    "call",
    [
        'Error("ä €", 3)',
        'Error(\n    f"{x!r:.40} ("  # a comment )\n    "b",\n)',
        'Error(("a" "b"))',
        'Error((("a")), )',
        "Error(text)",
        "Error(*parts)",
        'Error("a", *parts, **{"x": 1})',
        'Error("a" if x else ("b"))',
        'Error("DG-ONE-001")',
        "Error(\n)",
        'Error("a",  # why (\n)',
    ],
)
def test_codes_are_put_into_calls_of_any_shape(tool: ModuleType, package: Path, call: str) -> None:
    path = write(package, "one.py", f"x = 'é'; raise {call} from error\n")
    assert tool.assign(tool.Package(package), package.parent / "areas.toml") == 1
    (after,) = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise))
    (before,) = (node for node in ast.walk(ast.parse(f"raise {call} from error")) if isinstance(node, ast.Raise))
    assert isinstance(after.exc, ast.Call)
    added = after.exc.keywords.pop()
    assert (added.arg, ast.unparse(added.value)) == ("code", "'DG-ONE-008'")
    assert ast.dump(after) == ast.dump(before)


def test_a_module_of_no_area_is_refused(tool: ModuleType, package: Path) -> None:
    first, path = write(package, "one.py", 'raise Error("a")'), write(package, "three.py", 'raise Error("a")')
    with pytest.raises(SystemExit, match=r"three\.py belongs to no area"):
        tool.assign(tool.Package(package), package.parent / "areas.toml")
    assert first.read_text() == path.read_text() == 'raise Error("a")'
    assert (package.parent / "areas.toml").read_text() == AREAS


def test_the_list_for_the_site_has_every_code_once(tool: ModuleType) -> None:
    text = tool.listed()
    for code in codes.codes():
        assert text.count(f"| {code} |") + text.count(f"| [{code}](") == 1, code
