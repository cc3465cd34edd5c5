"""Whole trajectories as one loop of graphs: RIQN's iteration as a `while` inside a scan over the steps.

A turn of the scan is a step: `START`, the iteration until the residual is within the tolerance, and `FINISH`. So every
executor of `graph.loop` runs it. In C a vector of trajectories stays in the cache from its first step to its last, and
lanes that have converged keep their values while others go on, so no trajectory's numbers depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.graph import Graph, trace
from dynagate.graph.loop import TURNS, Count, Loop, Until, evaluate_loop
from dynagate.integrators.variational_graphs import CARRIED, EXCESS, EXTRAPOLATED, FINISH, INCREMENTS, ITERATION, START
from dynagate.integrators.variational_state import CONVERGED, PAST, TURNED, UNSOLVED, State, Steps
from dynagate.native.gpu import require_driver
from dynagate.native.gpu_loop import GpuLoop
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Compute = Callable[[Mapping[str, Array], Arrays, int], object]
"""Inputs, outputs to be filled, turns."""

AT_ONCE = 256
"""Steps in a call, which bounds the memory of forces that are the same for all steps."""


@lru_cache(maxsize=16)
def scan(robot: Robot, guess: int, most: int, external: bool) -> Loop:
    """The loop of a run. guess: 1 to 4; most: residual evaluations in a step; external: with forces on the links.

    Inputs: those of the first step's `START`, and limit (): the squared norm that ends a step, times dt². tau and f_ext
    are per turn. Kept of every step: q_next (nv,), good (): 1, or 0 if it did not converge, turns (): residual
    evaluations, and excess (): the squared norm of the residual beside the limit.
    """
    start = trace(robot, START, form=f"guess_{guess}", external_forces=external)
    outputs = tuple(
        replace(port, name="brought") if port.name == "momentum" else port for port in trace(robot, ITERATION).outputs
    )
    iteration: Graph = replace(trace(robot, ITERATION), outputs=outputs)
    solve = Loop(
        "riqn",
        robot.name,
        (iteration,),
        {"next": "increment"},
        Until(EXCESS.name, 1.0, most),
        last=("next", "brought", "turned", EXCESS.name),
    )
    return Loop(
        f"variational_{guess}{'_pushed' if external else ''}",
        robot.name,
        (start, solve, trace(robot, FINISH)),
        CARRIED,
        Count(),
        ("tau", "f_ext") if external else ("tau",),
        ("q_next", "good", TURNS, EXCESS.name),
        tuple(value for value, name in CARRIED.items() if name not in ("q", "share")),
    )


class Scan:
    """Steps of a robot by its loop. backend: "cpu" (C), "numpy" or "cuda"; others as `Variational` takes them.

    Raises GpuError: there is no GPU for "cuda"."""

    def __init__(self, robot: Robot, backend: str, *, guess: int, dt: float, tolerance: float, most: int) -> None:
        if backend == "cuda":
            require_driver("backend 'cuda'", "'cpu'")
        self._robot, self._backend, self._guess = robot, backend, guess
        self._dt, self._tolerance, self._most = dt, tolerance, most

    def run(self, state: State, steps: int, tau: Array, external: Array | None) -> Steps:
        """tau (steps or 1, batch, nv), external (steps or 1, batch, links, 6)."""
        batch, nv = state.q.shape
        q = np.empty((batch, steps + 1, nv))
        q[:, 0] = state.q
        kept = {name: np.empty((batch, steps)) for name in ("good", TURNS, EXCESS.name)}
        age = state.age
        for first, count in _parts(steps, age if self._guess == EXTRAPOLATED else PAST):
            part = slice(first, first + count)
            outputs = {"q_next": q[:, first + 1 : first + count + 1], **{n: a[:, part] for n, a in kept.items()}}
            guess = 3 if self._guess == EXTRAPOLATED and state.age < PAST else self._guess
            forces = {"tau": _per_turn(tau, part)}
            if external is not None:
                forces["f_ext"] = _per_turn(external, part)
            state = self._turns(guess, state, forces, outputs)
        good = kept["good"] > 0.5
        failed = ~good.all(axis=1)
        done = np.where(failed, np.argmin(good, axis=1), steps)
        last = kept[EXCESS.name][np.arange(batch), np.minimum(done, steps - 1)]
        status = np.where(failed, np.where(last <= 1.0, TURNED, UNSOLVED), CONVERGED)
        residuals = np.sqrt(kept[EXCESS.name]) * self._tolerance
        return Steps(q, kept[TURNS].astype(np.int64), residuals, state, status, done)

    def _turns(self, guess: int, state: State, forces: Arrays, outputs: Arrays) -> State:
        """Fills the outputs of some turns, and returns the state after them."""
        loop, compute = _executor(self._robot, self._backend, guess, self._most, "f_ext" in forces)
        batch, turns = outputs["good"].shape
        inputs = {
            "q": state.q,
            **{argument.name: increments for argument, increments in zip(INCREMENTS, state.past, strict=True)},
            "momentum": state.momentum,
            "share": np.full(batch, 1.0 if state.age else 0.5),
            "dt": np.full(batch, self._dt),
            "limit": np.full(batch, (self._tolerance * self._dt) ** 2),
            **forces,
        }
        needed = {port.name: np.ascontiguousarray(inputs[port.name]) for port in loop.inputs}
        outputs = outputs | {name: np.empty_like(inputs[CARRIED[name]]) for name in loop.last}
        with np.errstate(all="ignore"):
            compute(needed, outputs, turns)
        past = np.stack([outputs[f"{argument.name}_next"] for argument in INCREMENTS])
        return State(outputs["q_next"][:, -1].copy(), past, outputs["momentum_next"], state.age + turns)


def _parts(steps: int, age: int) -> Iterator[tuple[int, int]]:
    """First step and number of steps of each call; one ends where there are enough steps to extrapolate."""
    first = 0
    while first < steps:
        count = min(steps - first, AT_ONCE, PAST - age - first if age + first < PAST else AT_ONCE)
        yield first, count
        first += count


def _per_turn(forces: Array, part: slice) -> Array:
    """Forces (steps or 1, batch, ...) of some steps, with the batch in front."""
    rows = forces[part] if len(forces) > 1 else np.broadcast_to(forces, (part.stop - part.start, *forces.shape[1:]))
    return np.ascontiguousarray(np.moveaxis(rows, 0, 1))


@lru_cache(maxsize=16)
def _executor(robot: Robot, backend: str, guess: int, most: int, external: bool) -> tuple[Loop, Compute]:
    loop = scan(robot, guess, most, external)
    if backend == "cpu":
        kernel = LoopKernel(loop, np.float64)
        return loop, lambda inputs, outputs, turns: kernel(inputs, outputs, len(inputs["q"]), turns)

    def evaluated(inputs: Mapping[str, Array], outputs: Arrays, turns: int) -> None:
        for name, value in evaluate_loop(loop, inputs).items():
            outputs[name][...] = value

    def launched(inputs: Mapping[str, Array], outputs: Arrays, turns: int) -> None:
        with closing(GpuLoop(loop, np.float64, turns)) as card:
            card(inputs, outputs)

    return loop, evaluated if backend == "numpy" else launched
