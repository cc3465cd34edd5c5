"""Measure a design that steps trajectories: run them, and compare each step with the integers and with float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import KINDS, Kind
from dynagate.host.devices.face import Executor
from dynagate.host.devices.stream_steps import EVERY, STEPS, empty_outputs
from dynagate.host.report.rules import Rule, equal_integers
from dynagate.host.report.sections import labeled
from dynagate.integrators.chip_motion import FAILURES, ChipMotion, extra
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.hw.designs import Design

CONSTANT = ("q", "qd")
"""Inputs that a trajectory has once; it has the others in each step."""

Exact = Callable[[Mapping[str, Array]], tuple[Array, Array]]
"""Function from the inputs of trajectories to their states in float64: q and qd, (batch, steps, ·)."""


class Steps(NamedTuple):
    """Results of the steps of trajectories."""

    values: dict[str, Array]
    """Arrays (batch, steps, *shape) by name."""
    flagged: Array
    """Which steps overflowed, (batch, steps)."""


def run_steps(device: Executor, arrays: Mapping[str, Array]) -> Steps:
    """Compute the steps of trajectories on a device.

    Args:
        device: The device.
        arrays: Inputs of the trajectories by name.

    Returns:
        The results.
    """
    batch, steps = arrays["tau"].shape[:2]
    values = empty_outputs(device, batch, steps)
    inputs = {**arrays, STEPS: np.full(batch, steps), EVERY: np.asarray(1)}
    return Steps(values, device.run(inputs, values, batch))


@dataclass(frozen=True)
class MotionMeasurement:
    """Section of a report: trajectories that a design computed, compared with the integers and with float64."""

    steps: int
    """Number of steps of each trajectory."""
    count: Mapping[Kind, int]
    """Number of trajectories, by the kind of state that they start from."""
    flagged: Mapping[Kind, int]
    """Number of trajectories in which a step overflowed, by the same kind."""
    drift: npt.NDArray[np.float64]
    """Distance of the last state from float64's over the length of the way there, of each other trajectory."""
    exact: bool
    """Whether every integer equals the executor's."""

    @property
    def rules(self) -> list[Rule]:
        """Return the rule that every integer and flag is equal."""
        return [equal_integers("the comparison of the trajectories with the integers", self.exact)]

    @property
    def lines(self) -> list[str]:
        flags = ", ".join(f"{self.flagged[kind]} of {n} from {kind} states" for kind, n in self.count.items())
        worst = f"{np.quantile(self.drift, 0.99):.1e}" if len(self.drift) else "-"
        median = f"{np.median(self.drift):.1e}" if len(self.drift) else "-"
        return labeled(
            {
                "checked": f"{sum(self.count.values())} trajectories of {self.steps} steps: integers and flags "
                f"{'equal' if self.exact else 'DIFFER'}",
                "flagged": flags,
                "drift": f"{median} median, {worst} for 99 % of the others: distance of the last state from float64's "
                "over the way there",
            }
        )


@dataclass(frozen=True)
class SolvedSteps:
    """Section of a report: the equations that the steps of trajectories solved on the chip."""

    mean: float
    """Mean number of iterations of a step."""
    most: int
    """Largest number of iterations of a step."""
    failed: int
    """Number of steps that did not converge."""
    steps: int
    """Number of steps that did not overflow."""
    tolerance: float
    """Residual below which a step has converged."""
    rules: Sequence[Rule] = ()
    """Rules of the section: an empty sequence."""

    @classmethod
    def of(cls, simulated: Steps, tolerance: float) -> SolvedSteps:
        """Return the section of results of a design whose steps solve equations.

        Args:
            simulated: The results.
            tolerance: Residual below which a step has converged.

        Returns:
            The section.
        """
        good = ~simulated.flagged
        iterations = simulated.values[extra("iterations")][good]
        failures = np.diff(simulated.values[FAILURES], axis=1, prepend=0.0)[good]
        failed = int((failures > 0).sum())
        return cls(float(iterations.mean()), int(iterations.max()), failed, int(good.sum()), tolerance)

    @property
    def lines(self) -> list[str]:
        text = (
            f"{self.mean:.3g} iterations a step, {self.most} at most; {self.failed} of {self.steps} steps above the "
            f"tolerance, {self.tolerance:.2g}"
        )
        return labeled({"equations": text})


def step_text(options: Mapping[str, Any]) -> str:
    """Return the text on the integrator and the time step of a design.

    Args:
        options: Options of the design.

    Returns:
        The text.
    """
    integrator = options.get("integrator", "semi_implicit_euler")
    dt = options.get("dt", 1e-3)
    return f"{integrator}, {'at most ' if 'variable_dt' in options else ''}{dt:g} s a step"


def start_inputs(built: Design[Any], states: int, steps: int, seed: int) -> dict[Kind, dict[str, Array]]:
    """Return start states of each kind, with torques and time steps that stay constant.

    Args:
        built: The design.
        states: Number of trajectories, a third of each kind.
        steps: Number of steps of each trajectory.
        seed: Seed of the states.

    Returns:
        For each kind the inputs of the trajectories by name.
    """
    region, count, starts = built.region, max(states // len(KINDS), 1), {}
    motion = None if built.formatted.as_graph is not None else _motion_of(built)
    for kind in KINDS:
        if motion is None:
            sample = region.states(built.graph, count, seed, kind)
        else:
            sample = motion.starts(region, count, seed, kind)
        starts[kind] = {
            name: x if name in CONSTANT else np.repeat(x[:, None], steps, axis=1) for name, x in sample.items()
        }
    return starts


def joined(starts: Mapping[Kind, Mapping[str, Array]]) -> dict[str, Array]:
    """Return the inputs of trajectories of all kinds in one batch.

    Args:
        starts: Inputs by the kind of state that trajectories start from.

    Returns:
        Inputs by name.
    """
    samples = list(starts.values())
    return {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}


def _motion_of(built: Design[Any]) -> ChipMotion:
    """Return the steps of a design that solve equations, in float64."""
    return ChipMotion.of(built.robot, AlgorithmOptions.of_record(built.design.options), None)


def exact_steps(built: Design[Any]) -> Exact:
    """Return the steps of a design in float64, by its graph or, if its steps solve equations, by its integrator.

    Args:
        built: The design.

    Returns:
        Function of the inputs of trajectories that returns q and q̇ of each step.
    """
    if (formatted := built.formatted.as_graph) is not None:
        return _steps_of(formatted.graph)
    motion = _motion_of(built)

    def exact(arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        states = motion.exact(arrays["q"], arrays["qd"], arrays["tau"])
        return states["q_next"], states["qd_next"]

    return exact


def _steps_of(graph: Graph) -> Exact:
    def exact(arrays: Mapping[str, Array]) -> tuple[Array, Array]:
        q, qd = [arrays["q"]], [arrays["qd"]]
        for k in range(arrays["tau"].shape[1]):
            step = {name: x[:, k] for name, x in arrays.items() if name not in CONSTANT}
            after = evaluate(graph, {"q": q[-1], "qd": qd[-1], **step})
            q.append(after["q_next"])
            qd.append(after["qd_next"])
        return np.stack(q[1:], axis=1), np.stack(qd[1:], axis=1)

    return exact


def compared_motion(
    built: Design[Any], integers: Executor, starts: Mapping[Kind, Mapping[str, Array]], simulated: Steps
) -> MotionMeasurement:
    """Compare trajectories with the integers and with float64.

    Args:
        built: The design.
        integers: The device "fixed" of the design.
        starts: Inputs of the trajectories by the kind of state that they start from.
        simulated: What the chip computed from these inputs, joined in this order.

    Returns:
        The section of the report.
    """
    arrays = joined(starts)
    expected = run_steps(integers, arrays)
    flagged = np.asarray(expected.flagged.any(axis=1))
    count = {kind: len(sample["q"]) for kind, sample in starts.items()}
    ends = np.cumsum(list(count.values()))
    return MotionMeasurement(
        arrays["tau"].shape[1],
        count,
        {kind: int(flagged[end - n : end].sum()) for (kind, n), end in zip(count.items(), ends, strict=True)},
        _drift(built.robot, exact_steps(built), {name: x[~flagged] for name, x in arrays.items()}, expected, ~flagged),
        _equal(simulated, expected),
    )


def _equal(a: Steps, b: Steps) -> bool:
    values = all(np.array_equal(a.values[name], x) for name, x in b.values.items())
    return values and np.array_equal(a.flagged, b.flagged)


def _drift(
    robot: Robot, exact: Exact, arrays: Mapping[str, Array], integers: Steps, kept: Array
) -> npt.NDArray[np.float64]:
    """Return the distance of the last states from float64's over the length of the way there.

    Args:
        robot: The robot.
        exact: The steps in float64.
        arrays: Inputs of the trajectories that are kept.
        integers: Results of all trajectories.
        kept: Which trajectories are kept.
    """
    places, speeds = exact(arrays)
    q, qd = arrays["q"], arrays["qd"]
    way = np.zeros(len(q))
    for k in range(arrays["tau"].shape[1]):
        after = places[:, k], speeds[:, k]
        way += _distance(robot, (q, qd), after)
        q, qd = after
    last = integers.values["q_next"][kept, -1], integers.values["qd_next"][kept, -1]
    return _distance(robot, (q, qd), last) / np.maximum(way, np.finfo(float).tiny)


def _distance(robot: Robot, a: tuple[Array, Array], b: tuple[Array, Array]) -> npt.NDArray[np.float64]:
    """Return the distance of two states; their speeds count over a second."""
    moved = b[0] - a[0]
    for joint, iq, _ in robot.moving():
        if robot.is_periodic(joint):
            moved[:, iq] = np.mod(moved[:, iq] + np.pi, 2.0 * np.pi) - np.pi
    return np.asarray(np.sqrt(np.sum(moved**2, axis=1) + np.sum((b[1] - a[1]) ** 2, axis=1)))
