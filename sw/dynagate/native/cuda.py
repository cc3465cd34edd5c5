"""Generate CUDA source for a graph, with one thread for each sample.

A sample's values are in registers. A graph that is too large for the compiler is cut into segments with local memory
between them. The same text compiles as host code, for checks without a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from dynagate.graph import Graph
from dynagate.graph.ops import TRIG
from dynagate.graph.packing import ZERO, Packing
from dynagate.native.expressions import functions
from dynagate.native.graph_text import GraphText, shaped
from dynagate.native.headers import in_one_text
from dynagate.native.register_allocation import KernelProgram, program
from dynagate.native.source import CSource, constants, kernel_name, stamped, where_tables

SHARED = "dynagate_sample.cuh"
HOST_SIDE = "dynagate_cuda.h"

LANES = 32
THREADS = 64
"""Threads of a block: two warps, each of which needs shared memory."""

SHARED_BYTES = 96 * 2**10
"""Largest shared memory of a block, in bytes: the smallest amount among the supported cards."""

MOST_OPERATIONS = 8000
"""Largest number of operations of a graph in one piece.

The compiler takes 3 s for the 3,000 of iiwa14, and more than four minutes for the 40,000 of Atlas.
"""

MOST_DOUBLES = 370
"""Largest number of float64 values that a graph in one piece may hold at once.

Above it nvcc 13 may assign only 32 registers: inverse dynamics of a humanoid with 29 joints then took two to four times
as long as in segments.
"""

SEGMENT_OPERATIONS = 1000
"""Operations of a segment in float32. In float64 it is half as many, since each value takes two registers."""

REGISTERS = 220
"""Values held at once in a segment in float32, besides the compiler's own; half as many in float64."""

LAUNCH = """#ifdef __CUDACC__
#define LAUNCH(kernel, threads, shared, ...) \\
    kernel<<<(batch + (threads) - 1) / (threads), threads, shared, stream>>>(__VA_ARGS__)
#else
#define LAUNCH(kernel, threads, shared, ...) ((void)stream, kernel(__VA_ARGS__))
#endif"""
LAUNCH_ARGUMENTS = (
    "real *const *inputs, real *const *outputs, long batch, long iterations, int planes, cudaStream_t stream"
)

SEGMENT_PLACES = """#define ARGUMENTS real *restrict m
#define INPUT(p, j, slot) m[slot]
#define OUTPUT(p, j, slot) m[slot]"""

MOSTLY = 0.5
"""Share of an output's entries above which the complete row, including zeros, goes through shared memory."""


@dataclass(frozen=True)
class Staged:
    """The rows of an output in shared memory."""

    size: int
    """Number of entries of the output."""
    at: tuple[int, ...] | None
    """Position of each entry in a sample's row, `ZERO` for entries that are always zero and not stored; None if the row
    has the layout of the output.
    """
    pitch: int
    """Numbers from the row of one sample to the next."""


@dataclass(frozen=True)
class Staging:
    """Shared memory of all outputs, and the threads of a block. With 0 threads a sample's results are too many:
    results are then written directly, without entries that are always zero.
    """

    outputs: tuple[Staged, ...]
    threads: int


def staging(graph: Graph, *, double: bool) -> Staging:
    """Return how the rows of a graph's outputs go through shared memory."""
    outputs = []
    for port in graph.outputs:
        used = [not graph.nodes[i].is_zero for i in port.nodes]
        size, count = len(used), sum(used)
        if size % 2 and count >= MOSTLY * size:
            outputs.append(Staged(size, None, size))
        else:
            before = accumulate(used, initial=0)
            at = tuple(k if u else ZERO for k, u in zip(before, used, strict=False))
            outputs.append(Staged(size, at, count | 1))  # odd, so that lanes are in different banks
    warp = LANES * (8 if double else 4) * sum(output.pitch for output in outputs)
    warps = min(THREADS // LANES, SHARED_BYTES // warp)
    return Staging(tuple(outputs), warps * LANES)


def emit_cuda(graph: Graph, *, double: bool = False, packing: Packing | None = None) -> str:
    """Generate a file with the mathematics of a sample, `NAME_sample`, and two kernels that run it for a batch.

    NAME(inputs..., outputs..., batch) takes arrays (batch, ...) in row-major order. It needs blocks of NAME_THREADS
    threads with NAME_SHARED bytes of dynamic shared memory. NAME_planes has the same arguments, with the batch as the
    last axis of the arrays: the threads of a warp access adjacent entries, and no shared memory is needed. It does not
    write entries that are always zero. nvcc or NVRTC compile these as kernels. A C++ compiler compiles them as loops
    over the batch with the same arguments, so that their numbers can be checked without a GPU.

    Args:
        graph: The graph.
        double: Whether numbers are float64, else float32.
        packing: Positions of the entries of packed outputs, for tables in the file.
    """
    sample = _Sample(graph, kernel_name(graph), double)
    return stamped(graph, "\n".join(sample.lines(packing or {}))) + "\n"


def cuda_source(graph: Graph, *, double: bool = False) -> CSource:
    """Return the kernels of a graph together with their host code, `dynagate_cuda.h`, as one library."""
    name = kernel_name(graph)
    arguments = host_arguments(len(graph.inputs), len(graph.outputs), "batch")
    host = [
        "static cudaError_t prepare() {",
        "#ifdef __CUDACC__",
        f"    return cudaFuncSetAttribute({name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {name}_SHARED);",
        "#else",
        "    return cudaSuccess;",
        "#endif",
        "}",
        "static void launch(" + LAUNCH_ARGUMENTS + ") {",
        "    (void)iterations;",
        f"    if (planes) LAUNCH({name}_planes, {name}_THREADS, 0, {arguments});",
        f"    else LAUNCH({name}, {name}_THREADS, {name}_SHARED, {arguments});",
        "}",
    ]
    sizes = [len(port.nodes) for port in (*graph.inputs, *graph.outputs)]
    return with_host_side(name, emit_cuda(graph, double=double), sizes, [0] * len(sizes), len(graph.inputs), host)


def host_arguments(inputs: int, outputs: int, *more: str) -> str:
    """Return the arguments of a kernel, from the arrays of `launch`."""
    ports = [f"inputs[{k}]" for k in range(inputs)] + [f"outputs[{k}]" for k in range(outputs)]
    return ", ".join([*ports, *more])


def with_host_side(
    name: str, text: str, sizes: Sequence[int], every: Sequence[int], inputs: int, host: Sequence[str]
) -> CSource:
    """Return the source of a library: kernels, and the host code that launches them.

    Args:
        name: Name of the kernels.
        text: Text of the kernels.
        sizes: Number of entries of each port, inputs first.
        every: For each port, the number of loop iterations for which it has one set of entries; 0 for one set in
            all.
        inputs: Number of inputs.
        host: Text of `prepare` and `launch`.
    """
    lines = [
        "",
        "#include <cuda_runtime.h>",
        f"#define INPUTS {inputs}",
        f"#define OUTPUTS {len(sizes) - inputs}",
        f"static const int ports[] = {{{', '.join(map(str, sizes))}}};",
        f"static const int every[] = {{{', '.join(map(str, every))}}};",
        LAUNCH,
        *host,
        f'#include "{HOST_SIDE}"',
        "",
    ]
    return CSource.of(name, {f"{name}.cu": text + "\n".join(lines)})


class CudaText(GraphText):
    """A graph as the statements of one thread, which computes one sample, in float64 if `double`."""

    def __init__(self, graph: Graph, name: str, double: bool) -> None:
        super().__init__(graph, name)
        self.double = double

    @cached_property
    def cut(self) -> KernelProgram | None:
        """The segments of a graph that is too long for one piece, or needs too many values at once; else None."""
        long = sum(1 for node in self.graph.nodes if node.args) > MOST_OPERATIONS
        if long or (self.double and most_at_once(self.graph) > MOST_DOUBLES):
            parts = 2 if self.double else 1
            return program(self.graph, REGISTERS // parts, SEGMENT_OPERATIONS // parts)
        return None

    def segment_text(self) -> Iterator[str]:
        """Yield the segments that `body` calls, until SEGMENT is defined again."""
        if self.cut:
            yield f"#undef SEGMENT\n#define SEGMENT(s) {self.name}_segment_##s"
            yield from self.segments(self.cut)

    def body(self) -> Iterator[str]:
        """Yield the statements from inputs to outputs that may not be zero."""
        return self._calls(self.cut) if self.cut else self._statements()

    def _calls(self, steps: KernelProgram) -> Iterator[str]:
        """Yield a sample as calls of segments: inputs, sines and cosines go into slots, and outputs come
        from slots.
        """
        yield f"    real m[{steps.slots}];\n    m[0] = 0;"
        yield from (f"    m[{steps.slot[i]}] = {place};" for i, place in self.sources.items())
        for a, results in self.angles.items():
            yield f"    real sin{a}, cos{a};\n    sine_cosine(m[{steps.slot[a]}], &sin{a}, &cos{a});"
            yield from (f"    m[{steps.slot[results[op]]}] = {op}{a};" for op in TRIG if op in results)
        yield from (f"    SEGMENT({s})(m);" for s in range(len(steps.segments)))
        for i, targets in self.targets.items():
            yield from (f"    {target} = m[{steps.slot[i]}];" for target in targets)

    def _statements(self) -> Iterator[str]:
        """Yield the statements of a sample in registers.

        Inputs are read where they are first needed, and outputs are written as soon as they are known, so values live
        briefly.
        """
        graph, places, written = self.graph, self.sources, self.targets
        read: set[int] = set()
        angles: set[int] = set()
        for i, node in enumerate(graph.nodes):
            if node.op == "input" and i not in written:
                continue
            for a in (*node.args, *([i] if node.op == "input" else [])):
                if a in places and a not in read:
                    read.add(a)
                    yield f"    const real v{a} = {places[a]};"
            if node.op in TRIG:
                a = node.args[0]
                if a not in angles:
                    angles.add(a)
                    yield f"    real sin{a}, cos{a};"
                    yield f"    sine_cosine(v{a}, &sin{a}, &cos{a});"
                yield f"    const real v{i} = {node.op}{a};"
            elif node.op != "input" and (not node.is_zero or graph.users[i]):
                yield f"    const real v{i} = {self.expression(i)};"
            yield from (f"    {target} = v{i};" for target in written.get(i, ()))


class _Sample(CudaText):
    """A sample of a kernel, whose entries lie `entry` apart, or outputs in shared memory if they are staged."""

    def __init__(self, graph: Graph, name: str, double: bool) -> None:
        super().__init__(graph, name, double)
        self.staged = staging(self.graph, double=double)

    def input(self, p: int, j: int) -> str:
        return f"in{p}[{j} * entry]"

    def output(self, p: int, j: int) -> str:
        at = self.staged.outputs[p].at
        return f"out{p}[staged ? {j if at is None else at[j]} : {j} * entry]"

    def lines(self, packing: Packing) -> Iterator[str]:
        """Yield the lines of the file."""
        graph, name, staged = self.graph, self.name, self.staged
        inputs, outputs = (
            [f"{side}{k}" for k in range(n)] for side, n in (("in", len(graph.inputs)), ("out", len(graph.outputs)))
        )
        arguments = ", ".join(
            [*(f"const real *__restrict__ {a}" for a in inputs), *(f"real *__restrict__ {a}" for a in outputs)]
        )
        yield from head(self.double)
        yield from functions(node.op for node in graph.nodes)
        for side, names in ((graph.inputs, inputs), (graph.outputs, outputs)):
            yield from (f"/* {a}: {shaped(port)} */" for a, port in zip(names, side, strict=True))
        yield from where_tables(name, packing)
        yield "\n/* Entries lie `entry` apart, or outputs where `store` finds them if staged. */"
        if self.cut:
            yield SEGMENT_PLACES
        yield from self.segment_text()
        yield f"SAMPLE void {name}_sample({arguments}, long entry, bool staged) {{"
        whole = {p for p, own in enumerate(staged.outputs) if own.at is None}  # complete rows in shared memory
        yield from (f"    if (staged) out{p}[{j}] = 0;" for p, j in self.zeros if p in whole)
        yield from self.body()
        yield "}\n"
        yield f"#define {name}_THREADS {staged.threads or THREADS}"
        shifted = [f"{a} + t * {len(p.nodes)}" for a, p in zip(inputs, graph.inputs, strict=True)]
        if staged.threads:
            yield from _staged(name, staged, arguments, shifted)
        else:
            shifted += [f"{a} + t * {len(p.nodes)}" for a, p in zip(outputs, graph.outputs, strict=True)]
            yield f"#define {name}_SHARED 0\n"
            yield from each(name, name, arguments, f"{name}_sample({', '.join(shifted)}, 1, false);")
        moved = ", ".join(f"{a} + t" for a in (*inputs, *outputs))
        yield from each(name, f"{name}_planes", arguments, f"{name}_sample({moved}, batch, false);")


def most_at_once(graph: Graph) -> int:
    """Return the largest number of computed values that are still to be read, over all places of a graph's order."""
    last = {a: i for i, node in enumerate(graph.nodes) for a in node.args if graph.nodes[a].args}
    ends = Counter(last.values())
    held = accumulate((i in last) - ends[i] for i in range(len(graph.nodes)))
    return max((now + ends[i] for i, now in enumerate(held)), default=0)


def head(double: bool) -> Iterator[str]:
    """Yield the first lines of a file: the number type, and the text that all files share."""
    yield f"typedef {'double' if double else 'float'} real;"
    yield "#define NUMBER real"
    yield in_one_text(SHARED)


def each(name: str, kernel: str, arguments: str, call: str) -> Iterator[str]:
    """Yield a kernel in which each thread computes one sample."""
    yield "#ifdef __CUDACC__"
    bounds = f"__launch_bounds__({name}_THREADS)"
    yield f'extern "C" __global__ void {bounds} {kernel}({arguments}, long batch) {{'
    yield "    const long t = (long)blockIdx.x * blockDim.x + threadIdx.x;"
    yield f"    if (t < batch) {call}\n}}\n#else"
    yield f'extern "C" void {kernel}({arguments}, long batch) {{'
    yield f"    for (long t = 0; t < batch; t++) {call}\n}}\n#endif"


def _staged(name: str, staging: Staging, arguments: str, inputs: list[str]) -> Iterator[str]:
    """Yield the kernel whose warps collect their results in shared memory and write them row by row."""
    numbers = LANES * sum(output.pitch for output in staging.outputs)
    yield f"#define {name}_SHARED ({staging.threads // LANES} * {numbers} * (int)sizeof(real))\n"
    stores, own, offset = [], [], 0
    for k, output in enumerate(staging.outputs):
        to = f"out{k} + first * {output.size}"
        if output.at is None:
            stores.append(f"store_flat<{output.size}>({to}, own + {offset}, lane, rows);")
        else:
            yield from constants(f"TABLE {name}_staged{k}[{output.size}]", output.at)
            stores.append(f"store<{output.size}, {output.pitch}>({to}, own + {offset}, {name}_staged{k}, lane, rows);")
        own.append(f"own + {offset} + lane * {output.pitch}")
        offset += LANES * output.pitch
    call = f"if (lane < rows) {name}_sample({', '.join([*inputs, *own])}, 1, true);"
    yield "#ifdef __CUDACC__"
    yield f'extern "C" __global__ void __launch_bounds__({name}_THREADS) {name}({arguments}, long batch) {{'
    yield "    extern __shared__ __align__(16) real shared[];"
    yield f"    real *const own = shared + threadIdx.x / LANES * {numbers};"
    yield "    const int lane = threadIdx.x % LANES;"
    yield "    const long t = (long)blockIdx.x * blockDim.x + threadIdx.x, first = t - lane;"
    yield "    const int rows = batch - first < LANES ? (int)(batch - first) : LANES;"
    yield f"    {call}"
    yield "    __syncwarp();"
    yield from (f"    {text}" for text in stores)
    yield "}\n#else"
    yield f'extern "C" void {name}({arguments}, long batch) {{'
    yield f"    real own[{numbers}] __attribute__((aligned(16)));"
    yield "    for (long first = 0; first < batch; first += LANES) {"
    yield "        const int rows = batch - first < LANES ? (int)(batch - first) : LANES;"
    yield "        for (int lane = 0; lane < LANES; lane++) {"
    yield "            const long t = first + lane;"
    yield f"            {call}\n        }}"
    yield "        for (int lane = 0; lane < LANES; lane++) {"
    yield from (f"            {text}" for text in stores)
    yield "        }\n    }\n}\n#endif"
