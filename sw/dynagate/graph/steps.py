"""Steps of a program, and the tables that hold what each stage does with each kind of step.

A program is a list of steps in a scope (`graph.program`). A step is a graph, a scan over links, a counted loop, or a
loop until a value is small. As `graph.ops` does for scalars, every stage has a table with a row for each kind, and
`table` checks at import that no row is missing: a new kind of step is a class here and a row in each table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dynagate.base.errors import ArgumentError

Row = TypeVar("Row")

GRAPH, LOOP, UNTIL, SCAN = "graph", "loop", "until", "scan"
KINDS = {
    GRAPH: "a graph of scalar operations",
    LOOP: "a loop with a number of iterations",
    UNTIL: "a loop that ends when a value is small",
    SCAN: "a scan over the links of a tree",
}
"""Kinds of steps, and their descriptions in error messages."""


class Step(ABC):
    """One step of a program: it computes its outputs from its inputs, which are values of its scope by name.

    `reads` and `writes` are the inputs and outputs in the shapes that they have in the scope around the step. They
    differ from `inputs` and `outputs` where a loop takes or keeps a value of every iteration.
    """

    if TYPE_CHECKING:  # fields or properties of the subclasses

        @property
        def name(self) -> str: ...
        @property
        def robot(self) -> str: ...
        @property
        def inputs(self) -> tuple[Any, ...]: ...
        @property
        def outputs(self) -> tuple[Any, ...]: ...

    @property
    @abstractmethod
    def kind(self) -> str:
        """The key of the step's row in each table, one of KINDS."""

    @property
    def reads(self) -> tuple[Any, ...]:
        return self.inputs

    @property
    def writes(self) -> tuple[Any, ...]:
        return self.outputs

    @property
    def as_graph(self) -> Any:
        """The step itself if it is a graph, else None."""
        return None

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> Step:
        """Return the step with other names of values at every depth.

        Args:
            names: Old name -> new name; other names stay.
        """

    def mapped(self, change: Callable[[Any], Any]) -> Step:
        """Return the step with another graph for each graph in it. Bodies of scans stay."""
        return self

    def graphs(self) -> Iterator[Any]:
        """Yield the graphs of the step at every depth, in order, without bodies of scans."""
        return iter(())

    def loops(self) -> Iterator[Any]:
        """Yield the step if it is a loop, then the loops in it at every depth, in order."""
        return iter(())


def table(name: str, rows: Mapping[str, Row]) -> Mapping[str, Row]:
    """Return the rows of a stage's table by kind of step.

    Raises:
        ValueError: A kind has no row, or a row no kind.
    """
    for kind in KINDS:
        if kind not in rows:
            raise ValueError(f"table {name} has no row for steps of kind '{kind}'")
    for kind in rows:
        if kind not in KINDS:
            raise ValueError(f"table {name} has a row for '{kind}', which graph.steps does not list")
    return rows


def refused(stage: str, expected: str) -> Callable[..., NoReturn]:
    """Return the row of a kind of step that a stage does not accept. Calling it raises ArgumentError.

    Args:
        stage: The stage, as in "a program for the processor".
        expected: What the stage accepts, as in "graphs and loops".
    """

    def refuse(first: Any, *arguments: Any, **options: Any) -> NoReturn:
        step = next(each for each in (first, *arguments) if isinstance(each, Step))
        raise ArgumentError(f"{step.kind} '{step.name}' in {stage}; expected {expected}", code="DG-GRAPH-022")

    return refuse
