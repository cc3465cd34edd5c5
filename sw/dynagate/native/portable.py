"""Portable C of a graph: valid C11 and C++17, for one sample, without vectors, threads or memory of its own.

The text is written for a type `real` and is compiled once for float and once for double. It calls no function but those
of math.h. All values lie on the stack, so that any number of threads may call the function at the same time.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dynagate.graph import Graph, Port
from dynagate.graph.ops import TRIG
from dynagate.native.graph_text import GraphText
from dynagate.native.register_allocation import KernelProgram, program

REGISTERS = 14
"""Number of values that a segment holds at once. Processors have 16 to 32 registers for floating point."""

SEGMENT_OPERATIONS = 1000
"""Approximate number of operations in a C function. The time of a compiler grows faster than the length."""

CALL = "DYNAGATE_CALL"
"""Macro that makes the name of a public function from the package's name: it appends the precision."""

SEGMENT_PLACES = """#define ARGUMENTS real *restrict m
#define INPUT(p, j, slot) m[slot]
#define OUTPUT(p, j, slot) m[slot]"""
"""Definitions of the macros of `GraphText.segments`: a segment reads and writes the slots of the sample."""

KEYWORDS = (
    "alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool "
    "break case catch char char16_t char32_t char8_t class co_await co_return co_yield compl concept "
    "const const_cast consteval constexpr constinit continue decltype default delete do double "
    "dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable "
    "namespace new noexcept not not_eq nullptr operator or or_eq private protected public reflexpr "
    "register reinterpret_cast requires restrict return short signed sizeof static static_assert "
    "static_cast struct switch synchronized template this thread_local throw true try typedef typeid "
    "typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq "
)
"""Keywords of C and C++."""

OWN_NAMES = "real status workspace workspace_size iterations doubt errno NAN INFINITY NULL"
"""Names that the emitted functions use themselves, and macros of headers."""

RESERVED = frozenset(f"{KEYWORDS} {OWN_NAMES}".split())
"""Names that no argument may have."""


@dataclass(frozen=True)
class CArgument:
    """An argument of an emitted function: a pointer to the numbers of an input or output."""

    name: str
    """Name in C."""
    port: Port
    """The input or output, with the shape of one sample."""
    is_output: bool
    is_repeated: bool = False
    """Whether the array has one sample of the port for each iteration of a loop."""
    every: int = 1
    """Number of iterations for each sample of the port, if it is repeated."""

    @property
    def size(self) -> int:
        """Return the number of entries of one sample of the port."""
        return len(self.port.nodes)

    @property
    def shape(self) -> str:
        """Return the shape of the array, as comments show it."""
        steps = "iterations" if self.every == 1 else f"iterations / {self.every}"
        return "".join(f"[{n}]" for n in ([steps] if self.is_repeated else []) + [str(n) for n in self.port.shape])

    def numbers(self, iterations: int) -> int:
        """Return the number of entries of the array in a call with this many iterations."""
        return max(1, self.size * (iterations // self.every if self.is_repeated else 1))

    def declared(self, number: str) -> str:
        """Return the declaration of the argument for a type of numbers."""
        return f"{'' if self.is_output else 'const '}{number} *{self.name}"


def c_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return a different identifier of C and C++ for each name, the name itself if it is one."""
    used, identifiers = set(taken), []
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "value"
        plain = f"x{plain}" if plain[0].isdigit() else plain
        while plain in used or plain in RESERVED or keyword.iskeyword(plain):
            plain += "_"
        used.add(plain)
        identifiers.append(plain)
    return identifiers


def arguments_of(graph: Graph) -> list[CArgument]:
    """Return the arguments of the emitted function of a graph, inputs first."""
    ports = (*graph.inputs, *graph.outputs)
    names = c_names(port.name for port in ports)
    return [
        CArgument(name, port, k >= len(graph.inputs)) for k, (name, port) in enumerate(zip(names, ports, strict=True))
    ]


class PortableStep(GraphText):
    """A graph as a C function of pointers to its ports, over the type `real`."""

    constant = "{}"

    def __init__(self, graph: Graph, name: str, *, in_workspace: bool = False) -> None:
        super().__init__(graph, name)
        self.in_workspace = in_workspace
        """Whether the caller passes the memory of the slots."""

    @cached_property
    def program(self) -> KernelProgram:
        """The loads, computations and stores of the function."""
        return program(self.graph, REGISTERS, SEGMENT_OPERATIONS)

    def lines(self) -> Iterator[str]:
        """Yield the function, after the segments that it calls."""
        slot = self.program.slot
        yield f"#undef SEGMENT\n#define SEGMENT(s) {self.name}_segment_##s"
        yield from self.segments(self.program)
        sources = [f"const real *in{k}" for k in range(len(self.graph.inputs))]
        targets = [f"real *out{k}" for k in range(len(self.graph.outputs))]
        memory = ["real *m"] if self.in_workspace else []
        yield f"static void {self.name}({', '.join([*sources, *targets, *memory])}) {{"
        yield "    m[0] = 0;" if self.in_workspace else f"    real m[{self.program.slots}];\n    m[0] = 0;"
        yield from (f"    (void)in{k};" for k in range(len(self.graph.inputs)))
        yield from (f"    m[{slot[i]}] = {place};" for i, place in self.sources.items())
        for a, results in self.angles.items():
            yield from (
                f"    m[{slot[results[op]]}] = DYNAGATE_MATH({op})(m[{slot[a]}]);" for op in TRIG if op in results
            )
        yield from (f"    SEGMENT({s})(m);" for s in range(len(self.program.segments)))
        for i, places in self.targets.items():
            yield from (f"    {place} = m[{slot[i]}];" for place in places)
        yield from (f"    out{p}[{j}] = 0;" for p, j in self.zeros)
        yield "}\n"


def public_function(name: str, arguments: Sequence[CArgument], step: str) -> Iterator[str]:
    """Yield the function of a graph for callers, which reports numbers that are infinite or NaN."""
    yield f"int {CALL}({name})({', '.join(each.declared('real') for each in arguments)}) DYNAGATE_NOEXCEPT {{"
    yield "    real doubt = 0;"
    yield from (f"    doubt += dg_doubt({each.name}, {each.size});" for each in arguments if not each.is_output)
    yield f"    {step}({', '.join(each.name for each in arguments)});"
    yield from (f"    doubt += dg_doubt({each.name}, {each.size});" for each in arguments if each.is_output)
    yield "    return doubt != 0;\n}"


def graph_body(step: PortableStep, name: str, arguments: Sequence[CArgument]) -> Iterator[str]:
    """Yield the body of a package's sources: the graph over `real`, and its function for callers."""
    yield SEGMENT_PLACES
    yield from step.lines()
    yield from public_function(name, arguments, step.name)
