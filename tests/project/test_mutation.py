"""The tool that counts the mutants which the tests see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutation


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("a < b", "a <= b"),
        ("a in b", "a not in b"),
        ("a + b", "a - b"),
        ("a and b", "a or b"),
        ("not a", "a"),
        ("-a", "a"),
        ("True", "False"),
        ("3", "4"),
        ("0.0", "1.0"),
        ("0.5", "1.0"),
        ("a if b else c", "a if not b else c"),
        ("min(a)", "max(a)"),
        ("any(a)", "all(a)"),
    ],
)
def test_each_kind_of_change(text: str, changed: str) -> None:
    found = mutation.mutant(Path("file.py"), text, 0)
    assert found.text.strip() == changed
    assert str(found) == f"file.py:1: {text} -> {changed}"


def test_a_mutant_has_one_change() -> None:
    text = "def f(a, b):\n    if a < 1:\n        return a + 2\n    return b"
    changed = {mutation.mutant(Path("file.py"), text, number).text for number in range(5)}
    assert len(changed) == 5
    for each in changed:
        assert sum(a != b for a, b in zip(text.splitlines(), each.splitlines(), strict=False)) == 1
    with pytest.raises(IndexError):
        mutation.mutant(Path("file.py"), text, 5)


def test_a_seed_draws_the_mutants() -> None:
    first, second, other = (mutation.drawn(["sw/dynagate/graph/ops.py"], 5, seed) for seed in (1, 1, 2))
    assert first == second != other
    assert {str(each.path) for each in first} == {"sw/dynagate/graph/ops.py"}


@pytest.mark.long
def test_mutants_of_a_file_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """The tests run on the copy of the package, and the files here stay as they are."""
    path = mutation.ROOT / "sw" / "dynagate" / "base" / "arguments.py"
    before = path.read_text()
    arguments = [str(path.relative_to(mutation.ROOT)), "--mutants", "4", "--tests", "tests/calls/test_numbers.py"]
    assert mutation.main(arguments) == 0
    assert "of 4 mutants seen" in capsys.readouterr().out
    assert path.read_text() == before
