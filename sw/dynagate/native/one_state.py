"""The common part of C files for one state: entries in order, segments, slots, a check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynagate.base.untrusted import plain_text
from dynagate.graph import Graph, Port
from dynagate.native.graph_text import entries
from dynagate.native.source import stamped, wrapped

SEGMENT = 100
"""Operations in a C function: compilers take long over longer ones."""


@dataclass(frozen=True)
class OneState:
    """A C file with one function of a graph.

    name: of the function. number: the C type of an entry, `kind` what the function returns. slot, slots: where each
    node is in the function's array m, and how many places that has (`graph.slots.slots_of`).
    """

    graph: Graph
    name: str
    number: str
    kind: str
    slot: Sequence[int]
    slots: int

    @property
    def inputs(self) -> list[int]:
        """Nodes."""
        return [i for _, _, i in entries(self.graph.inputs)]

    @property
    def outputs(self) -> list[int]:
        """Nodes."""
        return [i for _, _, i in entries(self.graph.outputs)]

    @property
    def head(self) -> str:
        """The head of the function."""
        arrays = f"const {self.number} input[{len(self.inputs)}], {self.number} output[{len(self.outputs)}]"
        return f"{self.kind} {self.name}({arrays})"

    def file(self, lines: Iterable[str]) -> dict[str, str]:
        """The text by the file's name."""
        return {f"{self.name}.c": stamped(self.graph, "\n".join([*lines, ""]))}

    def described(self, of_port: Callable[[Port], Iterable[str]] = lambda _: (), end: str = "") -> Iterator[str]:
        """Lines of a comment: which entries are whose. of_port: further lines of one; end: of its first line."""
        for kind, ports in (("input", self.graph.inputs), ("output", self.graph.outputs)):
            at = 0
            for port in ports:
                shape = "".join(f"[{n}]" for n in port.shape)
                yield f" * {kind}[{at}] to {kind}[{at + len(port.nodes) - 1}]: {plain_text(port.name)}{shape}{end}"
                yield from of_port(port)
                at += len(port.nodes)

    def segments(self, statements: Sequence[str], before: Sequence[str] = (), after: Sequence[str] = ()) -> list[str]:
        """Functions over the slots m. before, after: lines around the statements of each."""
        texts = []
        for s, start in enumerate(range(0, len(statements), SEGMENT)):
            head = f"__attribute__((noinline)) static {self.kind} segment_{s}({self.number} *m) {{"
            texts.append("\n".join([head, *before, *statements[start : start + SEGMENT], *after, "}\n"]))
        return texts

    def function(
        self,
        segments: int,
        call: str = "segment_{}(m)",
        begin: Iterable[str] = (),
        checked: Iterable[str] = (),
        end: Sequence[str] = (),
    ) -> Iterator[str]:
        """The function: begin, the slots, what is checked of inputs, the calls of the segments, and what ends it."""
        yield f"{self.head} {{"
        yield from begin
        yield f"    {self.number} m[{self.slots}];"
        yield from checked
        for k, i in enumerate(self.inputs):
            yield f"    m[{self.slot[i]}] = input[{k}];"
        for s in range(segments):
            yield f"    {call.format(s)};"
        for k, i in enumerate(self.outputs):
            yield f"    output[{k}] = m[{self.slot[i]}];"
        yield from end
        yield "}\n"

    def check(
        self,
        inputs: Sequence[Sequence[str]],
        outputs: Sequence[Sequence[str]],
        same: str,
        each: str,
        more: Iterable[str] = (),
    ) -> Iterator[str]:
        """A main that compares with a test vector, behind a macro. inputs, outputs: rows of literals of each state.
        same: C of whether a state's call went well; each: C that joins `same` with output j of state k; more: lines
        that these need."""
        count = len(inputs)
        yield f"#ifdef {self.name.upper()}_CHECK"
        for what, rows in (("in", inputs), ("out", outputs)):
            text = ", ".join("{" + ", ".join(row) + "}" for row in rows)
            yield from wrapped(f"static const {self.number} check_{what}[{count}][{len(rows[0])}] = {{{text}}};")
        yield from more
        yield f"""
int main(void) {{
    {self.number} output[{len(outputs[0])}];
    int wrong = 0;
    for (int k = 0; k < {count}; k++) {{
        {same}
        for (int j = 0; j < {len(outputs[0])}; j++){each}
        wrong += !same;
    }}
    return wrong;
}}
#endif"""
