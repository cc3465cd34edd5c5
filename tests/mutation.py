"""Count the small changes of the code that the tests see: `python -m tests.mutation FOLDER... --mutants 200`.

A mutant is the code with one change: another comparison, operator, constant or branch. The tool copies the repository
to build/mutation, so the working tree stays as it is. For each mutant it runs the tests of the mutated package there,
and prints the mutants that pass all of them. The score is the share of mutants that some test fails on.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "mutation"
TESTS = {"fixedpoint": ("tests/fixedpoint",), "graph": ("tests/graph",)}
"""Folder of the package -> tests that run on its mutants."""
SECONDS = 600.0
"""A run of the tests that takes longer counts as a failure: the mutant does not end."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A file with one change."""

    path: Path
    """Path of the file, relative to the repository."""
    line: int
    before: str
    after: str
    text: str
    """The whole file with the change."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


def changes(node: ast.AST) -> Iterator[Callable[[], ast.AST]]:
    """Yield functions that change a node in place, or return the node to put in its place."""

    def compared(node: ast.Compare, kind: type[ast.cmpop]) -> ast.AST:
        node.ops[0] = kind()
        return node

    def operated(node: ast.BinOp, kind: type[ast.operator]) -> ast.AST:
        node.op = kind()
        return node

    def called(node: ast.Call, name: str) -> ast.AST:
        node.func = ast.Name(name, ast.Load())
        return node

    def negated(node: ast.If | ast.While | ast.IfExp) -> ast.AST:
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield lambda: compared(node, COMPARISONS[type(node.ops[0])])
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield lambda: operated(node, OPERATORS[type(node.op)])
    elif isinstance(node, ast.BoolOp):
        yield lambda: ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield lambda: node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda: ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        value = node.value
        yield lambda: ast.Constant(value + 1 if isinstance(value, int) else 2.0 * value or 1.0)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield lambda: negated(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        name = CALLS[node.func.id]
        yield lambda: called(node, name)


class Replace(ast.NodeTransformer):
    """Put another node in the place of one."""

    def __init__(self, old: ast.AST, change: Callable[[], ast.AST]) -> None:
        self.old, self.change, self.texts = old, change, ("", "")

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self.old:
            return self.generic_visit(node)
        before = ast.unparse(node).splitlines()[0]
        changed = ast.copy_location(self.change(), node)
        self.texts = before, ast.unparse(ast.fix_missing_locations(changed)).splitlines()[0]
        return changed


def mutant(path: Path, text: str, number: int) -> Mutant:
    tree = ast.parse(text)
    node, change = [(node, change) for node in ast.walk(tree) for change in changes(node)][number]
    replace = Replace(node, change)
    changed = ast.unparse(ast.fix_missing_locations(replace.visit(tree)))
    return Mutant(path, node.lineno, *replace.texts, changed + "\n")  # type: ignore[attr-defined]


def modules_in(place: Path) -> list[Path]:
    """Return a file, or the modules of a folder, relative to the repository."""
    return [path.relative_to(ROOT) for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])]


def drawn(folders: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return mutants of all modules in folders, in an order that a seed draws."""
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for name in folders for path in modules_in(ROOT / name)}
    sites = [
        (path, number)
        for path, text in texts.items()
        for number in range(sum(1 for node in ast.walk(ast.parse(text)) for _ in changes(node)))
    ]
    random.Random(seed).shuffle(sites)
    return [mutant(path, texts[path], number) for path, number in sites[:count]]


def copy_repository() -> None:
    """Copy the files that git lists to the folder of the mutants, links included."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (source := ROOT / name).exists() or source.is_symlink():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, COPY / name, follow_symlinks=False)


def fails(tests: Sequence[str]) -> bool:
    """Return whether a test fails in the copy, or does not end."""
    environment = {**os.environ, "PYTHONPATH": str(COPY / "sw"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=COPY, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def tests_of(path: Path, tests: Sequence[str]) -> Sequence[str]:
    """Return the tests to run on a mutant of a file."""
    return tests or next(names for folder, names in TESTS.items() if folder in path.parts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders or files whose code is changed")
    parser.add_argument("--mutants", type=int, default=200, help="number of mutants to try")
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants")
    parser.add_argument("--tests", nargs="*", default=(), help="tests to run, those of the package by default")
    options = parser.parse_args(arguments)
    tried = drawn(options.folders, options.mutants, options.seed)
    copy_repository()
    for tests in sorted({tuple(tests_of(mutant.path, options.tests)) for mutant in tried}):
        if fails(tests):
            print(f"{' '.join(tests)} fail without a mutant", file=sys.stderr)
            return 1
    seen = 0
    for mutant in tried:
        place = COPY / mutant.path
        original = place.read_text(encoding="utf-8")
        place.write_text(mutant.text, encoding="utf-8")
        killed = fails(tests_of(mutant.path, options.tests))
        place.write_text(original, encoding="utf-8")
        seen += killed
        if not killed:
            print(f"not seen: {mutant}", flush=True)
    print(f"{seen} of {len(tried)} mutants seen, {100 * seen / max(1, len(tried)):.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
