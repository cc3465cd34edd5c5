"""Rollouts in closed loop: the torque of each step follows the state at its begin, and is held for the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import Accepted, one_or_each, one_or_several
from dynagate.base.naming import scope
from dynagate.dynamics import Tree
from dynagate.dynamics.configuration import between
from dynagate.dynamics.spatial import Scalar, array, select
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative
from dynagate.graph.loop import Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.motion import Motion
from dynagate.robot import Robot

Feedback = bool | float | Sequence[float] | npt.NDArray[Any]
"""True; or the largest torque, N m or N, one for all degrees of freedom or one for each."""


LARGEST_TORQUES = Accepted("True, or the largest torques, above 0 (N m or N)", "", 0.0, np.inf, open=True)


def feedback_inputs(robot: Robot) -> dict[str, tuple[int, ...]]:
    """The inputs of a step with feedback besides torques, and their shapes."""
    return {"gain": (robot.nv, 2 * robot.nv), "q_ref": (robot.nq,), "qd_ref": (robot.nv,)}


def checked_feedback(feedback: Feedback) -> bool | float | tuple[float, ...]:
    """Return the option as a truth value, one number or a tuple of numbers, which `==` and `if` accept.

    Raise ArgumentError if a number is not above 0. Infinity is a torque without a limit.
    """
    return feedback if isinstance(feedback, bool) else one_or_each("feedback=", feedback, LARGEST_TORQUES)


def largest_of(robot: Robot, feedback: Feedback) -> list[float]:
    """Return the largest torque of each degree of freedom. Raise ArgumentError if there is another count of numbers."""
    if feedback is True:
        return [np.inf] * robot.nv
    return np.broadcast_to(one_or_several("feedback=", feedback, (robot.nv,), LARGEST_TORQUES), robot.nv).tolist()


def with_feedback(motion: Motion, robot: Robot, feedback: Feedback) -> Motion:
    """A motion whose steps take feedforward (nv,), gain (nv, 2 nv), q_ref (nq,) and qd_ref (nv,) in place of tau, and
    keep the tau that they make of them."""
    loop, (_, velocity) = motion.loop, motion.states
    carry = dict(loop.carry) if "qd" in loop.carry.values() else {**loop.carry, velocity: "qd"}
    others = tuple(name for name in loop.per_turn if name != "tau")
    closed = replace(
        loop,
        name=f"{loop.name}_with_feedback",
        steps=(_graph(robot, largest_of(robot, feedback)), *loop.steps),
        carry=carry,
        per_turn=("feedforward", *feedback_inputs(robot), *others),
        kept=(*loop.kept, "tau"),
    )
    return replace(motion, loop=closed, extras={**motion.extras, "tau": ("tau", (robot.nv,))})


def _graph(robot: Robot, largest: Sequence[float]) -> Graph:
    """tau = feedforward + gain (q ⊖ q_ref, q̇ - qd_ref), within ± largest; ⊖ is `dynagate.difference`."""
    recording, sizes = Recording("feedback", robot.name), typical_sizes(Tree(robot))
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q, q_ref = (recording.input(name, (robot.nq,), sizes["q"], unit_vectors=units) for name in ("q", "q_ref"))
    qd, qd_ref = (recording.input(name, (robot.nv,), sizes["qd"]) for name in ("qd", "qd_ref"))
    away_sizes = np.concatenate([sizes["delta_q"], sizes["delta_qd"]])
    gain = recording.input("gain", (robot.nv, 2 * robot.nv), np.outer(sizes["tau"], 1.0 / away_sizes))
    feedforward = recording.input("feedforward", (robot.nv,), sizes["tau"])
    with scope("feedback"):
        torques = feedforward + gain @ np.concatenate([between(robot, q_ref, q), qd - qd_ref])
    return recording.graph({"tau": array([_within(x, most) for x, most in zip(torques, largest, strict=True)])})


def reverse_with_feedback(loop: Loop, robot: Robot, feedback: Feedback) -> Loop:
    """The loop of a rollout's gradient whose steps have feedback: from weights of tau to those of feedforward, gain,
    q_ref (along velocities) and qd_ref of every step, and on to those of q and q̇."""
    closing = _graph(robot, largest_of(robot, feedback))
    inputs = ("feedforward", *feedback_inputs(robot))
    opened = {name: f"opened_{name}" for name in ("lam_q_next", "lam_qd_next")}
    (step,) = loop.graphs()
    steps = (closing, step.named({}, opened), _back(robot, closing, opened))
    others = tuple(name for name in loop.per_turn if name != "tau")
    kept = tuple(f"vjp_{name}" for name in inputs)
    per_turn = (*others, *inputs)
    return replace(loop, name=f"{loop.name}_with_feedback", steps=steps, per_turn=per_turn, kept=kept)


def _back(robot: Robot, closing: Graph, opened: Mapping[str, str]) -> Graph:
    """The inputs of the feedback, vjp_tau and the weights of q and q̇ without it to those with it, and its products."""
    recording, derivative = Recording("feedback_vjp", robot.name), Derivative(closing, robot)
    values = recording.replay(closing, {port.name: recording.input_like(port) for port in closing.inputs})
    by = derivative.reverse(values, {"tau": recording.input("vjp_tau", (robot.nv,))})
    with_it = {
        name: recording.input(opened[name], (robot.nv,)) + by.pop(of)
        for name, of in (("lam_q_next", "q"), ("lam_qd_next", "qd"))
    }
    return recording.graph({**with_it, **{f"vjp_{name}": product for name, product in by.items()}})


def _within(x: Scalar, most: float) -> Scalar:
    if np.isinf(most):
        return x
    low = select(x + most, x, -most)
    return select(low - most, most, low)
