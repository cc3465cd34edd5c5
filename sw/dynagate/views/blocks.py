"""Block diagram of a datapath: streams, passes and FIFOs on a diagonal, with the number of values between blocks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.designs import Design
from dynagate.hw.plan.flow import FIFO_LATENCY
from dynagate.hw.plan.timeline import pass_spans
from dynagate.views.svg import BLUE, FAINT, GREEN, ORANGE, SKY, Canvas, shortened

STEP_X, STEP_Y, BOX_X, BOX_Y, MARGIN = 96, 46, 86, 30, 10
STREAM, PASS, BUFFER = "#dcefe8", SKY, "#fbe8c2"
LETTERS = 13
"""Largest number of letters in a block."""


@dataclass(frozen=True)
class BlockDiagram:
    """Blocks of a datapath and the values between them."""

    rows: tuple[tuple[str, str, str], ...]
    """Name, hint and kind of each block, in the order of the data."""
    values: dict[tuple[int, int], int]
    """Number of values from one block to another, by their indices."""


def datapath_blocks(built: Design[Pipeline]) -> BlockDiagram:
    """Return the streams, the passes in the order in which they begin, and the FIFOs behind them."""
    passes = [span.name for span in pass_spans(built.hardware.plan)]
    design = built.design
    front = [("input stream", _stream_text(design, "input"), STREAM)]
    if design.axi is not None:
        front.append(
            ("from words", f"{design.axi.word} words to fixed point, {design.axi.conversion.input} cycles", STREAM)
        )
    back = [("output FIFO", _fifo_text(built), BUFFER)]
    if design.axi is not None:
        back.append(
            ("to words", f"fixed point to {design.axi.word} words, {design.axi.conversion.output} cycles", STREAM)
        )
    back.append(("output stream", _stream_text(design, "output"), STREAM))
    middle = [(name, f"pass {name}", PASS) for name in passes]
    rows = (*front, *middle, *back)
    entry, exit_ = len(front) - 1, len(front) + len(middle)
    place = {name: len(front) + k for k, name in enumerate(passes)}
    values = _values(built, place, entry, exit_)
    for k in (*range(entry), *range(exit_, len(rows) - 1)):
        values[k, k + 1] = len(built.graph.input_nodes if k < entry else built.graph.output_nodes)
    return BlockDiagram(rows, values)


def _values(built: Design[Pipeline], place: dict[str, int], entry: int, exit_: int) -> dict[tuple[int, int], int]:
    """Return how many different values each block reads from each other block."""
    graph, root, kept = built.graph, built.hardware.plan.root, built.hardware.plan.position

    def block(i: int) -> int:
        return entry if graph.nodes[i].op == "input" else place[graph.scope_paths[i][0]]

    reads = {
        (root[a], block(i))
        for i in kept
        if graph.nodes[i].op != "input"
        for a in graph.nodes[i].args
        if root[a] in kept and block(root[a]) != block(i)
    }
    values = Counter((block(i), reader) for i, reader in reads)
    values.update((block(root[i]), exit_) for i in graph.output_nodes if root[i] in kept)
    return dict(values)


def _stream_text(design: DesignRecord[DatapathBody], side: str) -> str:
    """Return the description of an input or output stream."""
    stream = getattr(design, side)
    text = f"{len(stream.fields)} numbers, {stream.bits} bits"
    if design.axi is not None:
        beats, words = getattr(design.axi.beats, side), getattr(design.axi.words, side)
        text += f"; AXI4-Stream of {design.axi.width} bits, {words} words and a tag in {beats} beats"
    return text


def _fifo_text(built: Design[Pipeline]) -> str:
    """Return the depth of the FIFO: a pipeline without stalls needs space for every sample in flight."""
    depth = math.ceil((built.hardware.plan.latency + FIFO_LATENCY) / built.hardware.plan.ii) + 1
    ends = len(built.hardware.plan.deliveries)
    each = "a FIFO of values and one of overflow flags" + (f" for each of {ends} functions" if ends > 1 else "")
    return f"{each}, {depth} results deep or more: as many as samples under way"


def draw_blocks(built: Design[Pipeline]) -> str:
    """Return the block diagram as SVG. Values for later blocks run right and down, values for earlier blocks left and
    up.
    """
    blocks = datapath_blocks(built)
    count = len(blocks.rows)
    canvas = Canvas(MARGIN * 2 + count * STEP_X, MARGIN * 2 + count * STEP_Y, "block diagram of the datapath")

    def corner(k: int) -> tuple[float, float]:
        return MARGIN + k * STEP_X, MARGIN + k * STEP_Y

    for (source, reader), number in sorted(blocks.values.items()):
        (x0, y0), (x1, y1) = corner(source), corner(reader)
        forward = reader > source
        color = BLUE if forward else ORANGE
        middle = y0 + BOX_Y / 2
        points = [(x0 + (BOX_X if forward else 0), middle), (x1 + BOX_X / 2, middle)]
        canvas.arrow([*points, (x1 + BOX_X / 2, y1 + (0 if forward else BOX_Y))], color=color)
        canvas.text(x1 + BOX_X / 2 - 3, middle - 3, str(number), color=color, size=10, anchor="end")
    for k, (name, hint, fill) in enumerate(blocks.rows):
        x, y = corner(k)
        canvas.rectangle(x, y, BOX_X, BOX_Y, fill=fill, edge=GREEN if fill == STREAM else FAINT, hint=hint)
        canvas.text(x + BOX_X / 2, y + 19, shortened(name, LETTERS), size=11, anchor="middle")
    return canvas.markup()
