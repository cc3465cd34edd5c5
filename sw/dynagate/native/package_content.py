"""The content of a package of portable C: arguments, text, memory and test vectors of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynagate.base.arrays import Array
from dynagate.native.portable import CArgument
from dynagate.native.source import stamp_of
from dynagate.robot import Robot

STATES = 5
"""Number of states in the test vectors."""


@dataclass(frozen=True)
class ReferenceVectors:
    """Inputs and expected results of the test, each (states, *shape), and the accepted relative error by precision."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    tolerances: Mapping[str, Mapping[str, float]]
    """Precision -> output -> largest accepted error, relative to the largest entry of the output."""


@dataclass(frozen=True)
class Package:
    """Content of a package, from which its files are written."""

    name: str
    """Name of the package, its files and its functions."""
    title: str
    """Robot and function, for comments."""
    robot: Robot
    arguments: Sequence[CArgument]
    body: Sequence[str]
    """Lines of C over the type `real`, which define the function."""
    vectors: ReferenceVectors
    stack: int = 0
    """Numbers that the function keeps on the stack."""
    workspace: int | None = None
    """Numbers of the workspace that a caller passes; None for a function without one."""
    counts: bool = False
    """Whether a caller passes the number of iterations."""
    iterations: int = 1
    """Number of iterations in the test and the example, if a caller passes it."""
    reports: bool = True
    """Whether the status reports numbers that are infinite or NaN."""
    stamp: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stamp", stamp_of(self.name, *self.body))

    @property
    def inputs(self) -> list[CArgument]:
        """Return the arguments that the function reads."""
        return [each for each in self.arguments if not each.is_output]

    @property
    def outputs(self) -> list[CArgument]:
        """Return the arguments that the function writes."""
        return [each for each in self.arguments if each.is_output]

    def declared(self, number: str) -> list[str]:
        """Return the declarations of all arguments of the function for a type of numbers."""
        count = ["long iterations"] * self.counts
        memory = [] if self.workspace is None else [f"{number} *workspace", "long workspace_size"]
        return [*(each.declared(number) for each in self.arguments), *count, *memory]

    def passed(self, workspace: str = "workspace") -> list[str]:
        """Return the names of all arguments in a call of the test or the example."""
        count = [str(self.iterations)] * self.counts
        memory = [] if self.workspace is None else [workspace, f"{self.name}_workspace"]
        return [*(each.name for each in self.arguments), *count, *memory]
