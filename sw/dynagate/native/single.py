"""Generate one C file that computes a graph in floating point for one state, for a computer without vector
instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.untrusted import plain_text
from dynagate.graph import Graph, Port
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.graph.slots import slots_of
from dynagate.native.expressions import NATIVE
from dynagate.native.one_state import OneState
from dynagate.native.source import kernel_name

TYPES = {"float32": ("float", "f", 1e-3), "float64": ("double", "", 1e-9)}
"""Number types: the name in C, the suffix of functions and constants, and the tolerance of the test vector relative to
the largest result.
"""

STATES = 5
"""Number of states in the test vector."""


def emit_single(graph: Graph, region: Region, dtype: str) -> dict[str, str]:
    """Return the C file by its name.

    Args:
        graph: The graph.
        region: Operating region from which the states of the test vector are drawn.
        dtype: One of TYPES.
    """
    slot, slots = slots_of(graph, graph.output_nodes)
    file = OneState(graph, f"{kernel_name(graph)}_single", "number", "void", slot, slots)
    segments = file.segments(
        [_statement(graph, i, slot, dtype) for i in range(len(graph)) if graph.nodes[i].op != "input"]
    )
    return file.file(
        [
            *_interface(file),
            "#include <math.h>\n",
            f"typedef {TYPES[dtype][0]} number;\n",
            *segments,
            *file.function(len(segments)),
            *_check(file, region, dtype),
        ]
    )


def _interface(file: OneState) -> Iterator[str]:
    """Yield the comment for callers."""
    yield "/* Of one state, in rad, m, s, kg and N, row by row:"
    yield from file.described()
    yield f" * The function {file.name} has no state, checks nothing, and needs sin, cos, exp and sqrt of"
    yield f" * math.h at most. The macro {file.name.upper()}_CHECK adds a main, which returns in how many"
    yield " * states of a test vector the results are wrong. */\n"


def _statement(graph: Graph, i: int, slot: Sequence[int], dtype: str) -> str:
    node, (_, end, _) = graph.nodes[i], TYPES[dtype]
    operands = [f"m[{slot[a]}]" for a in node.args]
    if node.constant is not None:
        operands.append(_literal(2.0**node.constant if node.op == "shift" else node.constant, dtype))
    row = NATIVE[node.op]
    if node.op == "noise":
        raise ArgumentError(
            f"{graph.name} has random numbers; expected a function without them for a single file of C",
            code="DG-COMPILE-019",
        )
    if row.single:
        text = f"{row.single}{end}({operands[0]})"
    elif row.function:
        x, y, z = (*operands, *operands[:1] * (3 - len(operands)))
        text = f"{x} > 0 ? {y} : {z}"
    else:
        text = row.text.format(*operands)
    return f"    m[{slot[i]}] = {text}; /* {plain_text(node.name)} */"


def _literal(value: float, dtype: str) -> str:
    """Return a constant as a hexadecimal literal, which needs no conversion at run time."""
    number = float(np.float32(value)) if dtype == "float32" else float(value)
    text = f"{number.hex()}{TYPES[dtype][1]}"
    return f"({text})" if number < 0.0 else text


def _check(file: OneState, region: Region, dtype: str) -> Iterator[str]:
    """Yield the test vector, and a main function that compares results with it."""
    graph = file.graph
    states = region.states(graph, STATES, seed=1)
    results = evaluate(graph, states)

    def rows(ports: Iterable[Port], arrays: Mapping[str, np.ndarray]) -> list[list[str]]:
        table = np.concatenate([arrays[port.name].reshape(STATES, -1) for port in ports], axis=1)
        return [[_literal(float(x), dtype) for x in row] for row in table]

    bound = _literal(TYPES[dtype][2] * max(float(np.abs(value).max()) for value in results.values()), dtype)
    each = f""" {{
            const number error = output[j] - check_out[k][j];
            same &= (error < 0 ? -error : error) <= {bound};
        }}"""
    same = f"int same = 1;\n        {file.name}(check_in[k], output);"
    yield from file.check(rows(graph.inputs, states), rows(graph.outputs, results), same, each)
