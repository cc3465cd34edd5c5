"""Run the cocotb bench of a ring: turns of trajectories in, and the results that the integer executor gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Array
from dynagate.design.codec import put_row_bits
from dynagate.design.ring import ring_design
from dynagate.fixedpoint.models.evaluate import quantize_inputs
from dynagate.fixedpoint.models.feedback import FeedbackModel, Turn, Turns
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import RING_TOP
from dynagate.hw.designs import Design
from dynagate.sim.runner import Icarus, run_bench
from dynagate.sim.verilate import RING_PORTS, cocotb_program


def run_ring_bench(
    built: Design[Pipeline],
    inputs: Mapping[str, Array],
    steps: npt.NDArray[np.int64],
    *,
    every: Sequence[int] = (1, 3),
    seed: int = 1,
    ring: Path | None = None,
    icarus: bool = False,
) -> None:
    """Stream trajectories through a ring under pauses, once for each `every`, then with the number of steps of the
    first one in the register and no stops in the stream. Raises SimulationError on a difference from the integers.

    inputs: the starts of what is carried, (batch, ·), and the others turn by turn, (batch, turns, ·). steps: of each
    trajectory. The second turn of the first trajectory says that an input does not fit. ring: another module than the
    built one. icarus: in Icarus Verilog, not in Verilator.
    """
    assert built.design.body.ring is not None
    turns = Turns.of(steps, built.design.body.ring.capacity)
    tags = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, len(turns.turn))
    payloads, results = _payloads(built, inputs, steps, turns, tags)
    data: dict[str, Any] = {
        "latency": built.hardware.plan.latency,
        "ii": built.hardware.plan.ii,
        "seed": seed,
        "every": np.array(every),
    }
    data |= {"inputs": payloads, "outputs": results, "shown": np.array([_shown(turns, steps, k) for k in every])}
    same = np.full(len(steps), steps[0])
    alike = Turns.of(same, built.design.body.ring.capacity)
    payloads, results = _payloads(built, inputs, same, alike, np.zeros(len(alike.turn), np.int64), stops=False)
    data |= {"steps": steps[0], "endless": payloads, "ended": results}
    bare, files = built.module("datapath"), (ring or built.module("rollout"), built.module("datapath"))
    program = Icarus(RING_TOP, files) if icarus else cocotb_program(files[0], RING_TOP, RING_PORTS, also=[bare])
    run_bench(program, "dynagate.sim.bench_ring", data)


def _shown(turns: Turns, steps: npt.NDArray[np.int64], every: int) -> npt.NDArray[np.bool_]:
    """Which turns' results come out."""
    return np.asarray(((turns.turn + 1) % every == 0) | (turns.turn + 1 == steps[turns.trajectory]))


def _payloads(
    built: Design[Pipeline],
    inputs: Mapping[str, Array],
    steps: npt.NDArray[np.int64],
    turns: Turns,
    tags: npt.NDArray[np.int64],
    *,
    stops: bool = True,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Payloads of the turns, and of their results."""
    assert built.design.body.ring is not None
    formatted, design, carry = built.formatted, ring_design(built.design), dict(built.design.body.ring.carry)
    nodes, count = built.graph.input_nodes, len(turns.turn)
    integers = quantize_inputs(formatted, turns.inputs(inputs, carry.values()))
    last = np.arange(count) == count - 1
    commands = turns.commands(steps) if stops else turns.commands(steps) & 1
    of_first = turns.trajectory == 0
    bad = of_first & (turns.turn == 1)
    columns = [*(integers[i] for i in nodes), commands + 4 * bad + 8 * last, tags]

    rows = _turn_by_turn(built, inputs, carry, int(steps.max()))
    each = [np.stack([row.values[i] for row in rows]) for i in built.graph.output_nodes]
    results = design.output.codec.from_columns([values[turns.turn, turns.trajectory] for values in each])
    flags = np.stack([np.column_stack([row.by_scope, row.flagged]) for row in rows])[turns.turn, turns.trajectory]
    flags[:, -1] |= of_first & (turns.turn >= 1)
    bits = [*flags.T, last, *((tags >> k & 1).astype(bool) for k in range(32))]
    put_row_bits(results, design.output.overflow, np.stack(bits, axis=1))
    return design.input.codec.from_columns(columns), results


def _turn_by_turn(
    built: Design[Pipeline], inputs: Mapping[str, Array], carry: Mapping[str, str], count: int
) -> list[Turn]:
    """The turns of all trajectories, those after a trajectory's end too."""
    carried = {i for port in built.graph.inputs if port.name in carry.values() for i in port.nodes}
    loop: FeedbackModel | None = None
    rows = []
    for k in range(count):
        row = {name: x if name in carry.values() else x[:, k] for name, x in inputs.items()}
        integers = quantize_inputs(built.formatted, row)
        loop = loop or FeedbackModel(built.formatted, carry, {i: integers[i] for i in carried})
        rows.append(loop.turn({i: x for i, x in integers.items() if i not in carried}))
    return rows
