"""The iterations of a loop as C and CUDA text: an array holds the values of an iteration, which steps read and write.

An inner loop is a scope of its own, as in `graph.loop.evaluate_loop`: its carried inputs and computed values have their
own positions in the array. It shares the positions of constants and results with the loop around. It reads
per-iteration inputs from an array there, and writes kept outputs to one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dynagate.base.errors import ArgumentError
from dynagate.graph.loop import ITERATIONS, RESIDUAL, Loop, Until
from dynagate.graph.scan import Scan
from dynagate.graph.steps import LOOP, SCAN, UNTIL, Step
from dynagate.native.batch_lanes import BatchLanes
from dynagate.native.scan_text import ScanText

EXTRA = {ITERATIONS: "iterations_taken", RESIDUAL: "residual_size"}
"""Additional outputs of a loop with a tolerance -> their variables in the text."""

MOST_ON_STACK = {"vec": 4096, "real": 32768}
"""Largest number of an iteration's values on the stack, by number type. A larger array is thread-local memory."""

MOST_VALUES = 1 << 24
"""Largest number of an iteration's values: 1 GiB of the widest vectors."""

MOST_IN_LINES = 64
"""Largest number of entries of a value that are copied one by one; a larger value is copied by a loop."""

Places = Mapping[str, int]
"""Value -> position of its first entry in the array of an iteration's values."""


@dataclass(frozen=True)
class Scope:
    """A loop, and the positions of its values."""

    loop: Loop
    at: Places
    """Position of every value of an iteration."""
    starts: Places
    """For an inner loop, positions in the loop around of initial values of carried inputs, and of per-iteration
    inputs.
    """
    results: Places
    """Positions of the outputs: after the last iteration, or for every iteration."""
    body: tuple[EmittedStep, ...]
    """The steps."""
    last: Places
    """For a loop with a tolerance, positions of the values in `last` for samples that have ended."""


@dataclass(frozen=True)
class EmittedStep:
    """A step of a loop's body."""

    step: Step
    read: Places
    """Positions that a graph or scan reads."""
    scope: Scope | None = None
    """Scope of a loop."""


class Emit(NamedTuple):
    """A row of the tables of C and CUDA, for a kind of step.

    place(text, step, places of the values around it): the part that it is.
    lines(text, scope around it, part, indent): its statements.
    """

    place: Callable[[Any, Any, Places], EmittedStep]
    lines: Callable[[Any, Scope, EmittedStep, str], Iterator[str]]


class LoopText(ABC):
    """The statements of all iterations of a loop.

    Attributes:
        number: "vec" for DG_LANES samples, "real" for one.
        scope: Positions in the array `v` of an iteration's values.
        size: Length of that array.
        direct: Kept values that steps write directly to their outputs.
    """

    emits: ClassVar[Mapping[str, Emit]]
    """For each kind of step, how it is placed and emitted."""
    direct: frozenset[str] = frozenset()

    def __init__(self, loop: Loop, number: str) -> None:
        self.loop, self.number = loop, number
        self.zero = f"({number}){{0}}"
        """Expression of zero in the C type."""
        self.size = 0
        self.scans: dict[tuple[int, tuple[int, ...]], ScanText] = {}
        """Emitted scans by scan and places: a scan that occurs again with the same ones is emitted once."""
        self.scope = self._placed(loop, {})
        if self.size > MOST_VALUES:
            raise ArgumentError(
                f"loop '{loop.name}' of {loop.robot} has {self.size:,} values an iteration; expected at "
                f"most {MOST_VALUES:,}",
                code="DG-COMPILE-017",
            )
        self._results = {port.name: k for k, port in enumerate(loop.outputs)}

    @abstractmethod
    def rows(self, side: str, k: int) -> tuple[str, str]:
        """Return a pointer to the numbers of the sample for input ("in") or output ("out") k, and the stride from
        one sample to the next.
        """

    def abreast(self, scope: Scope) -> BatchLanes | None:
        """Return the graphs of an inner loop whose iterations run in lanes, or None."""
        return None

    def scanned(self, scope: Scope, scan: Scan, read: Places) -> Iterator[str]:
        """Yield a scan of a loop's body."""
        key = id(scan), (*read.values(), *(scope.at[port.name] for port in scan.outputs))
        if key not in self.scans:
            self.scans[key] = ScanText(scan, f"scan{len(self.scans)}", read, scope.at)
        yield f"{self.scans[key].name}_{self.number}(v);"

    def _new(self, size: int) -> int:
        self.size += size
        return self.size - size

    def _placed(self, loop: Loop, around: Places) -> Scope:
        """Return the scope of a loop and its inner loops, given the positions of the values around it."""
        inputs, carried = {port.name for port in loop.inputs}, set(loop.carry.values())
        outputs = {port.name: len(port.nodes) for port in loop.outputs}
        own = carried | (set(EXTRA) if isinstance(loop.stop, Until) else set())
        apart = carried.union(loop.per_iteration)
        at: dict[str, int] = {}
        for name, port in loop.values.items():
            shared = name not in apart if name in inputs else name in outputs and name not in loop.kept
            at[name] = around[name] if around and shared else self._new(len(port.nodes))
        results = {
            name: around[name] if around else self._new(size) if name in own else at[name]
            for name, size in outputs.items()
        }
        starts = {name: around[name] for name in (*loop.carry.values(), *loop.per_iteration)} if around else {}
        last = {name: self._new(outputs[name]) for name in loop.last} if isinstance(loop.stop, Until) else {}
        body = tuple(self.emits[step.kind].place(self, step, at) for step in loop.steps)
        return Scope(loop, at, starts, results, body, last)

    def place(self, step: Step, at: Places) -> EmittedStep:
        """Place a graph or scan. Inputs with the name of one of its outputs are read from positions of their own."""
        anew = {port.name for port in step.outputs}
        return EmittedStep(
            step, {p.name: self._new(len(p.nodes)) if p.name in anew else at[p.name] for p in step.inputs}
        )

    def place_loop(self, loop: Loop, at: Places) -> EmittedStep:
        """Place an inner loop."""
        return EmittedStep(loop, {}, self._placed(loop, at))

    def array(self) -> str:
        """Return the declaration of `v`."""
        apart = "static _Thread_local " if self.size > MOST_ON_STACK[self.number] else ""
        return f"{apart}{self.number} v[{max(self.size, 1)}];"

    def sample(self) -> Iterator[str]:
        """Yield all iterations, from the inputs to the outputs. The text uses `count`, the number of iterations."""
        loop = self.loop
        yield f"    {self.array()}"
        for port in loop.inputs:
            if port.name not in loop.per_iteration:
                yield f"    {self._get(port.name, '')}"
        yield from self.emits[loop.kind].lines(self, self.scope, EmittedStep(loop, {}, self.scope), "    ")
        for name in self._results:
            if name not in loop.kept:
                yield f"    {self._put(name, self.scope.results[name], '')}"

    def _get(self, name: str, iteration: str) -> str:
        rows, stride = self.rows("in", [port.name for port in self.loop.inputs].index(name))
        return f"dg_get_{self.number}(v + {self.scope.at[name]}, {rows}{iteration}, {stride}, {self._of(name)});"

    def _put(self, name: str, place: int, iteration: str) -> str:
        rows, stride = self.rows("out", self._results[name])
        return f"dg_put_{self.number}(v + {place}, {rows}{iteration}, {stride}, {self._of(name)});"

    def _of(self, name: str) -> int:
        return next(len(port.nodes) for port in (*self.loop.inputs, *self.loop.outputs) if port.name == name)

    def iteration_offset(self, name: str, every: int = 1) -> str:
        """Return the offset of this iteration's numbers, with one set of numbers for every `every` iterations."""
        return f" + iteration{f' / {every}' if every > 1 else ''} * {self._of(name)}"

    def counted(self, around: Scope, part: EmittedStep, indent: str) -> Iterator[str]:
        """Yield all iterations of a loop with a number of iterations."""
        assert part.scope is not None
        scope = part.scope
        loop, inner = scope.loop, indent + "    "
        yield from _moves(scope, loop.carry.values(), scope.starts, scope.at, indent)
        outermost = scope is self.scope
        count = "count" if outermost else loop.max_iterations
        abreast = None if outermost else self.abreast(scope)
        if abreast:
            yield from (indent + line for line in abreast.begin())
        iterations = (
            f"iteration = {count} - 1; iteration >= 0; iteration--"
            if loop.backwards
            else f"iteration = 0; iteration < {count}; iteration++"
        )
        yield f"{indent}for (long {iterations}) {{"
        if outermost:
            yield from (f"{inner}{self._get(name, self.iteration_offset(name))}" for name in loop.per_iteration)
        else:
            yield from (_of_iteration(scope, name, inner) for name in loop.per_iteration)
        if abreast:
            yield from (inner + line for line in abreast.iteration())
        yield from self._body(scope, inner, len(abreast.first) if abreast else 0)
        kept = [name for name in loop.kept if not (outermost and name in self.direct)]
        if kept and loop.every > 1:
            yield f"{inner}if ((iteration + 1) % {loop.every} == 0) {{"
        for name in kept:
            if outermost:
                yield f"{inner}{self._put(name, scope.at[name], self.iteration_offset(name, loop.every))}"
            else:
                yield _to_iteration(scope, name, inner)
        if kept and loop.every > 1:
            yield f"{inner}}}"
        yield from _moves(scope, loop.last, scope.at, scope.results, inner)
        yield from self._carried(scope, inner, "")
        yield f"{indent}}}"

    def _body(self, scope: Scope, indent: str, begin: int = 0) -> Iterator[str]:
        for part in scope.body[begin:]:
            yield from _moves(scope, part.read, scope.at, part.read, indent)
            lines = self.emits[part.step.kind].lines
            if part.scope is None:
                yield from lines(self, scope, part, indent)
                continue
            yield f"{indent}{{"
            yield from lines(self, scope, part, indent + "    ")
            yield f"{indent}}}"

    def _carried(self, scope: Scope, indent: str, active: str) -> Iterator[str]:
        """Yield the moves of carried values. All are read before any is written, since two may be exchanged."""
        values, names = zip(*scope.loop.carry.items(), strict=True) if scope.loop.carry else ((), ())
        sources, to = _runs(scope, values, scope.at), _runs(scope, names, scope.at)
        where = f"dg_where_{self.number}({active}, {{}}, v[{{}}])" if active else "{}"
        if set(_entries(to)).isdisjoint(_entries(sources)):
            yield from _copies(to, sources, where, indent)
            return
        yield f"{indent}const {self.number} moved[] = {{{', '.join(f'v[{k}]' for k in _entries(sources))}}};"
        for k, place in enumerate(_entries(to)):
            yield f"{indent}v[{place}] = {where.format(f'moved[{k}]', place)};"

    def until(self, around: Scope, part: EmittedStep, indent: str) -> Iterator[str]:
        """Yield all iterations of a loop with a tolerance. Samples that have ended keep their values while others
        continue.
        """
        assert part.scope is not None
        scope, stop = part.scope, part.scope.loop.stop
        assert isinstance(stop, Until)
        yield from _moves(scope, scope.loop.carry.values(), scope.starts, scope.at, indent)
        inner, number, names = indent + "    ", self.number, scope.loop.last
        iterations, size = EXTRA[ITERATIONS], EXTRA[RESIDUAL]
        values, last = _runs(scope, names, scope.at), _runs(scope, names, scope.last)
        yield f"{indent}{number} active = {self.zero} + (real)1, {iterations} = {{0}}, {size} = {{0}};"
        yield from _set_to(last, self.zero, indent)
        yield f"{indent}for (int k = 0; k < {stop.at_most} && dg_any_{number}(active); k++) {{"
        yield from self._body(scope, inner)
        residual = f"v[{scope.at[stop.residual]}]"
        yield f"{inner}{iterations} = {iterations} + active;"
        yield f"{inner}{size} = dg_where_{number}(active, dg_size_{number}({residual}), {size});"
        yield from _copies(last, values, f"dg_where_{number}(active, {{}}, v[{{}}])", inner)
        yield f"{inner}const {number} on = dg_above_{number}({residual}, (real){stop.tolerance!r}, active);"
        yield from self._carried(scope, inner, "active")
        yield f"{inner}active = on;\n{indent}}}"
        yield from _copies(_runs(scope, names, scope.results), last, "{}", indent)
        yield from (f"{indent}v[{scope.results[name]}] = {variable};" for name, variable in EXTRA.items())


def in_lines(emitted: Callable[[Any, Scope, Any, Places], Iterator[str]]) -> Emit:
    """Return the row of a kind of step without inner steps; `emitted` yields its lines without the indent."""

    def lines(text: Any, scope: Scope, part: EmittedStep, indent: str) -> Iterator[str]:
        yield from (indent + line for line in emitted(text, scope, part.step, part.read))

    return Emit(LoopText.place, lines)


COMMON = {
    LOOP: Emit(LoopText.place_loop, LoopText.counted),
    UNTIL: Emit(LoopText.place_loop, LoopText.until),
    SCAN: in_lines(LoopText.scanned),
}
"""Rows that the tables of C and of CUDA share."""

Run = tuple[int, int]
"""Position and number of entries of a value."""


def _size(scope: Scope, name: str) -> int:
    return len(scope.loop.values[name].nodes)


def _runs(scope: Scope, names: Iterable[str], places: Places) -> list[Run]:
    """Return the runs of values of a loop."""
    return [(places[name], _size(scope, name)) for name in names]


def _entries(runs: Iterable[Run]) -> list[int]:
    """Return the positions of all entries of runs."""
    return [place + j for place, size in runs for j in range(size)]


def _copies(to: Iterable[Run], sources: Iterable[Run], value: str, indent: str) -> Iterator[str]:
    """Yield copies of runs; `value` formats an entry from its source and its position."""
    for (place, size), (source, _) in zip(to, sources, strict=True):
        if size > MOST_IN_LINES:
            text = value.format(f"v[{source} + j]", f"{place} + j")
            yield f"{indent}for (int j = 0; j < {size}; j++) v[{place} + j] = {text};"
        else:
            yield from (f"{indent}v[{place + j}] = {value.format(f'v[{source + j}]', place + j)};" for j in range(size))


def _set_to(runs: Iterable[Run], value: str, indent: str) -> Iterator[str]:
    for place, size in runs:
        yield f"{indent}for (int j = 0; j < {size}; j++) v[{place} + j] = {value};"


def _of_iteration(scope: Scope, name: str, indent: str) -> str:
    """Emit the copy of an inner loop's value for this iteration from the array of the outer loop."""
    size = _size(scope, name)
    source = f"v[{scope.starts[name]} + iteration * {size} + j]"
    return f"{indent}for (int j = 0; j < {size}; j++) v[{scope.at[name]} + j] = {source};"


def _to_iteration(scope: Scope, name: str, indent: str) -> str:
    size, every = _size(scope, name), scope.loop.every
    iteration = f"iteration / {every}" if every > 1 else "iteration"
    place = f"v[{scope.results[name]} + {iteration} * {size} + j]"
    return f"{indent}for (int j = 0; j < {size}; j++) {place} = v[{scope.at[name]} + j];"


def _moves(scope: Scope, names: Iterable[str], sources: Places, to: Places, indent: str) -> Iterator[str]:
    """Yield copies of values from one set of positions to another, where they differ."""
    moved = [name for name in names if name in sources and sources[name] != to[name]]
    yield from _copies(_runs(scope, moved, to), _runs(scope, moved, sources), "{}", indent)
