"""C source of a graph: straight-line segments over vectors of samples, and the same segments for a single sample.

A long function outgrows the instruction cache. It is therefore cut into segments, and each may run over a block of
vectors before the next one starts. Values pass from one segment to the next in memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import accumulate

from dynagate.base.caching import Cache, Same
from dynagate.graph import Graph
from dynagate.graph.packing import Packing
from dynagate.native.expressions import functions
from dynagate.native.fused_sums import fused_call
from dynagate.native.graph_text import PLACES, GraphText, shaped
from dynagate.native.nan_sentinels import watched
from dynagate.native.register_allocation import KernelProgram, is_source, program
from dynagate.native.source import PRECISIONS, CSource, constants, kernel_name, where_tables

SEGMENT_OPERATIONS = 2000
"""Approximate number of arithmetic instructions in a segment, which is about 24 kB of code."""

REGISTERS = 28
"""Values held in registers at a time. Of the 32 vector registers of AVX-512 and NEON, some remain for constants and
products.
"""

BLOCK = 6
BLOCK_BYTES = 512 * 2**10
"""Largest number of vectors in a block that passes a segment together, and largest size of their values in bytes: half
of a second-level cache.
"""

CONTRACT = """\
 * Computes rows begin to end - 1. Entries of outputs that are always zero may be left unwritten, so clear
 * the outputs once before the first call. Calls on different rows may run side by side.
 * All return 0 if every result is right. They return 1 if an input is infinite or not a number, if an angle
 * is 2^18 rad (double: 2^47) or more, or if values overflow: results may then not be finite. They clear the
 * processor's floating-point exception flags. Results may be written over an input of as many entries; where
 * they overlap otherwise, 2 is returned and they are wrong. */"""
PLANES = """
/* The same with the batch as the last axis: entry e of row r is at e * stride + r. Fastest where arrays
 * begin on cache lines and strides are an odd number of them. */"""
"""Comments of the header: the contract of functions over rows, and the arrays of functions over planes."""

WINDOW_COST = {8: 24, 4: 16, 2: 16, 1: 16}
"""Width of a window of output entries that are transposed together -> its cost in AVX-512 instructions, shuffles or
stores, whichever are more.
"""


def emit(graph: Graph, packing: Packing | None = None) -> CSource:
    """Generate the C files of a graph: header, segments, driver with its tables, and the files that all kernels share.

    The latest results without packing are cached, since a function that is opened in another dtype or layout has the
    same text.

    Args:
        graph: The graph.
        packing: Positions of the entries of packed outputs, for tables in the header.
    """
    if packing is not None:
        return _emitted(graph, packing)
    key = Same(graph.nodes), graph.robot, graph.name, graph.inputs, graph.outputs
    return _SOURCES.get(key, lambda: _emitted(graph, {}))


_SOURCES: Cache[Hashable, CSource] = Cache(most=4)


def _emitted(graph: Graph, packing: Packing) -> CSource:
    kernel = _Kernel(graph, kernel_name(graph))
    return CSource.of(kernel.name, kernel.texts(packing), graph)


class _Kernel(GraphText):
    """The files of a graph."""

    def __init__(self, graph: Graph, name: str) -> None:
        super().__init__(graph, name)
        self.program: KernelProgram = program(self.graph, REGISTERS, SEGMENT_OPERATIONS)
        self.watched = watched(self.graph)

    def expression(self, i: int, names: Mapping[int, str] | None = None, fused: Mapping[int, int] | None = None) -> str:
        if not fused or i not in fused:
            return super().expression(i, names, fused)
        call = fused_call(self.graph, i, fused[i])
        operands = [
            f"(NUMBER){{0}} + (real){x!r}" if isinstance(x, float) else names[x] if names else f"v{x}"
            for x in call.operands
        ]
        return f"DG_CALL({call.name}, {', '.join(operands)})"

    def texts(self, packing: Packing) -> dict[str, str]:
        """Return the texts by file name."""
        return {
            f"{self.name}.h": "\n".join(self._header(packing)),
            f"{self.name}_body.h": "\n".join(self.segments(self.program, self.watched)),
            f"{self.name}.c": "\n".join(self._driver()),
        }

    def _header(self, packing: Packing) -> Iterator[str]:
        """Yield the header for callers: the functions and their arguments."""
        name, graph = self.name, self.graph
        guard = f"{name}_H"  # robots ARM and arm have different headers
        yield from (f"#ifndef {guard}", f"#define {guard}", "#ifdef __cplusplus", 'extern "C" {', "#endif", "")
        yield "/* Arrays in row-major order, without gaps:"
        for kind, side in (("inputs", graph.inputs), ("outputs", graph.outputs)):
            yield from (f" *   {kind}[{k}]: {shaped(port)}" for k, port in enumerate(side))
        yield CONTRACT
        yield from self._declared("", "long begin, long end")
        yield PLANES
        yield from self._declared("_planes", "long in_stride, long out_stride, long begin, long end")
        yield "\n/* One sample, with the least latency. */"
        yield from self._declared("_one")
        yield from ("", *where_tables(name, packing), "#ifdef __cplusplus", "}", "#endif", "#endif", "")

    def _declared(self, kind: str, *more: str) -> Iterator[str]:
        """Yield a declaration in both precisions; `more` are the arguments after the arrays."""
        for real, suffix in PRECISIONS:
            arguments = ", ".join([f"const {real} *const inputs[], {real} *const outputs[]", *more])
            yield f"int {self.name}{kind}_{suffix}({arguments});"

    def _driver(self) -> Iterator[str]:
        """Yield macros and tables of slots, sizes and windows for the code that all kernels share."""
        graph, name, slot = self.graph, self.name, self.program.slot
        uncomputed = [(p, j, i) for p, j, i in self.outputs if is_source(graph, i)]
        in_slots = {*self.watched, *(i for _, _, i in uncomputed)}
        kept = [(p, j, i) for p, j, i in self.inputs if i in in_slots]
        yield f'#include "{name}.h"\n#include "dynagate_simd.h"\n'
        yield from functions(node.op for node in graph.nodes)
        yield from (f"#define {key} {value}" for key, value in self._numbers().items())
        yield from self._moves()
        for key, moved in (("KEEP_INPUTS", kept), ("GIVE_OUTPUTS", uncomputed)):
            yield f"#define {key} {' '.join(f'ENTRY({p}, {j}, {slot[i]})' for p, j, i in moved)}"
        sines = (
            f"ANGLE({p}, {j}, {self._of('sin', i)}, {self._of('cos', i)})"
            for p, j, i in self.inputs
            if i in self.angles
        )
        yield f"#define SINES {' '.join(sines)}\n"
        for key, values in self._tables().items():
            yield from constants(f"static const {'int' if key.endswith('_size') else 'short'} {key}[]", values)
        yield from self._bodies()
        yield '\n#include "dynagate_rows.h"\n\nDG_END\n'

    def _of(self, op: str, angle: int) -> int:
        """Return the slot of an angle's sine or cosine, 0 if it is not needed."""
        node = self.angles[angle].get(op)
        return 0 if node is None else self.program.slot[node]

    def _numbers(self) -> dict[str, int | str]:
        graph, slots, segments = self.graph, self.program.slots, len(self.program.segments)
        return {
            "INPUTS": len(graph.inputs),
            "OUTPUTS": len(graph.outputs),
            "INPUT_ENTRIES": len(self.inputs),
            "OUTPUT_ENTRIES": len(self.outputs),
            "SLOTS": slots,
            "SEGMENTS": segments,
            "BLOCK": max(1, min(BLOCK, BLOCK_BYTES // (64 * slots))),
            "ANGLES": len(self.angles),
            "WATCHED": len(self.watched),
            "DIRECT": int(segments == 1),
            "KERNEL": self.name,
            "KERNEL_PLANES": f"{self.name}_planes",
            "KERNEL_ONE": f"{self.name}_one",
        }

    def _tables(self) -> dict[str, list[int]]:
        slot = self.program.slot
        return {
            "input_size": [len(port.nodes) for port in self.graph.inputs],
            "output_size": [len(port.nodes) for port in self.graph.outputs],
            "input_slot": [slot[i] for _, _, i in self.inputs],
            "output_slot": [slot.get(i, 0) for _, _, i in self.outputs],
            "angle_slot": [slot[a] for a in self.angles],
            "sine_slot": [self._of("sin", a) for a in self.angles],
            "cosine_slot": [self._of("cos", a) for a in self.angles],
            "watched_slot": [slot[i] for i in self.watched],
        }

    def _moves(self) -> Iterator[str]:
        """Yield how inputs reach their slots and outputs leave them: port by port, and in windows of adjacent
        entries.
        """
        for move, together, side in (
            ("LOAD_INPUTS", "READ_INPUTS", self.graph.inputs),
            ("STORE_OUTPUTS", "WRITE_OUTPUTS", self.graph.outputs),
        ):
            offsets = accumulate((len(port.nodes) for port in side), initial=0)
            ports = [(k, len(port.nodes), at) for k, (port, at) in enumerate(zip(side, offsets, strict=False))]
            windows = [
                (k, size, at, width, offset + at)
                for (k, size, offset), port in zip(ports, side, strict=True)
                for at, width in windows_of([i in self.program.slot for i in port.nodes])
            ]
            yield f"#define {move} {' '.join(f'PORT{port}' for port in ports)}"
            yield f"#define {together} {' '.join(f'WINDOW{window}' for window in windows)}"

    def _bodies(self) -> Iterator[str]:
        """Yield the segments of each kernel: for rows, for planes, and for a single sample."""
        segments = len(self.program.segments)
        kinds = {"rows": "vec", "one": "real", **({"planes": "vec"} if segments == 1 else {})}
        for kind, number in kinds.items():
            upper = kind.upper()
            yield f"\n#define NUMBER {number}\n#define SEGMENT(s) {kind}_##s"
            yield from (f"#define {macro} {upper}_{macro}" for macro in PLACES)
            yield f'#include "{self.name}_body.h"'
            yield from (f"#undef {macro}" for macro in ("NUMBER", "SEGMENT", *PLACES))
            yield f"#define {upper}_SEGMENTS {' '.join(f'SEGMENT_CALL({kind}_{s})' for s in range(segments))}"


def windows_of(used: Sequence[bool]) -> list[tuple[int, int]]:
    """Return (first entry, width) of the windows that cover all used entries of a row at the least cost.

    Windows may overlap and contain unused entries. A window of eight may be wider than a row of five to seven entries,
    which it reads completely.
    """
    size = len(used)
    if max(WINDOW_COST) // 2 < size < max(WINDOW_COST) and all(used):
        return [(0, max(WINDOW_COST))]
    widths = {width: cost for width, cost in WINDOW_COST.items() if width <= size}
    best: list[tuple[int, list[tuple[int, int]]]] = [(0, [])] * (size + 1)
    for j in range(size - 1, -1, -1):
        if not used[j]:
            best[j] = best[j + 1]
            continue
        rests = ((width, cost, best[min(j + width, size)]) for width, cost in widths.items())
        best[j] = min(
            ((cost + after, [(min(j, size - width), width), *rest]) for width, cost, (after, rest) in rests),
            key=lambda candidate: candidate[0],
        )
    return best[0][1]
