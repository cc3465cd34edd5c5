"""The common parts of C files that compute one state at a time: ordered entries, segments, slots and a self-test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dynagate.base.untrusted import plain_text
from dynagate.graph import Graph, Port
from dynagate.native.graph_text import entries
from dynagate.native.source import stamped, wrapped

SEGMENT = 100
"""Operations of a C function. Compilers take long for longer functions."""


@dataclass(frozen=True)
class OneState:
    """A C file with one function that computes a graph."""

    graph: Graph
    name: str
    """Name of the function."""
    number: str
    """C type of an entry."""
    kind: str
    """C type that the function returns."""
    slot: Sequence[int]
    """Position of each node in the function's array m (`graph.slots.slots_of`)."""
    slots: int
    """Length of the array m."""

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
        """Return the text by the name of its file."""
        return {f"{self.name}.c": stamped(self.graph, "\n".join([*lines, ""]))}

    def described(self, of_port: Callable[[Port], Iterable[str]] = lambda _: (), end: str = "") -> Iterator[str]:
        """Yield lines of a comment that describe the entries.

        Args:
            of_port: Yields further lines for a port.
            end: End of the first line of each port.
        """
        for kind, ports in (("input", self.graph.inputs), ("output", self.graph.outputs)):
            at = 0
            for port in ports:
                shape = "".join(f"[{n}]" for n in port.shape)
                yield f" * {kind}[{at}] to {kind}[{at + len(port.nodes) - 1}]: {plain_text(port.name)}{shape}{end}"
                yield from of_port(port)
                at += len(port.nodes)

    def segments(self, statements: Sequence[str], before: Sequence[str] = (), after: Sequence[str] = ()) -> list[str]:
        """Return functions over the slots m, with lines before and after the statements of each."""
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
        """Yield the function.

        Args:
            segments: Number of segments.
            call: Call of a segment.
            begin: Lines at the beginning.
            checked: Lines that check the inputs.
            end: Lines at the end.
        """
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
        last: Iterable[str] = (),
    ) -> Iterator[str]:
        """Yield a main function, behind a macro, that compares results with a test vector.

        Args:
            inputs: For each state, literals of the inputs.
            outputs: For each state, literals of the outputs.
            same: C expression for the success of a state's call.
            each: C statement that combines `same` with output j of state k.
            more: Lines that these need.
            last: Lines that add further results to `wrong`.
        """
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
    }}"""
        yield from last
        yield "    return wrong;\n}\n#endif"
