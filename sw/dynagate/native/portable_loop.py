"""Portable C of a loop: all iterations of a rollout or a solver for one problem, in memory that the caller passes.

As in `portable`, the text is valid C11 and C++17 over a type `real`. Constants of the loop, such as the first
regularization of a solver, are in the text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dynagate.base.arrays import Array
from dynagate.graph import Graph, Port
from dynagate.graph.loop import Count, Loop
from dynagate.graph.steps import GRAPH, table
from dynagate.native.headers import in_one_text
from dynagate.native.loop_text import COMMON, LoopText, Places, Scope, in_lines
from dynagate.native.portable import CALL, SEGMENT_PLACES, CArgument, PortableStep, c_names
from dynagate.native.source import constants

TOO_SMALL, NO_ITERATIONS = 2, 3
"""Status of a call with too small a workspace, and with a number of iterations that the loop does not accept."""


class _Problem(LoopText):
    """All iterations of one problem. sources: loop input -> array in C. targets: arrays of the outputs in C."""

    def __init__(
        self, loop: Loop, steps: dict[int, PortableStep], sources: Mapping[str, str], targets: Sequence[str]
    ) -> None:
        super().__init__(loop, "real")
        self.zero = "(real)0"
        self.steps, self.sources, self.targets = steps, sources, targets

    def array(self) -> str:
        return f"real *const v = workspace, *const m = workspace + {self.size};\n    (void)m;"

    def rows(self, side: str, k: int) -> tuple[str, str]:
        return (self.sources[self.loop.inputs[k].name] if side == "in" else self.targets[k]), "0"

    def computed(self, scope: Scope, graph: Graph, read: Places) -> Iterator[str]:
        arguments = [f"v + {read[port.name]}" for port in graph.inputs]
        arguments += [f"v + {scope.at[port.name]}" for port in graph.outputs]
        yield f"{self.steps[id(graph)].name}({', '.join([*arguments, 'm'])});"


PORTABLE = _Problem.emits = table("native.portable_loop.PORTABLE", {**COMMON, GRAPH: in_lines(_Problem.computed)})
"""The portable C of each kind of step."""


class PortableLoop:
    """A loop as a C function.

    Args:
        loop: The loop.
        name: Name of the function.
        fixed: Values of inputs that are constants of the function, (1, *shape) by name.
        same: Loop input -> loop input that has the same values.
        inner: Whether only other functions of the file call it.
    """

    def __init__(
        self, loop: Loop, name: str, fixed: Mapping[str, Array], same: Mapping[str, str], *, inner: bool = False
    ) -> None:
        self.loop, self.name, self.fixed, self.same, self.inner = loop, name, fixed, same, inner
        own = loop.stop.iterations if isinstance(loop.stop, Count) else 1
        self.counts = own is None
        """Whether a call passes the number of iterations."""
        inputs = [port for port in loop.inputs if port.name not in fixed and port.name not in same]
        ports = (*inputs, *loop.outputs)
        repeated = {**dict.fromkeys(loop.per_iteration, 1), **dict.fromkeys(loop.kept, loop.every)}
        self.arguments: list[CArgument] = []
        for k, (label, port) in enumerate(zip(c_names(port.name for port in ports), ports, strict=True)):
            is_output, every = k >= len(inputs), repeated.get(port.name)
            if every is not None and own is not None:
                port, every = _of_all(port, own // every), None
            self.arguments.append(CArgument(label, port, is_output, every is not None, every or 1))
        names = {each.port.name: each.name for each in self.arguments if not each.is_output}
        sources = {port.name: f"fixed{k}" for k, port in enumerate(loop.inputs) if port.name in fixed}
        sources |= {**names, **{name: names[other] for name, other in same.items()}}
        self.steps: dict[int, PortableStep] = {}
        for graph in loop.graphs():
            self.steps.setdefault(id(graph), PortableStep(graph, f"step{len(self.steps)}", in_workspace=True))
        self.text = _Problem(loop, self.steps, sources, [each.name for each in self.arguments if each.is_output])
        self.workspace = self.text.size + max((step.program.slots for step in self.steps.values()), default=0)
        """Numbers of the workspace."""

    def body(self) -> Iterator[str]:
        """Yield the steps, and the function for callers."""
        problem = list(self.text.sample())
        scans = list(self.text.scans.values())
        yield in_one_text("dynagate_loop_one.h")
        yield SEGMENT_PLACES
        for step in self.steps.values():
            yield from step.lines()
        for text in scans:
            for k, body in enumerate(text.scan.bodies):
                yield from PortableStep(body, text.body_name(k)).lines()
            yield from text.tables()
            yield from text.function("static", "real")
        for k, port in enumerate(self.loop.inputs):
            if port.name in self.fixed:
                values = (literal(float(x)) for x in self.fixed[port.name].ravel())
                yield from constants(f"static const real fixed{k}[]", values)
        symbol = f"static int {self.name}" if self.inner else f"int {CALL}({self.name})"
        yield f"{symbol}({', '.join(self.declared('real'))}) DYNAGATE_NOEXCEPT {{"
        yield f"    if (!workspace || workspace_size < {self.workspace}) return {TOO_SMALL};"
        if self.counts:
            yield "    const long count = iterations;"
            yield f"    if (count < 1 || count % {self.loop.every}) return {NO_ITERATIONS};"
        elif isinstance(self.loop.stop, Count):
            yield f"    const long count = {self.loop.stop.iterations};"
        if self.checks:
            yield "    real doubt = 0;"
            yield from self._doubts(is_output=False)
        yield from problem
        if self.checks:
            yield from self._doubts(is_output=True)
        yield f"    return {'doubt != 0' if self.checks else '0'};\n}}"

    @property
    def checks(self) -> bool:
        """Return whether infinite numbers and NaN are reported. Bounds and costs of solvers may be infinite."""
        return isinstance(self.loop.stop, Count) and not self.fixed

    def _doubts(self, *, is_output: bool) -> Iterator[str]:
        for each in self.arguments:
            if each.is_output == is_output:
                count = f" * (count / {each.every})" if each.is_repeated else ""
                yield f"    doubt += dg_doubt({each.name}, {each.size}{count});"

    def declared(self, number: str) -> list[str]:
        """Return the declarations of all arguments for a type of numbers."""
        count = ["long iterations"] if self.counts else []
        return [
            *(each.declared(number) for each in self.arguments),
            *count,
            f"{number} *workspace",
            "long workspace_size",
        ]


def literal(value: float) -> str:
    """Return a constant of C."""
    if math.isfinite(value):
        return f"(real){value!r}"
    return "(real)NAN" if math.isnan(value) else f"(real){'-' * (value < 0)}INFINITY"


def _of_all(port: Port, count: int) -> Port:
    """Return a port with the values of this many iterations."""
    return replace(port, shape=(count, *port.shape), nodes=port.nodes * count)


def same_inputs(parts: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return loop input -> loop input with the same values, from the loop inputs of each input of a problem.

    Args:
        parts: Input of a problem -> the loop inputs that have its values, each with an index into it.
    """
    same: dict[str, str] = {}
    for own in parts.values():
        if all(at is Ellipsis for at in own.values()):
            first, *others = own
            same |= dict.fromkeys(others, first)
    return same
