"""One C file that computes a graph in floating point for one state: small code for a computer that has no vectors."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dynagate.base.untrusted import plain_text
from dynagate.graph import Graph, Port
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.graph.slots import slots_of
from dynagate.native.emit import head_comment, kernel_name
from dynagate.native.expressions import NATIVE

TYPES = {"float32": ("float", "f", 1e-3), "float64": ("double", "", 1e-9)}
"""Of a type its name in C, what its functions and constants end with, and what its test vector may err by, as a part of
the largest result."""

SEGMENT = 100
"""Operations in a C function: compilers take long over longer ones."""

STATES = 5
"""Of the test vector."""

WIDTH = 118


def emit_single(graph: Graph, region: Region, dtype: str) -> dict[str, str]:
    """The C file by its name. region: where the states of its test vector are. dtype: one of TYPES."""
    name = f"{kernel_name(graph)}_single"
    slot, slots = slots_of(graph, graph.output_nodes)
    statements = [_statement(graph, i, slot, dtype) for i in range(len(graph)) if graph.nodes[i].op != "input"]
    starts = range(0, len(statements), SEGMENT)
    segments = []
    for s, start in enumerate(starts):
        head = f"__attribute__((noinline)) static void segment_{s}(number *m) {{"
        segments.append("\n".join([head, *statements[start : start + SEGMENT], "}\n"]))
    text = "\n".join(
        [
            *_interface(graph, name),
            "#include <math.h>\n",
            f"typedef {TYPES[dtype][0]} number;\n",
            *segments,
            *_function(graph, name, slot, slots, len(segments)),
            *_check(graph, region, name, dtype),
            "",
        ]
    )
    stamp = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {f"{name}.c": head_comment(graph, stamp) + text}


def _entries(ports: Iterable[Port]) -> list[int]:
    """The nodes of all entries of ports."""
    return [i for port in ports for i in port.nodes]


def _interface(graph: Graph, name: str) -> Iterator[str]:
    """The comment for callers."""
    yield "/* Of one state, in rad, m, s, kg and N, row by row:"
    for kind, ports in (("input", graph.inputs), ("output", graph.outputs)):
        at = 0
        for port in ports:
            shape = "".join(f"[{n}]" for n in port.shape)
            yield f" * {kind}[{at}] to {kind}[{at + len(port.nodes) - 1}]: {plain_text(port.name)}{shape}"
            at += len(port.nodes)
    yield f" * The function {name} has no state, checks nothing, and needs sin, cos and sqrt of"
    yield f" * math.h at most. The macro {name.upper()}_CHECK adds a main, which returns in how many"
    yield " * states of a test vector the results are wrong. */\n"


def _statement(graph: Graph, i: int, slot: Sequence[int], dtype: str) -> str:
    node, (_, end, _) = graph.nodes[i], TYPES[dtype]
    operands = [f"m[{slot[a]}]" for a in node.args]
    if node.constant is not None:
        operands.append(_literal(2.0**node.constant if node.op == "shift" else node.constant, dtype))
    row = NATIVE[node.op]
    if node.op in ("sin", "cos", "sqrt"):
        text = f"{node.op}{end}({operands[0]})"
    elif row.function:
        x, y, z = (*operands, *operands[:1] * (3 - len(operands)))
        text = f"{x} > 0 ? {y} : {z}"
    else:
        text = row.text.format(*operands)
    return f"    m[{slot[i]}] = {text}; /* {plain_text(node.name)} */"


def _literal(value: float, dtype: str) -> str:
    """A constant of the type: its bits, not a conversion at run time."""
    number = float(np.float32(value)) if dtype == "float32" else float(value)
    text = f"{number.hex()}{TYPES[dtype][1]}"
    return f"({text})" if number < 0.0 else text


def _function(graph: Graph, name: str, slot: Sequence[int], slots: int, segments: int) -> Iterator[str]:
    inputs, outputs = _entries(graph.inputs), _entries(graph.outputs)
    yield f"void {name}(const number input[{len(inputs)}], number output[{len(outputs)}]) {{"
    yield f"    number m[{slots}];"
    for k, i in enumerate(inputs):
        yield f"    m[{slot[i]}] = input[{k}];"
    for s in range(segments):
        yield f"    segment_{s}(m);"
    for k, i in enumerate(outputs):
        yield f"    output[{k}] = m[{slot[i]}];"
    yield "}\n"


def _check(graph: Graph, region: Region, name: str, dtype: str) -> Iterator[str]:
    """The test vector and a main that compares with it."""
    states = region.states(graph, STATES, seed=1)
    results = evaluate(graph, states)
    yield f"#ifdef {name.upper()}_CHECK"
    sizes = []
    for what, ports, arrays in (("in", graph.inputs, states), ("out", graph.outputs, results)):
        columns = np.concatenate([arrays[port.name].reshape(STATES, -1) for port in ports], axis=1)
        sizes.append(columns.shape[1])
        rows = ["{" + ", ".join(_literal(float(x), dtype) for x in row) + "}" for row in columns]
        text = f"static const number check_{what}[{STATES}][{sizes[-1]}] = {{{', '.join(rows)}}};"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="    ")
    largest = max(float(np.abs(value).max()) for value in results.values())
    yield f"""
int main(void) {{
    number output[{sizes[1]}];
    int wrong = 0;
    for (int k = 0; k < {STATES}; k++) {{
        int same = 1;
        {name}(check_in[k], output);
        for (int j = 0; j < {sizes[1]}; j++) {{
            const number error = output[j] - check_out[k][j];
            same &= (error < 0 ? -error : error) <= {_literal(TYPES[dtype][2] * largest, dtype)};
        }}
        wrong += !same;
    }}
    return wrong;
}}
#endif"""
