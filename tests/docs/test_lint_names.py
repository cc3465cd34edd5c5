"""The check of class and file names finds what it is for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs/lint_names.py"
spec = importlib.util.spec_from_file_location("lint_names", FILE)
assert spec is not None
assert spec.loader is not None
lint_names = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint_names)

MODULES = {"a.py": "class Step: ...\nclass _Row: ...", "b.py": "class Step: ...\nclass _Row: ...\nclass Loop: ..."}


def test_public_classes_of_one_name_are_a_collision() -> None:
    assert list(lint_names.collisions(MODULES, [])) == [
        "class Step is in a.py and b.py; give each class a name of its own"
    ]
    assert list(lint_names.collisions(MODULES, ["Step"])) == []


def test_exceptions_that_nothing_needs_are_reported() -> None:
    (complaint,) = lint_names.collisions(MODULES, ["Step", "Loop"])
    assert "'Loop' is no collision any more" in complaint


def test_forbidden_file_names_are_reported() -> None:
    (complaint,) = lint_names.forbidden_files(["x/late.py", "x/critical_path.py"], {"late": "a noun"})
    assert complaint == "x/late.py: the name does not say what the file holds; expected a noun"


def test_variables_are_named_after_the_thing() -> None:
    modules = {"a.py": "def f(given, q):\n    found = q.found\n    return q"}
    complaints = list(lint_names.forbidden_variables(modules, ["found", "given"]))
    assert [text.partition(" does")[0] for text in complaints] == ["a.py:1: 'given'", "a.py:2: 'found'"]
