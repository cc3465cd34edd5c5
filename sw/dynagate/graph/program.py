"""A program: steps in a scope.

    inputs ──▶ ┌ scope ───────────────────────────────┐ ──▶ outputs
               │ step 1 reads and writes values       │
               │ step 2 ...                           │
               │ step 3 = a loop = a scope of its own │
               └──────────────────────────────────────┘

Values have names. A step reads the values of its input names, and its outputs become values of their names. A name
that no step before has computed is an input of the program. A loop in the program is a scope of its own: it reads
values of the scope around it, and only its declared outputs are visible there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dynagate.graph.graph import Graph, GraphError, Port
from dynagate.graph.steps import Step


@dataclass(frozen=True)
class Program(Step):
    """An ordered list of steps in a scope.

    Raises:
        GraphError: The program is not well formed.
    """

    name: str
    robot: str
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise GraphError(f"loop '{self.name}' of '{self.robot}': {fault}", code="DG-GRAPH-014")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Values that a step reads and no step before it computes, in the shapes of one iteration. The nodes are those
        of the first graph that reads the value."""
        ports: dict[str, Port] = {}
        computed: set[str] = set()
        for step in self.steps:
            for port in step.reads:
                if port.name not in computed:
                    ports.setdefault(port.name, port)
            computed |= {port.name for port in step.outputs}
        return tuple(ports.values())

    @cached_property
    def values(self) -> dict[str, Port]:
        """All values of the scope by name: the inputs, and the outputs of the steps."""
        outputs = {port.name: port for step in self.steps for port in step.writes}
        return {**{port.name: port for port in self.inputs}, **outputs}

    def _faults(self) -> Iterator[str]:
        shapes: dict[str, tuple[int, ...]] = {}
        if not self.steps:
            yield "it has no steps"
        for step in self.steps:
            for port in step.reads:
                if shapes.setdefault(port.name, port.shape) != port.shape:
                    yield f"step '{step.name}' takes '{port.name}' as {port.shape}; it is {shapes[port.name]}"
            for port in step.writes:
                if port.name in {p.name for p in self.inputs}:
                    yield f"step '{step.name}' computes '{port.name}', which is an input of the loop"
                shapes[port.name] = port.shape

    def renamed(self, names: Mapping[str, str]) -> Program:
        return replace(self, steps=tuple(step.renamed(names) for step in self.steps))

    def mapped(self, change: Callable[[Graph], Graph]) -> Program:
        return replace(self, steps=tuple(step.mapped(change) for step in self.steps))

    def graphs(self) -> Iterator[Graph]:
        for step in self.steps:
            yield from step.graphs()
