"""The turns of a loop as text, for C and CUDA: values of a turn in one array, steps that read and write there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from dynagate.base.untrusted import identifier
from dynagate.graph import Graph
from dynagate.graph.loop import RESIDUAL, TURNS, Loop, Until

EXTRA = {TURNS: "turns_taken", RESIDUAL: "residual_size"}
"""Outputs of a loop with a tolerance -> their variables."""


class LoopText(ABC):
    """The statements of all turns. number: "vec" for DG_LANES samples, "real" for one.

    at: where each value begins in the array of a turn's values, `v`. size: of that array. direct: values that are kept
    and that steps write to their outputs without it.
    """

    direct: frozenset[str] = frozenset()

    def __init__(self, loop: Loop, number: str) -> None:
        self.loop, self.number = loop, number
        self.at: dict[str, int] = {}
        self.size = 0
        self._place(loop)
        self._results = {port.name: k for k, port in enumerate(loop.outputs)}

    @abstractmethod
    def rows(self, side: str, k: int) -> tuple[str, str]:
        """Of input ("in") or output ("out") k: a pointer to the numbers of the sample, and their stride from one sample
        to the next."""

    @abstractmethod
    def computed(self, graph: Graph) -> Iterator[str]:
        """A graph of the body, from values to values."""

    def _place(self, loop: Loop) -> None:
        for name, port in loop.values.items():
            if name not in self.at:
                self.at[name] = self.size
                self.size += len(port.nodes)
        for step in loop.steps:
            if isinstance(step, Loop):
                self._place(step)

    def sample(self) -> Iterator[str]:
        """All turns, from the inputs to the outputs. The text has `count`, the turns of a loop that counts."""
        loop = self.loop
        yield f"    {self.number} v[{max(self.size, 1)}];"
        place = {port.name: p for p, port in enumerate(loop.inputs)}
        for name, p in place.items():
            if name not in loop.per_turn:
                yield f"    {self._get(name, p, '')}"
        yield from self._turns(loop, place, "    ")
        for name, k in self._results.items():
            if name not in loop.kept:
                yield f"    {self._put(name, k, '')}"

    def _get(self, name: str, p: int, turn: str) -> str:
        rows, stride = self.rows("in", p)
        return f"dg_get_{self.number}(v + {self.at[name]}, {rows}{turn}, {stride}, {self._of(name)});"

    def _put(self, name: str, k: int, turn: str) -> str:
        rows, stride = self.rows("out", k)
        at = f"&{EXTRA[name]}" if self._is_extra(name) else f"v + {self.at[name]}"
        return f"dg_put_{self.number}({at}, {rows}{turn}, {stride}, {self._of(name)});"

    def _of(self, name: str) -> int:
        return 1 if self._is_extra(name) else len(self.loop.values[name].nodes)

    def _is_extra(self, name: str) -> bool:
        """Whether it is an output by which the loop itself says how it ended; those of a loop within are values."""
        return name in EXTRA and isinstance(self.loop.stop, Until)

    def turn_of(self, name: str, every: int = 1) -> str:
        """How far the numbers of this turn are from the first ones, if there are some every so many turns."""
        return f" + turn{f' / {every}' if every > 1 else ''} * {self._of(name)}"

    def _turns(self, loop: Loop, place: Mapping[str, int], indent: str) -> Iterator[str]:
        if isinstance(loop.stop, Until):
            yield from self._until(loop, loop.stop, indent)
            return
        count = "count" if loop is self.loop else loop.stop.turns
        turns = f"turn = {count} - 1; turn >= 0; turn--" if loop.backwards else f"turn = 0; turn < {count}; turn++"
        yield f"{indent}for (long {turns}) {{"
        for name in loop.per_turn:
            yield f"{indent}    {self._get(name, place[name], self.turn_of(name))}"
        yield from self._body(loop, indent + "    ")
        kept = [name for name in loop.kept if name not in self.direct]
        if kept and loop.every > 1:
            yield f"{indent}    if ((turn + 1) % {loop.every} == 0) {{"
        for name in kept:
            yield f"{indent}    {self._put(name, self._results[name], self.turn_of(name, loop.every))}"
        if kept and loop.every > 1:
            yield f"{indent}    }}"
        yield from self._carried(loop, indent + "    ", "")
        yield f"{indent}}}"

    def _body(self, loop: Loop, indent: str) -> Iterator[str]:
        for step in loop.steps:
            if isinstance(step, Loop):
                yield f"{indent}{{"
                yield from self._turns(step, {}, indent + "    ")
                yield f"{indent}}}"
            else:
                yield from (indent + line for line in self.computed(step))

    def _carried(self, loop: Loop, indent: str, active: str) -> Iterator[str]:
        """All values are read before any is written: two may change places."""
        moves = [
            (self.at[name] + j, self.at[value] + j)
            for value, name in loop.carry.items()
            for j in range(len(loop.values[name].nodes))
        ]
        if not moves:
            return
        direct = {to for to, _ in moves}.isdisjoint(source for _, source in moves)
        if not direct:
            yield f"{indent}const {self.number} moved[] = {{{', '.join(f'v[{source}]' for _, source in moves)}}};"
        for k, (to, source) in enumerate(moves):
            value = f"v[{source}]" if direct else f"moved[{k}]"
            yield f"{indent}v[{to}] = {f'dg_where_{self.number}({active}, {value}, v[{to}])' if active else value};"

    def _until(self, loop: Loop, stop: Until, indent: str) -> Iterator[str]:
        """Samples that are done keep their values while others go on."""
        inner, number = indent + "    ", self.number
        turns, size = EXTRA[TURNS], EXTRA[RESIDUAL]
        entries = [self.at[name] + j for name in loop.last for j in range(len(loop.values[name].nodes))]
        yield f"{indent}{number} active = ({number}){{0}} + (real)1, {turns} = {{0}}, {size} = {{0}};"
        yield f"{indent}{number} last[{max(len(entries), 1)}] = {{0}};"
        yield f"{indent}for (int k = 0; k < {stop.at_most} && dg_any_{number}(active); k++) {{"
        yield from self._body(loop, inner)
        residual = f"v[{self.at[stop.residual]}]"
        yield f"{inner}{turns} = {turns} + active;"
        yield f"{inner}{size} = dg_where_{number}(active, dg_size_{number}({residual}), {size});"
        for k, at in enumerate(entries):
            yield f"{inner}last[{k}] = dg_where_{number}(active, v[{at}], last[{k}]);"
        yield f"{inner}const {number} on = dg_above_{number}({residual}, (real){stop.tolerance!r}, active);"
        yield from self._carried(loop, inner, "active")
        yield f"{inner}active = on;\n{indent}}}"
        yield from (f"{indent}v[{at}] = last[{k}];" for k, at in enumerate(entries))
        if loop is not self.loop:
            yield from (f"{indent}v[{self.at[name]}] = {variable};" for name, variable in EXTRA.items())


def loop_name(loop: Loop) -> str:
    """The robot and the loop as a C name."""
    return f"{identifier(loop.robot)}_{loop.name}"


def graphs(loop: Loop) -> Iterator[Graph]:
    """The graphs of a loop's body and of the loops in it, in order."""
    for step in loop.steps:
        if isinstance(step, Loop):
            yield from graphs(step)
        else:
            yield step
