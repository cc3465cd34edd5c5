"""The scripts that reproduce figures of papers, with the commands of docs/papers.md."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Script:
    """One script, which draws one or several figures."""

    name: str
    """Name in the list, such as `variational/figure_3`."""
    command: tuple[str, ...]
    """Arguments of Python, from the root of the source."""
    result: str
    """File that the script writes last, in its folder."""
    short: tuple[str, ...] = ("--short",)
    """Options that make the script take seconds instead of minutes."""
    needs: str = "numba"
    """Module that the script imports beyond the package."""
    extra: str = "papers"
    """Extra of the package that brings it."""

    def shown(self) -> str:
        """Return the command as a reader types it."""
        return " ".join(("dynagate", *self.command[2:]) if self.is_cli else ("python", *self.command))

    @property
    def is_cli(self) -> bool:
        """Whether the script is a command of the package instead of a file in examples/."""
        return self.command[:2] == ("-m", "dynagate")

    def arguments(self, folder: Path, short: bool) -> list[str]:
        """Return the process's arguments for results in this folder."""
        place = ["--folder", str(folder)]
        if self.is_cli:  # it keeps its figures next to its JSON
            place = ["--figures", str(folder), "--json", str(folder / self.result)]
        return [sys.executable, *self.command, *place, *(self.short if short else ())]


def _module(package: str, name: str, needs: str = "numba", extra: str = "papers") -> Script:
    """Return the row of a module of this folder."""
    command = ("-m", f"examples.papers.{package}.{name}")
    return Script(f"{package}/{name}", command, f"{name}.json", needs=needs, extra=extra)


VARIATIONAL = ("figure_2", "figure_3", "figure_4a", "figure_4b", "measurements")
POSITION_BASED = ("energy", "cost", "optimizers", "batches", "swimmer", "motion", "sliding_box", "slope")
SCRIPTS = (
    Script(
        "gradient",
        ("-m", "dynagate", "bench", "iiwa14"),
        "bench.json",
        short=("--no-pinocchio", "--batch", "16"),
        needs="scipy",
        extra="bench",
    ),
    Script("parallel", ("examples/parallel_forward_dynamics.py",), "figures.json"),
    *(_module("variational", name) for name in VARIATIONAL),
    *(_module("position_based", name) for name in POSITION_BASED),
    _module("position_based", "learn", "stable_baselines3", "learn"),
)
