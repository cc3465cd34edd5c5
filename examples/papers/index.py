"""The rows of docs/papers.md, and how the command of each row is run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
HEAD = ["figure", "the paper", "ours", "command", "verdict"]
"""Headings of the page's tables of figures."""


@dataclass(frozen=True)
class Row:
    """A row of the page: one figure, or one number, of a paper."""

    paper: str
    """Heading of the section."""
    figure: str
    published: str
    """Number or statement of the paper."""
    ours: str
    command: str
    """Command that computes it, from the root of the source."""
    verdict: str

    @property
    def script(self) -> Script:
        """Return the script of the row. Raise ValueError if no kind of command fits."""
        for kind in KINDS:
            if match := re.fullmatch(kind.pattern, self.command):
                return Script(match.expand(kind.name), self.command, kind)
        raise ValueError(f"docs/papers.md, {self.figure}: no kind of command in {__file__} fits `{self.command}`")


@dataclass(frozen=True)
class Kind:
    """How commands of one kind are run."""

    pattern: str
    """Regular expression of the whole command."""
    name: str
    """Name of the script, with the groups of the pattern."""
    needs: str = "numba"
    """Module that the script imports beyond the package."""
    extra: str = "papers"
    """Extra of the package that brings it."""
    short: tuple[str, ...] = ("--short",)
    """Options that make the script take seconds instead of minutes."""
    place: Callable[[Path], list[str]] = lambda folder: ["--folder", str(folder)]
    """Function from the folder of results to the options that name it."""


def _bench_place(folder: Path) -> list[str]:
    return ["--figures", str(folder), "--json", str(folder / "bench.json")]


BENCH_SHORT = ("--no-pinocchio", "--batch", "16")
KINDS = (
    Kind(r"dynagate (bench) \w+", r"dynagate/\1", "scipy", "bench", BENCH_SHORT, _bench_place),
    Kind(r"dynagate (run) .*", r"dynagate/\1", "amaranth", "sim", ("--states", "64")),
    Kind(r"python -m examples\.papers\.(position_based)\.(learn)", r"\1/\2", "stable_baselines3", "learn"),
    Kind(r"python -m examples\.papers\.(\w+)\.(\w+)", r"\1/\2"),
    Kind(r"python examples/(\w+)\.py", r"examples/\1"),
)
"""Kinds of commands; the first one that fits counts."""


@dataclass(frozen=True)
class Script:
    """A command, which computes one row of the page or several."""

    name: str
    """Name in the list, such as `variational/figure_3`."""
    command: str
    """Command as the page has it."""
    kind: Kind

    def arguments(self, folder: Path, short: bool) -> list[str]:
        """Return the process's arguments for results in this folder."""
        words = shlex.split(self.command)
        program = ["-m", "dynagate"] if words[0] == "dynagate" else []
        return [sys.executable, *program, *words[1:], *self.kind.place(folder), *(self.kind.short if short else ())]


def rows(page: str | None = None) -> list[Row]:
    """Return the rows of the page's tables of figures.

    Args:
        page: Text of the page; None reads docs/papers.md.
    """
    result, paper, inside = list[Row](), "", False
    for line in (PAGE.read_text(encoding="utf-8") if page is None else page).splitlines():
        if line.startswith("## "):
            paper = line[3:]
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if inside and len(cells) == len(HEAD) and not cells[0].startswith("---"):
            figure, published, ours, command, verdict = cells
            result.append(Row(paper, figure, published, ours, command.strip("`"), verdict))
        inside = cells == HEAD or (inside and bool(cells))
    return result


def scripts() -> dict[str, Script]:
    """Return the scripts of the page by name, each once, in the order of the page."""
    return {script.name: script for script in (row.script for row in rows())}
