"""Generate CUDA source for a loop, with one thread for each sample and the state in its registers.

A value that is only an output of every iteration goes directly from the step that computes it to memory. The same text
compiles as host code, for checks without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from dynagate.graph import Graph
from dynagate.graph.loop import Loop, Until
from dynagate.graph.steps import GRAPH, table
from dynagate.native import cuda
from dynagate.native.cuda import CudaText
from dynagate.native.expressions import functions
from dynagate.native.headers import in_one_text
from dynagate.native.loop_text import COMMON, LoopText, Places, Scope, in_lines
from dynagate.native.source import CSource, kernel_name, stamped

ONE = "dynagate_loop_one.h"

THREADS = 32
"""Threads of a block: one warp, so that a few thousand trajectories reach all multiprocessors."""


class _Step(CudaText):
    """A graph of the body as a function of its inputs' and outputs' places."""

    def lines(self) -> Iterator[str]:
        yield from self.segment_text()
        sources = [f"const real *in{k}" for k in range(len(self.graph.inputs))]
        targets = [f"real *out{k}" for k in range(len(self.graph.outputs))]
        yield f"SAMPLE void {self.name}({', '.join([*sources, *targets])}) {{"
        yield from (f"    {self.output(p, j)} = 0;" for p, j in self.zeros)
        yield from self.body()
        yield "}\n"


class _Thread(LoopText):
    """All iterations of one sample."""

    def __init__(self, loop: Loop, steps: dict[int, _Step]) -> None:
        super().__init__(loop, "real")
        self.steps = steps
        self.direct = frozenset(_direct(loop))

    def rows(self, side: str, k: int) -> tuple[str, str]:
        return f"{side}{k}", "0"

    def computed(self, scope: Scope, graph: Graph, read: Places) -> Iterator[str]:
        arguments = [f"v + {read[port.name]}" for port in graph.inputs]
        for port in graph.outputs:
            direct = scope is self.scope and port.name in self.direct
            to = (
                f"out{self._results[port.name]}{self.iteration_offset(port.name)}"
                if direct
                else f"v + {scope.at[port.name]}"
            )
            arguments.append(to)
        yield f"{self.steps[id(graph)].name}({', '.join(arguments)});"


CUDA = _Thread.emits = table("native.cuda_loop.CUDA", {**COMMON, GRAPH: in_lines(_Thread.computed)})
"""For each kind of step, its CUDA text."""


def _direct(loop: Loop) -> Iterator[str]:
    """Yield the values that one graph computes and that only their output reads."""
    if isinstance(loop.stop, Until) or loop.every > 1:
        return
    computed = [(port.name, step.as_graph is not None) for step in loop.steps for port in step.outputs]
    read = {port.name for step in loop.steps for port in step.inputs} | set(loop.carry) | set(loop.last)
    for name in loop.kept:
        if name not in read and [by_graph for value, by_graph in computed if value == name] == [True]:
            yield name


def emit_cuda_loop(loop: Loop, *, double: bool = False) -> str:
    """Generate a file with all iterations of a sample, `NAME_sample`, and a kernel that runs it for a batch.

    NAME(inputs..., outputs..., iterations, batch) takes arrays (batch, ...) in row-major order and needs blocks of
    NAME_THREADS threads. A loop that states its number of iterations ignores the argument. A C++ compiler compiles the
    kernel as a loop over the batch with the same arguments.

    Args:
        loop: The loop.
        double: Whether numbers are float64, else float32.
    """
    return stamped(loop, "\n".join(_lines(loop, kernel_name(loop), double))) + "\n"


def cuda_loop_source(loop: Loop, *, double: bool = False) -> CSource:
    """Return the kernel of a loop together with its host code, `dynagate_cuda.h`, as one library."""
    name = kernel_name(loop)
    arguments = cuda.host_arguments(len(loop.inputs), len(loop.outputs), "iterations", "batch")
    host = [
        "static cudaError_t prepare() { return cudaSuccess; }",
        f"static void launch({cuda.LAUNCH_ARGUMENTS}) {{",
        "    (void)planes;",
        f"    LAUNCH({name}, {name}_THREADS, 0, {arguments});",
        "}",
    ]
    sizes = [len(port.nodes) for port in (*loop.inputs, *loop.outputs)]
    every = [int(port.name in loop.per_iteration) for port in loop.inputs]
    every += [loop.every * (port.name in loop.kept) for port in loop.outputs]
    return cuda.with_host_side(name, emit_cuda_loop(loop, double=double), sizes, every, len(loop.inputs), host)


def _lines(loop: Loop, name: str, double: bool) -> Iterator[str]:
    steps: dict[int, _Step] = {}
    for graph in loop.graphs():
        steps.setdefault(id(graph), _Step(graph, f"{name}_step{len(steps)}", double))
    thread = _Thread(loop, steps)
    sample = list(thread.sample())
    scans = list(thread.scans.values())
    every = [*steps.values()]
    every += [_Step(body, text.body_name(k), double) for text in scans for k, body in enumerate(text.scan.bodies)]
    yield from cuda.head(double)
    yield "#define DG_INLINE SAMPLE"
    yield in_one_text(ONE)
    yield from functions(node.op for step in every for node in step.graph.nodes)
    sources = [f"const real *__restrict__ in{p}" for p in range(len(loop.inputs))]
    targets = [f"real *__restrict__ out{k}" for k in range(len(loop.outputs))]
    arguments = ", ".join([*sources, *targets])
    yield cuda.SEGMENT_PLACES
    for step in every:
        yield from step.lines()
    for text in scans:
        yield from text.tables()
        yield from text.function("SAMPLE", "real")
    yield f"SAMPLE void {name}_sample({arguments}, long count) {{\n    (void)count;"
    yield from sample
    yield "}\n"
    yield f"#define {name}_THREADS {THREADS}"
    moved = [
        f"{side}{k} + t * {len(port.nodes)}{iterations if port.name in each else ''}"
        for side, ports, each, iterations in (
            ("in", loop.inputs, loop.per_iteration, " * iterations"),
            ("out", loop.outputs, loop.kept, f" * (iterations / {loop.every})"),
        )
        for k, port in enumerate(ports)
    ]
    yield from cuda.each(name, name, f"{arguments}, long iterations", f"{name}_sample({', '.join(moved)}, iterations);")
