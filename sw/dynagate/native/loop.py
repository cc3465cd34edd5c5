"""C of a loop: the turns inside the vector, so that the state of the samples stays in the cache from first to last.

Values of a turn lie in one array, steps have the memory of their segments besides. A step that occurs twice is emitted
once.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.base.untrusted import identifier
from dynagate.graph import Graph
from dynagate.graph.loop import RESIDUAL, TURNS, Loop, Until
from dynagate.graph.ops import TRIG
from dynagate.native.arrays import TYPES, check
from dynagate.native.compile import CompileError, library
from dynagate.native.emit import REGISTERS, SEGMENT_OPERATIONS, Source, head_comment, segments
from dynagate.native.expressions import functions
from dynagate.native.program import Program, is_source, program
from dynagate.native.sums import chained

SHARED = ("dynagate_simd.h", "dynagate_loop.h")
EXTRA = {TURNS: "turns_taken", RESIDUAL: "residual_size"}
"""Outputs of a loop with a tolerance -> their C variables."""

KINDS = {"vec": "ROWS", "real": "ONE"}
"""What NUMBER is -> what the macros of its segments are called."""

Array = npt.NDArray[Any]


class _Step:
    """A graph of the body as C: its segments, and where its inputs and outputs are in their memory."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = chained(graph), name
        self.program: Program = program(self.graph, REGISTERS, SEGMENT_OPERATIONS)

    def lines(self) -> Iterator[str]:
        graph, slot, name = self.graph, self.program.slot, self.name
        sources = {
            (graph.nodes[i].args[0], graph.nodes[i].op): slot[i]
            for i in range(len(graph.nodes))
            if graph.nodes[i].op in TRIG and is_source(graph, i)
        }
        angles = list(dict.fromkeys(a for a, _ in sources))
        for number, kind in KINDS.items():
            yield f"#define NUMBER {number}\n#define SEGMENT(s) {name}_{number}_##s"
            yield from (f"#define {macro} {kind}_{macro}" for macro in ("ARGUMENTS", "INPUT", "OUTPUT"))
            yield segments(graph, self.program)
            yield "\n".join(f"#undef {macro}" for macro in ("NUMBER", "SEGMENT", "ARGUMENTS", "INPUT", "OUTPUT"))
            yield f"static void {name}_{number}({number} *restrict m) {{"
            if angles and number == "vec":
                yield "    vec sine, cosine;"
                for a in angles:
                    yield f"    dg_sincos(m[{slot[a]}], &sine, &cosine);"
                    yield from (f"    m[{sources[a, op]}] = {c};" for op, c in _RESULT.items() if (a, op) in sources)
            elif angles:  # the angles side by side in vectors
                yield f"    real angle[{len(angles)} + DG_LANES] = {{{', '.join(f'm[{slot[a]}]' for a in angles)}}};"
                yield f"    real sine[{len(angles)} + DG_LANES], cosine[{len(angles)} + DG_LANES];"
                yield f"    for (int a = 0; a < {len(angles)}; a += DG_LANES) {{"
                yield "        vec s, c;\n        dg_sincos(dg_load(angle + a), &s, &c);"
                yield "        dg_store(sine + a, s);\n        dg_store(cosine + a, c);\n    }"
                for k, a in enumerate(angles):
                    yield from (
                        f"    m[{sources[a, op]}] = {c}[{k}];" for op, c in _RESULT.items() if (a, op) in sources
                    )
            yield from (f"    {name}_{number}_{s}(m);" for s in range(len(self.program.segments)))
            yield "}\n"

    def call(self, at: Mapping[str, int], number: str) -> Iterator[str]:
        """Its computation on the values of a turn. at: where each value begins among them."""
        slot = self.program.slot
        memory = f"{self.name}_m_{number}"
        for port in self.graph.inputs:
            yield from (f"{memory}[{slot[i]}] = v[{at[port.name] + j}];" for j, i in enumerate(port.nodes))
        yield f"{self.name}_{number}({memory});"
        for port in self.graph.outputs:
            for j, i in enumerate(port.nodes):
                value = f"{memory}[{slot[i]}]" if i in slot else f"({number}){{0}}"
                yield f"v[{at[port.name] + j}] = {value};"


_RESULT = {"sin": "sine", "cos": "cosine"}


class _Text:
    """The C of a loop. at: where each value begins in the array of a turn's values."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.name = f"{identifier(loop.robot)}_{loop.name}"
        self.steps: dict[int, _Step] = {}
        self.at: dict[str, int] = {}
        self.size = 0
        self._place(loop)
        for graph in _graphs(loop):
            self.steps.setdefault(id(graph), _Step(graph, f"step{len(self.steps)}"))

    def _place(self, loop: Loop) -> None:
        for name, port in loop.values.items():
            if name not in self.at:
                self.at[name] = self.size
                self.size += len(port.nodes)
        for step in loop.steps:
            if isinstance(step, Loop):
                self._place(step)

    def lines(self) -> Iterator[str]:
        yield '#include "dynagate_simd.h"\n#include "dynagate_loop.h"\n'
        yield from functions(node.op for step in self.steps.values() for node in step.graph.nodes)
        for step in self.steps.values():
            for number in KINDS:
                yield f"static _Thread_local {number} {step.name}_m_{number}[{step.program.slots}];"
            yield from step.lines()
        for number in KINDS:
            yield from self._samples(number)
        yield from self._driver()

    def _samples(self, number: str) -> Iterator[str]:
        """All turns of DG_LANES samples, or of one."""
        loop = self.loop
        yield (
            f"static void samples_{number}(const real *const *in, const long *in_stride, real *const *out, "
            "const long *out_stride, long count, long row) {"
        )
        yield f"    {number} v[{max(self.size, 1)}];"
        place = {port.name: p for p, port in enumerate(loop.inputs)}
        for name, p in place.items():
            if name not in loop.per_turn:
                yield f"    {self._get(name, p, number, '')}"
        yield from self._turns(loop, number, place, "    ")
        for name, k in self._results().items():
            if name not in loop.kept:
                yield f"    {self._put(name, k, number, '')}"
        yield "}\n"

    def _results(self) -> dict[str, int]:
        return {port.name: k for k, port in enumerate(self.loop.outputs)}

    def _get(self, name: str, p: int, number: str, turn: str) -> str:
        rows = f"in[{p}] + row * in_stride[{p}]{turn}"
        return f"dg_get_{number}(v + {self.at[name]}, {rows}, in_stride[{p}], {self._of(name)});"

    def _put(self, name: str, k: int, number: str, turn: str) -> str:
        at = f"&{EXTRA[name]}" if name in EXTRA else f"v + {self.at[name]}"
        return f"dg_put_{number}({at}, out[{k}] + row * out_stride[{k}]{turn}, out_stride[{k}], {self._of(name)});"

    def _of(self, name: str) -> int:
        return 1 if name in EXTRA else len(self.loop.values[name].nodes)

    def _turns(self, loop: Loop, number: str, place: Mapping[str, int], indent: str) -> Iterator[str]:
        if isinstance(loop.stop, Until):
            yield from self._until(loop, loop.stop, number, indent)
            return
        turns = "long turn = count - 1; turn >= 0; turn--" if loop.backwards else "long turn = 0; turn < count; turn++"
        yield f"{indent}for ({turns}) {{"
        for name in loop.per_turn:
            yield f"{indent}    {self._get(name, place[name], number, f' + turn * {self._of(name)}')}"
        yield from self._body(loop, number, indent + "    ")
        results = self._results()
        for name in loop.kept:
            yield f"{indent}    {self._put(name, results[name], number, f' + turn * {self._of(name)}')}"
        yield from self._carried(loop, number, indent + "    ", "")
        yield f"{indent}}}"

    def _body(self, loop: Loop, number: str, indent: str) -> Iterator[str]:
        for step in loop.steps:
            if isinstance(step, Loop):
                yield f"{indent}{{"
                yield from self._turns(step, number, {}, indent + "    ")
                yield f"{indent}}}"
            else:
                yield from (indent + line for line in self.steps[id(step)].call(self.at, number))

    def _carried(self, loop: Loop, number: str, indent: str, active: str) -> Iterator[str]:
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
            yield f"{indent}const {number} moved[] = {{{', '.join(f'v[{source}]' for _, source in moves)}}};"
        for k, (to, source) in enumerate(moves):
            value = f"v[{source}]" if direct else f"moved[{k}]"
            yield f"{indent}v[{to}] = {f'dg_where_{number}({active}, {value}, v[{to}])' if active else value};"

    def _until(self, loop: Loop, stop: Until, number: str, indent: str) -> Iterator[str]:
        """Samples that are done keep their values while others go on."""
        inner = indent + "    "
        turns, size = EXTRA[TURNS], EXTRA[RESIDUAL]
        entries = [self.at[name] + j for name in loop.last for j in range(len(loop.values[name].nodes))]
        yield f"{indent}{number} active = ({number}){{0}} + (real)1, {turns} = {{0}}, {size} = {{0}};"
        yield f"{indent}{number} last[{max(len(entries), 1)}] = {{0}};"
        yield f"{indent}for (int k = 0; k < {stop.at_most} && dg_any_{number}(active); k++) {{"
        yield from self._body(loop, number, inner)
        residual = f"v[{self.at[stop.residual]}]"
        yield f"{inner}{turns} = {turns} + active;"
        yield f"{inner}{size} = dg_where_{number}(active, dg_size_{number}({residual}), {size});"
        for k, at in enumerate(entries):
            yield f"{inner}last[{k}] = dg_where_{number}(active, v[{at}], last[{k}]);"
        yield f"{inner}const {number} on = dg_above_{number}({residual}, (real){stop.tolerance!r}, active);"
        yield from self._carried(loop, number, inner, "active")
        yield f"{inner}active = on;\n{indent}}}"
        yield from (f"{indent}v[{at}] = last[{k}];" for k, at in enumerate(entries))
        if loop is not self.loop:
            yield from (f"{indent}v[{self.at[name]}] = {variable};" for name, variable in EXTRA.items())

    def _driver(self) -> Iterator[str]:
        """Whole vectors, the last one over rows that the one before it has too; fewer rows than lanes one by one."""
        yield f"int DG_NAME({self.name})(const real *const *in, const long *in_stride, real *const *out,"
        yield "    const long *out_stride, long count, long begin, long end) {"
        yield "    dg_clear_faults();"
        arguments = "in, in_stride, out, out_stride, count"
        yield "    long row = begin;"
        yield f"    for (; row + DG_LANES <= end; row += DG_LANES) samples_vec({arguments}, row);"
        yield f"    if (row < end && end - begin >= DG_LANES) samples_vec({arguments}, end - DG_LANES);"
        yield f"    else for (; row < end; row++) samples_real({arguments}, row);"
        yield "    return dg_faults();\n}"


def _graphs(loop: Loop) -> Iterator[Graph]:
    for step in loop.steps:
        if isinstance(step, Loop):
            yield from _graphs(step)
        else:
            yield step


def emit_loop(loop: Loop) -> Source:
    """The C file of a loop, and the files that all loops share."""
    text = _Text(loop)
    body = "\n".join(text.lines()) + "\n"
    shared = {file: (files("dynagate.native") / file).read_text() for file in SHARED}
    stamp = hashlib.sha256("\0".join([body, *shared.values()]).encode()).hexdigest()[:16]
    head = head_comment(loop, stamp)
    return Source(text.name, {f"{text.name}.c": head + body, **shared}, stamp)


class LoopKernel:
    """The C of a loop, compiled for this machine.

    dtype: float64 or float32. Raises ValueError: another dtype; CompileError.
    """

    def __init__(self, loop: Loop, dtype: npt.DTypeLike, *, folder: Path | None = None) -> None:
        self.loop, self.dtype = loop, np.dtype(dtype)
        check(self.dtype, "rows")
        source = emit_loop(loop)
        self.stamp = source.stamp
        path = library(source, double=self.dtype == np.float64, folder=folder)
        try:
            self._call = getattr(ctypes.CDLL(str(path)), f"{source.name}_{TYPES[self.dtype]}")
        except (OSError, AttributeError) as error:
            raise CompileError(f"{path} is not the library of {source.name}: {error}") from None
        self._pointers = ctypes.c_void_p * len(loop.inputs), ctypes.c_void_p * len(loop.outputs)
        self._strides = ctypes.c_long * len(loop.inputs), ctypes.c_long * len(loop.outputs)

    @property
    def address(self) -> int:
        """Of the function in C, for callers in C."""
        return ctypes.cast(self._call, ctypes.c_void_p).value or 0

    def new_outputs(self, batch: int, turns: int) -> dict[str, Array]:
        """Arrays that `__call__` fills: (batch, turns, *shape) of values that are kept, else (batch, *shape)."""
        return {
            port.name: np.empty((batch, *([turns] if port.name in self.loop.kept else []), *port.shape), self.dtype)
            for port in self.loop.outputs
        }

    def __call__(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int, turns: int) -> bool:
        """Computes the loop. inputs: (batch, *shape) by name, or (1, *shape) for all samples; per turn (batch, turns,
        *shape). outputs: as `new_outputs` gives them; the first axis may have gaps.

        Returns whether all results are right; where not, some are infinite or no numbers."""
        read = [_rows(np.asarray(inputs[port.name]), self.dtype) for port in self.loop.inputs]
        written = [outputs[port.name] for port in self.loop.outputs]
        arguments = [
            self._pointers[0](*(array.ctypes.data for array in read)),
            self._strides[0](*(0 if len(array) == 1 else _stride(array) for array in read)),
            self._pointers[1](*(array.ctypes.data for array in written)),
            self._strides[1](*map(_stride, written)),
        ]
        return int(self._call(*arguments, ctypes.c_long(turns), ctypes.c_long(0), ctypes.c_long(batch))) == 0


def _rows(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array in a dtype, its samples each in one piece."""
    own = array.astype(dtype, copy=False)
    return own if own[:1].flags.c_contiguous else np.ascontiguousarray(own)


def _stride(array: Array) -> int:
    """Numbers from one sample to the next."""
    if array[:1].flags.c_contiguous and array.strides[0] % array.itemsize == 0:
        return array.strides[0] // array.itemsize if len(array) > 1 else array.size
    raise ArgumentError(f"samples of shape {array.shape[1:]} are not in one piece; expected a contiguous array")
