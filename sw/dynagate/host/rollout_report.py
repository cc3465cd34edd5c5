"""A rollout design, end to end: build, simulate its ring, and compare every turn with the integers and with float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.progress import Progress
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import KINDS, Kind
from dynagate.host.devices import IntegerTurns, Sim, TurnDevice
from dynagate.host.devices.options import DesignSource
from dynagate.host.devices.turns import EVERY, STEPS
from dynagate.host.verdict import Rule, equal, passed, verdict
from dynagate.hw.build import Build, build_request
from dynagate.hw.processor.build import ProcessorBuild
from dynagate.hw.request import DesignRequest
from dynagate.robot import Robot

Array = npt.NDArray[Any]
FORWARD = "forward_dynamics"
"""The function whose inputs are a state and torques."""
FULL_RING = 20
"""Turns of each trajectory while the slots are counted."""


@dataclass(frozen=True)
class Reference:
    """What trajectories are compared with. integers: what the chip has to compute. exact: inputs as `run_turns` takes
    them to q and qd (batch, turns, ·) in float64."""

    robot: Robot
    integers: TurnDevice
    exact: Callable[[dict[str, Array]], tuple[Array, Array]]

    @classmethod
    def of(cls, robot: Robot, graph: Graph, integers: TurnDevice) -> Reference:
        """Of a turn's graph."""

        def exact(arrays: dict[str, Array]) -> tuple[Array, Array]:
            q, qd = [arrays["q"]], [arrays["qd"]]
            for k in range(arrays["tau"].shape[1]):
                turn = {name: x[:, k] for name, x in arrays.items() if name not in ("q", "qd")}
                after = evaluate(graph, {"q": q[-1], "qd": qd[-1], **turn})
                q.append(after["q_next"])
                qd.append(after["qd_next"])
            return np.stack(q[1:], axis=1), np.stack(qd[1:], axis=1)

        return cls(robot, integers, exact)


@dataclass(frozen=True)
class CheckedTrajectories:
    """Trajectories of so many steps that a chip computed, beside the integers and float64.

    count, flagged: by the kind of state that they start from. drift: of each trajectory that is never flagged, the
    distance of its last state from float64's over the length of its way there. exact: every integer and flag is the
    integer executor's."""

    steps: int
    count: dict[Kind, int]
    flagged: dict[Kind, int]
    drift: npt.NDArray[np.float64]
    exact: bool

    @classmethod
    def checked(
        cls, reference: Reference, count: dict[Kind, int], arrays: dict[str, Array], simulated: Results
    ) -> CheckedTrajectories:
        """simulated: what the chip made of these inputs, which begin with the states of each kind in turn."""
        integers = run_turns(reference.integers, arrays)
        flagged = np.asarray(integers.flagged.any(axis=1))
        ends = np.cumsum(list(count.values()))
        return cls(
            arrays["tau"].shape[1],
            count,
            {kind: int(flagged[end - n : end].sum()) for (kind, n), end in zip(count.items(), ends, strict=True)},
            drift_of(reference, arrays, integers, ~flagged),
            equal_results(simulated, integers),
        )

    def lines(self) -> list[str]:
        """Of a report."""
        flags = ", ".join(f"{self.flagged[k]} of {n} from {k} states" for k, n in self.count.items())
        worst = f"{np.quantile(self.drift, 0.99):.1e}" if len(self.drift) else "-"
        median = f"{np.median(self.drift):.1e}" if len(self.drift) else "-"
        return [
            f"  checked         {sum(self.count.values())} trajectories of {self.steps} steps: integers and flags "
            f"{'equal' if self.exact else 'DIFFER'}",
            f"  flagged         {flags}",
            f"  drift           {median} median, {worst} for 99 % of the others: distance of the last state from "
            "float64's over the way there",
        ]


def step_text(options: Mapping[str, Any]) -> str:
    """Return the integrator and the time step of a design's options."""
    integrator = options.get("integrator", "semi_implicit_euler")
    dt = options.get("dt", 1e-3)
    return f"{integrator}, {'at most ' if 'variable_dt' in options else ''}{dt:g} s a step"


@dataclass(frozen=True)
class RolloutReport:
    """turn: cycles of a trajectory alone from one turn to its next one. slots: how many of the pipeline's slots hold a
    step while as many trajectories as the chip holds are under way."""

    built: Build
    latency: int
    turn: float
    slots: float
    trajectories: CheckedTrajectories

    @property
    def rules(self) -> list[Rule]:
        """Every integer and flag is equal."""
        return [equal("the comparison of the trajectories with the integers", self.trajectories.exact)]

    @property
    def passed(self) -> bool:
        """Whether all rules hold."""
        return passed(self.rules)

    def text(self) -> str:
        design, plan = self.built.design, self.built.plan
        assert design.ring is not None
        return "\n".join(
            [
                f"{self.built.robot.name} {ROLLOUT}, {design.formats.word}-bit words, II = {plan.ii}, "
                f"{step_text(design.options)}",
                f"  units           {design.units.get('multiply', 0)} multipliers, {design.dsp_blocks} DSP48E2 blocks "
                f"(counted); {design.registers.bits} register bits",
                f"  ring            up to {design.ring.capacity} trajectories; latency {self.latency} cycles measured, "
                f"a turn of one alone {self.turn:g}",
                f"  slots           {self.slots:.1%} hold a step with {design.ring.capacity} trajectories",
                *self.trajectories.lines(),
                verdict(self.rules),
            ]
        )


def rollout_report(
    request: DesignRequest,
    *,
    folder: str | PathLike[str],
    steps: int = 50,
    states: int = 1024,
    seed: int = 1,
    progress: Progress | None = None,
) -> RolloutReport:
    """Build a rollout's design, compile, and stream `states` trajectories of so many steps, a third each from states of
    each kind. The errors are those of `build` and `open`."""
    progress = progress or (lambda text: None)
    built = build_request(request, folder=folder, progress=progress)
    counts: dict[Kind, int] = {kind: max(states // len(KINDS), 1) for kind in KINDS}
    arrays = start_inputs(built, counts, steps, seed)
    assert built.design.ring is not None
    chip = Sim().of_design(DesignSource(built), progress)
    assert isinstance(chip, TurnDevice)
    try:
        progress(f"streaming {sum(counts.values())} trajectories of {steps} steps")
        simulated = run_turns(chip, arrays)
        latency = chip.transfer.latency
        progress("counting slots and cycles of a turn")
        run_turns(chip, _first(arrays, built.design.ring.capacity, FULL_RING))
        slots = built.plan.ii / chip.transfer.per_sample
        run_turns(chip, _first(arrays, 1, FULL_RING))
        turn = chip.transfer.per_sample
    finally:
        chip.close()
    progress("comparing")
    reference = Reference.of(built.robot, built.formatted.graph, IntegerTurns(built.formatted))
    return RolloutReport(built, latency, turn, slots, CheckedTrajectories.checked(reference, counts, arrays, simulated))


def start_inputs(built: Build | ProcessorBuild, counts: dict[Kind, int], steps: int, seed: int) -> dict[str, Array]:
    """Start states, and torques and time steps that stay as they are."""
    region, one = built.region, isinstance(built.formatted, FormattedGraph)
    samples = [
        region.states(built.graph, count, seed, kind) if one else region.sample(FORWARD, count, seed, kind=kind)
        for kind, count in counts.items()
    ]
    state = {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}
    return {name: x if name in ("q", "qd") else np.repeat(x[:, None], steps, axis=1) for name, x in state.items()}


def _first(arrays: dict[str, Array], count: int, steps: int) -> dict[str, Array]:
    """The first trajectory as many times, and as many steps."""
    return {
        name: np.repeat(x[:1], count, axis=0)
        if name in ("q", "qd")
        else np.broadcast_to(x[:1, :1], (count, steps, *x.shape[2:]))
        for name, x in arrays.items()
    }


class Results(NamedTuple):
    """values: (batch, turns, *shape) by name. flagged: (batch, turns)."""

    values: dict[str, Array]
    flagged: Array


def run_turns(device: TurnDevice, arrays: dict[str, Array]) -> Results:
    batch, steps = arrays["tau"].shape[:2]
    values = device.new_turns(batch, steps)
    own = {**arrays, STEPS: np.full(batch, steps), EVERY: np.asarray(1)}
    return Results(values, device.run(own, values, batch))


def equal_results(a: Results, b: Results) -> bool:
    values = all(np.array_equal(a.values[name], x) for name, x in b.values.items())
    return values and np.array_equal(a.flagged, b.flagged)


def drift_of(reference: Reference, arrays: dict[str, Array], integers: Results, kept: Array) -> npt.NDArray[np.float64]:
    own = {name: x[kept] for name, x in arrays.items()}
    places, speeds = reference.exact(own)
    q, qd = own["q"], own["qd"]
    way = np.zeros(len(q))
    for k in range(own["tau"].shape[1]):
        after = places[:, k], speeds[:, k]
        way += _distance(reference.robot, (q, qd), after)
        q, qd = after
    last = integers.values["q_next"][kept, -1], integers.values["qd_next"][kept, -1]
    return _distance(reference.robot, (q, qd), last) / np.maximum(way, np.finfo(float).tiny)


def _distance(robot: Robot, a: tuple[Array, Array], b: tuple[Array, Array]) -> npt.NDArray[np.float64]:
    """Of two states, their speeds counted over a second."""
    moved = b[0] - a[0]
    for joint, iq, _ in robot.moving():
        if robot.is_periodic(joint):
            moved[:, iq] = np.mod(moved[:, iq] + np.pi, 2.0 * np.pi) - np.pi
    return np.asarray(np.sqrt(np.sum(moved**2, axis=1) + np.sum((b[1] - a[1]) ** 2, axis=1)))
