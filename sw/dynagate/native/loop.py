"""Generate C for a loop, and call it with numpy arrays.

The iterations run inside the vectors of samples, so the state of the samples stays in the cache. The values of an
iteration are in one array. A step that occurs twice is emitted once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_fits, check_written, of_type, real
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.graph import Graph
from dynagate.graph.graph import Port
from dynagate.graph.loop import Count, Loop
from dynagate.graph.scan import TABLE
from dynagate.graph.steps import GRAPH, table
from dynagate.native.arrays import TYPES, address, check
from dynagate.native.batch_lanes import LANES, BatchLanes, first_graphs
from dynagate.native.compile import LOOPS, CompileError, library
from dynagate.native.emit import REGISTERS, SEGMENT_OPERATIONS
from dynagate.native.expressions import functions
from dynagate.native.graph_text import PLACES, GraphText
from dynagate.native.kernel import SHARED_ROWS, check_threads
from dynagate.native.loop_text import COMMON, LoopText, Places, Scope, in_lines
from dynagate.native.pool import Pool
from dynagate.native.register_allocation import KernelProgram, is_source, program
from dynagate.native.source import PRECISIONS, CSource, kernel_name

NUMBERS = ("vec", "real")
"""Types of the numbers in C: DG_LANES samples, or one."""

ROWS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
"""Type of the C functions that compute a range of rows, as threads that share a batch call them."""


class _Code(GraphText):
    """A graph as C functions for vectors and for single numbers. Values between its segments have their own memory.

    Args:
        arguments: Arguments of the functions, where NUMBER stands for the type.
        read: C expression of entry j of each input.
        written: C expression of entry j of each output.
    """

    def __init__(
        self, graph: Graph, name: str, arguments: Sequence[str], read: Mapping[str, str], written: Mapping[str, str]
    ) -> None:
        super().__init__(graph, name)
        self.arguments = arguments
        self.program: KernelProgram = program(self.graph, REGISTERS, SEGMENT_OPERATIONS)
        self.read = [read[port.name] for port in self.graph.inputs]
        self.written = [written[port.name] for port in self.graph.outputs]

    @classmethod
    def of_step(cls, graph: Graph, name: str, read: Places, written: Places) -> _Code:
        """Return the code of a step of a loop, which reads and writes the iteration's array at these positions."""
        entries = [
            {p.name: f"v[{at[p.name]} + {{j}}]" for p in ports}
            for at, ports in ((read, graph.inputs), (written, graph.outputs))
        ]
        return cls(graph, name, ["NUMBER *restrict v"], *entries)

    @classmethod
    def of_body(cls, graph: Graph, name: str) -> _Code:
        """Return the code of a scan's body: a function of pointers to its ports."""
        reads = {port.name: f"in{k}[{{j}}]" for k, port in enumerate(graph.inputs)}
        writes = {port.name: f"out{k}[{{j}}]" for k, port in enumerate(graph.outputs)}
        types = ("real" if port.name == TABLE else "NUMBER" for port in graph.inputs)
        arguments = [f"const {type} *in{k}" for k, type in enumerate(types)]
        arguments += [f"NUMBER *out{k}" for k in range(len(graph.outputs))]
        reads |= {TABLE: f"DG_ALL({reads[TABLE]})"} if TABLE in reads else {}
        return cls(graph, name, arguments, reads, writes)

    def input(self, p: int, j: int) -> str:
        return self.read[p].format(j=j)

    def output(self, p: int, j: int) -> str:
        return self.written[p].format(j=j)

    def lines(self) -> Iterator[str]:
        name = self.name
        for side, texts in (("in", self.read), ("out", self.written)):
            yield from (f"#define {name}_{side}_{p}(j) {text.format(j='(j)')}" for p, text in enumerate(texts))
        passed = ", ".join(["m", *(argument.split("*")[1].split()[-1] for argument in self.arguments)])
        macros = {
            "ARGUMENTS": ", ".join(["NUMBER *restrict m", *self.arguments]),
            "INPUT(p, j, slot)": f"{name}_in_##p(j)",
            "OUTPUT(p, j, slot)": f"{name}_out_##p(j)",
        }
        for number in NUMBERS:
            yield f"static _Thread_local {number} {name}_m_{number}[{self.program.slots}];"
            yield f"#define NUMBER {number}\n#define SEGMENT(s) {name}_{number}_##s"
            yield from (f"#define {macro} {text}" for macro, text in macros.items())
            yield from self.segments(self.program)
            yield f"static void {name}_{number}({', '.join(self.arguments)}) {{"
            yield f"    {number} *const m = {name}_m_{number};"
            yield from self._sines(number)
            yield from (f"    {name}_{number}_{s}({passed});" for s in range(len(self.program.segments)))
            yield from self._uncomputed(number)
            yield "}"
            yield "\n".join(f"#undef {macro}" for macro in ("NUMBER", "SEGMENT", *PLACES)) + "\n"

    def _sines(self, number: str) -> Iterator[str]:
        """Yield the sines and cosines of inputs, written into their slots."""
        angles, slot = self.angles, self.program.slot
        if angles and number == "vec":
            yield "    vec sine, cosine;"
            for a, own in angles.items():
                yield f"    dg_sincos({self.sources[a]}, &sine, &cosine);"
                yield from (f"    m[{slot[own[op]]}] = {c};" for op, c in _RESULT.items() if op in own)
        elif angles:  # the angles in vectors
            yield f"    real angle[{len(angles)} + DG_LANES] = {{{', '.join(self.sources[a] for a in angles)}}};"
            yield f"    real sine[{len(angles)} + DG_LANES], cosine[{len(angles)} + DG_LANES];"
            yield f"    for (int a = 0; a < {len(angles)}; a += DG_LANES) {{"
            yield "        vec s, c;\n        dg_sincos(dg_load(angle + a), &s, &c);"
            yield "        dg_store(sine + a, s);\n        dg_store(cosine + a, c);\n    }"
            for k, own in enumerate(angles.values()):
                yield from (f"    m[{slot[own[op]]}] = {c}[{k}];" for op, c in _RESULT.items() if op in own)

    def _uncomputed(self, number: str) -> Iterator[str]:
        """Yield the outputs that no segment writes: inputs, their sines and cosines, and zeros."""
        for p, j, i in self.outputs:
            if is_source(self.graph, i):
                yield f"    {self.output(p, j)} = {self.sources.get(i) or f'm[{self.program.slot[i]}]'};"
            elif self.graph.nodes[i].is_zero:
                yield f"    {self.output(p, j)} = ({number}){{0}};"


_RESULT = {"sin": "sine", "cos": "cosine"}


class _Rows(LoopText):
    """All iterations of DG_LANES samples, or of one, at `row` of the arrays."""

    def __init__(self, loop: Loop, number: str, steps: dict[tuple[int, tuple[int, ...]], _Code]) -> None:
        super().__init__(loop, number)
        self.steps = steps
        """Emitted steps by graph and places: a step that occurs again with the same ones is emitted once."""
        self.in_lanes = any(first_graphs(each) for each in loop.inner_loops())
        """Whether iterations of one sample run in lanes, in vectors like those of DG_LANES samples."""

    def array(self) -> str:
        return f"vec *const v = {LANES};" if self.in_lanes and self.number == "vec" else super().array()

    def rows(self, side: str, k: int) -> tuple[str, str]:
        return f"{side}[{k}] + row * {side}_stride[{k}]", f"{side}_stride[{k}]"

    def computed(self, scope: Scope, graph: Graph, read: Places) -> Iterator[str]:
        yield f"{self._code(scope, graph, read).name}_{self.number}(v);"

    def _code(self, scope: Scope, graph: Graph, read: Places) -> _Code:
        key = id(graph), (*read.values(), *(scope.at[port.name] for port in graph.outputs))
        if key not in self.steps:
            self.steps[key] = _Code.of_step(graph, f"step{len(self.steps)}", read, scope.at)
        return self.steps[key]

    def abreast(self, scope: Scope) -> BatchLanes | None:
        first = first_graphs(scope.loop) if self.number == "real" else ()
        if not first:
            return None
        names = [self._code(scope, graph, scope.at).name for graph in first]
        return BatchLanes(
            scope.loop, first, scope.at, scope.starts, [(f"{x}_real(v);", f"{x}_vec({LANES});") for x in names]
        )

    def lines(self) -> Iterator[str]:
        yield (
            f"static void samples_{self.number}(const real *const *in, const long *in_stride, real *const *out, "
            "const long *out_stride, long count, long row) {"
        )
        yield from self.sample()
        yield "}\n"


C = _Rows.emits = table("native.loop.C", {**COMMON, GRAPH: in_lines(_Rows.computed)})
"""For each kind of step, its C text."""


def _lines(loop: Loop, name: str) -> Iterator[str]:
    codes: dict[tuple[int, tuple[int, ...]], _Code] = {}
    texts = [_Rows(loop, number, codes) for number in NUMBERS]
    samples = [list(text.lines()) for text in texts]
    scans = list(texts[0].scans.values())
    steps = list(codes.values())
    steps += [_Code.of_body(body, text.body_name(k)) for text in scans for k, body in enumerate(text.scan.bodies)]
    yield '#include "dynagate_simd.h"\n#include "dynagate_loop.h"\n'
    yield from functions(node.op for step in steps for node in step.graph.nodes)
    for step in steps:
        yield from step.lines()
    for text in scans:
        yield from text.tables()
        for number in NUMBERS:
            yield from text.function("static", number, f"_{number}")
    if texts[0].in_lanes:
        yield f"static _Thread_local vec {LANES}[{texts[0].size}];"
    for lines in samples:
        yield from lines
    yield from _driver(name)
    yield "DG_END"


def _driver(name: str) -> Iterator[str]:
    """Yield the function that computes rows: whole vectors, the last of which may overlap the one before; a batch of
    fewer rows than lanes runs row by row.
    """
    yield f"int DG_NAME({name})(const real *const *in, const long *in_stride, real *const *out,"
    yield "    const long *out_stride, long count, long begin, long end) {"
    yield "    dg_clear_faults();"
    arguments = "in, in_stride, out, out_stride, count"
    yield "    long row = begin;"
    yield f"    for (; row + DG_LANES <= end; row += DG_LANES) samples_vec({arguments}, row);"
    yield f"    if (row < end && end - begin >= DG_LANES) samples_vec({arguments}, end - DG_LANES);"
    yield f"    else for (; row < end; row++) samples_real({arguments}, row);"
    yield "    return dg_faults();\n}\n"
    yield "/* The same, as threads that share a batch call it: pointers, strides, iterations; pointers and strides. */"
    yield f"int DG_NAME({name}_shared)(const void *const *in, void *const *out, long begin, long end) {{"
    yield f"    return DG_NAME({name})(in[0], in[1], out[0], out[1], *(const long *)in[2], begin, end);\n}}"


def emit_loop(loop: Loop) -> CSource:
    """Generate the C file of a loop, and the files that all loops share."""
    name = kernel_name(loop)
    texts = {f"{name}.c": "\n".join(_lines(loop, name)) + "\n"}
    return CSource.of(name, texts, loop, {f"{name}.h": _header(loop, name)})


def _header(loop: Loop, name: str) -> str:
    """Return the header for callers in C."""

    def ports(of: Sequence[Port]) -> str:
        sizes = (f"{' × '.join(map(str, port.shape)) or 1}" for port in of)
        return ", ".join(f"{port.name} ({size})" for port, size in zip(of, sizes, strict=True))

    own = loop.stop.iterations if isinstance(loop.stop, Count) else None
    iterations = (
        f"iterations: {own}." if own else "iterations: those of the arrays that have some per iteration; else 1."
    )
    lines = [
        "/* Samples begin to end of a batch. Returns 0, or 1 where a value becomes too large. NaN makes results NaN.",
        f" * in: {ports(loop.inputs)}.",
        f" * out: {ports(loop.outputs)}.",
        f" * strides: numbers from one sample to the next; 0 for one of all samples. {iterations}",
        " * With DYNAGATE_DOUBLE the file is of double, else of float. */",
    ]
    for number, suffix in PRECISIONS:
        arguments = f"const {number} *const *in, const long *in_stride, {number} *const *out, const long *out_stride"
        lines.append(f"int {name}_{suffix}({arguments}, long iterations, long begin, long end);")
    return "\n".join(lines) + "\n"


class LoopKernel:
    """The C of a loop, compiled for this machine.

    Args:
        loop: The loop.
        dtype: float64 or float32.
        threads: Number of threads that share a batch.

    Raises:
        ArgumentError: The dtype or the number of threads is not accepted.
        CompileError: The source cannot be compiled.
    """

    def __init__(self, loop: Loop, dtype: npt.DTypeLike, *, threads: int = 1, folder: Path | None = None) -> None:
        self.loop, self.dtype = loop, np.dtype(dtype)
        check(self.dtype, "rows")
        check_threads(threads)
        source = emit_loop(loop)
        self.stamp = source.stamp
        path = library(source, double=self.dtype == np.float64, folder=folder, toolchain=LOOPS)
        try:
            loaded, suffix = ctypes.CDLL(str(path)), TYPES[self.dtype]
            self._call = getattr(loaded, f"{source.name}_{suffix}")
            shared = getattr(loaded, f"{source.name}_shared_{suffix}")
        except (OSError, AttributeError) as error:
            raise CompileError(f"{path} is not the library of {source.name}: {error}", code="DG-COMPILE-015") from None
        self._shared = ctypes.cast(shared, ctypes.c_void_p).value or 0
        self.threads, self._pool = threads, Pool(threads, folder) if threads > 1 else None
        self._pointers = ctypes.c_void_p * len(loop.inputs), ctypes.c_void_p * len(loop.outputs)
        self._strides = ctypes.c_long * len(loop.inputs), ctypes.c_long * len(loop.outputs)

    @property
    def address(self) -> int:
        """Address of the function, for callers in C."""
        return ctypes.cast(self._call, ctypes.c_void_p).value or 0

    def new_outputs(self, batch: int, iterations: int) -> dict[str, Array]:
        """Return arrays for `__call__`: (batch, iterations // every, *shape) for kept outputs, (batch, *shape) for
        others.
        """
        return {
            port.name: np.empty(
                (batch, *([iterations // self.loop.every] if port.name in self.loop.kept else []), *port.shape),
                self.dtype,
            )
            for port in self.loop.outputs
        }

    def __call__(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int, iterations: int) -> bool:
        """Compute the loop.

        Args:
            inputs: Name -> array (batch, *shape), or (1, *shape) for all samples; (batch, iterations, *shape) for
                per-iteration inputs.
            outputs: Arrays as `new_outputs` makes them; the first axis may have gaps.
            batch: Number of samples.
            iterations: Number of iterations.

        Returns:
            Whether all results are valid; if not, some are infinite or NaN. NaN in an input may pass unnoticed; it
            makes the last values NaN.

        Raises:
            ArgumentError: An array does not fit, or iterations differs from the loop's number.
        """
        return self.bound(inputs, outputs, batch, iterations)()

    def bound(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int, iterations: int
    ) -> Callable[[], bool]:
        """Bind arrays for repeated calls. The function keeps them alive.

        Args:
            inputs: As in `__call__`.
            outputs: As in `__call__`.
            batch: Number of samples.
            iterations: Number of iterations.

        Returns:
            A function without arguments that computes the loop and returns whether all results are valid.

        Raises:
            ArgumentError: An array does not fit, or iterations differs from the loop's number.
        """
        loop, count = self.loop, self.loop.counted(iterations)
        read, *arguments = self.given(inputs, batch, count)
        written = [outputs[port.name] for port in loop.outputs]
        for port, array in zip(loop.outputs, written, strict=True):
            shape = (*([count // loop.every] if port.name in loop.kept else []), *port.shape)
            check_written(f"output '{port.name}'", array, (batch, *shape), self.dtype)
        arguments += [self._pointers[1](*map(address, written)), self._strides[1](*map(_stride, written))]
        call, counts = self._call, (ctypes.c_long(count), ctypes.c_long(0), ctypes.c_long(batch))
        kept = (read, written)
        if self._pool is not None and batch * count >= SHARED_ROWS:
            shared = self.sharing(self._shared, batch)
            held = (*arguments, counts, kept)
            first = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (arguments[0], arguments[1], counts[0])))
            last = (ctypes.c_void_p * 2)(*map(ctypes.addressof, arguments[2:]))
            return lambda: held is not None and shared(first, last) == 0

        def run() -> bool:
            return kept is not None and call(*arguments, *counts) == 0

        return run

    def given(self, inputs: Mapping[str, Array], batch: int, iterations: int) -> tuple[list[Array], Any, Any]:
        """Return the inputs in the form that the C function takes: arrays to keep alive, pointers, and strides."""
        read = []
        for port in self.loop.inputs:
            label, shape = (
                f"input '{port.name}'",
                (*([iterations] if port.name in self.loop.per_iteration else []), *port.shape),
            )
            read.append(_rows(real(label, inputs[port.name]), self.dtype))
            check_fits(label, read[-1], (1 if len(read[-1]) == 1 else batch, *shape), self.dtype)
        strides = (0 if len(array) == 1 else _stride(array) for array in read)
        return read, self._pointers[0](*map(address, read)), self._strides[0](*strides)

    def sharing(self, function: int, rows: int) -> Callable[[Any, Any], int]:
        """Return a call of a C function, given by its address, in which all threads share a number of rows."""
        if self._pool is not None:
            pool = self._pool
            return lambda inputs, outputs: pool.run(function, inputs, outputs, (0, 0), rows)
        call = ROWS(function)
        return lambda inputs, outputs: int(call(inputs, outputs, 0, rows))

    def close(self) -> None:
        """Stop the threads. Later calls run on the calling thread."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _rows(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array in a dtype, with contiguous samples."""
    own = of_type(array, dtype)
    return own if own.ndim and own[:1].flags.c_contiguous else np.ascontiguousarray(own)


def _stride(array: Array) -> int:
    """Return the number of elements from one sample to the next."""
    if array[:1].flags.c_contiguous and array.strides[0] % array.itemsize == 0:
        return array.strides[0] // array.itemsize if len(array) > 1 else array.size
    raise ArgumentError(
        f"samples of shape {array.shape[1:]} are not in one piece; expected a contiguous array", code="DG-COMPILE-016"
    )
