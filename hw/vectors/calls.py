"""Vectors for the bench of a solver's program: calls that begin with a guess, and calls that continue the plan
before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from dynagate.control.chip import CALL, ChipSolver, calls_of
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.design.program import ProgramBody
from dynagate.fixedpoint.models.loops import FormattedLoop, LoopTrajectories
from dynagate.hw.vectors.drawn import BEYOND, SEED, Arrays, Flags, Vectors
from dynagate.hw.vectors.packets import FEWEST, Packet, entered, put, streamed_vectors
from dynagate.hw.vectors.programs import PIECES, iteration_results

LONGEST_CALL = 10_000
"""Largest number of cycles of a call, with one iteration per loop, for which a bench is written."""
FAR_EVERY = 10
"""One of this many problems is far from the region, so that values overflow."""


def solver_vectors(
    design: DesignRecord[ProgramBody],
    loading: Words,
    formatted: FormattedLoop,
    solver: ChipSolver,
    problems: Mapping[str, npt.NDArray[np.float64]],
    seed: int = SEED,
) -> Vectors:
    """Return the vectors for the bench of a solver's program.

    Args:
        design: Record with its shell.
        loading: Messages that load the program, (messages, 2).
        formatted: Loop of the solver.
        solver: The solver.
        problems: Problems to call it with, (problems, ·) by name.
        seed: Seed of the draw.
    """
    sizes = [PIECES[k % len(PIECES)] for k in range(FEWEST)]
    known, far = _drawn(solver, problems, len(sizes), seed)
    integers = LoopTrajectories(formatted, {}, len(sizes))
    formats = {port.name: formatted.input_formats(port.name) for port in formatted.inputs}
    groups: list[list[Packet]] = [[] for _ in sizes]
    late = far
    for call, (inputs, exact) in enumerate(calls_of(solver, known, max(PIECES))):
        own = entered(design, _finite(inputs, known), formats)
        source, sink = design.wire.input, design.wire.output
        sent, came = source.zeros(len(sizes)), sink.zeros(len(sizes))
        for name, words in own.words.items():
            put(sent, source, design.input, name, words)
        for name, words in iteration_results(design, integers, own.integers).items():
            put(came, sink, design.output, name, words)
        sink.put_flags(came, integers.overflow | own.bad)
        late = late | integers.overflow | own.bad
        rows = np.concatenate([exact[p.name].reshape(len(sizes), -1) for p in design.output.ports], axis=1)
        usable = ~late & np.isfinite(rows).all(axis=1)
        for k, size in enumerate(sizes):
            if call < size:
                flags = bool(integers.overflow[k]), bool(own.bad[k])
                groups[k].append(Packet(0, sent[k], came[k], *flags, rows[k] if usable[k] else None))
    return streamed_vectors(design, loading, groups, FEWEST, seed)


def _drawn(
    solver: ChipSolver, problems: Mapping[str, npt.NDArray[np.float64]], count: int, seed: int
) -> tuple[Arrays, Flags]:
    """Return this many problems in random order, and which of them are far from the region."""
    order = np.random.default_rng(seed).permutation(np.resize(np.arange(len(next(iter(problems.values())))), count))
    far = np.arange(count) % FAR_EVERY == FAR_EVERY // 2
    drawn = {name: np.array(np.asarray(x, np.float64)[order]) for name, x in problems.items()}
    for name in CALL:
        if name in drawn:
            drawn[name][far] *= BEYOND
    for part in solver.robot.quaternions():
        drawn["q"][:, part] /= np.linalg.norm(drawn["q"][:, part], axis=1, keepdims=True)
    return {name: drawn[name] for name in solver.blocks.loop.per_iteration if name in drawn}, far


def _finite(inputs: Arrays, first: Arrays) -> Arrays:
    """Return inputs of a call, with the first call's values in place of numbers that are not finite."""
    return {name: np.where(np.isfinite(x), x, first.get(name, 0.0)) for name, x in inputs.items()}
