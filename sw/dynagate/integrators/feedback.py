"""Rollouts in closed loop: the torque of each step follows from the state before it, and is constant during
the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import Accepted, one_or_each, one_or_several
from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.dynamics import tree_of
from dynagate.dynamics.configuration import between
from dynagate.dynamics.spatial import Scalar, array, select
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative
from dynagate.graph.loop import Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.motion import Motion
from dynagate.robot import Robot

LARGEST_TORQUES = Accepted("True, or the largest torques, above 0 (N m or N)", "", 0.0, np.inf, open=True)


TARGET, STIFFNESS, BRAKE = "joint_target", "joint_stiffness", "joint_damping"
"""Inputs of a `JointPD`."""


@explained
@dataclass(frozen=True)
class JointPD:
    """Pull joints to targets by a proportional-derivative law in each step, within bounds: an option of `feedback=`.

    The torque of a joint of one degree of freedom is tau + joint_stiffness (joint_target - q) - joint_damping q̇, at the
    state before the step. Floating and ball joints have tau only. Each call passes these three, (..., steps, joints)
    or their last axes, of the joints in the order of `joints_of(robot)`: rad or m, N m/rad or N/m, N m s/rad or N s/m.

    Args:
        largest: Largest torques, N m or N, one or one for each velocity (nv,); True for no bound.

    Raises:
        ArgumentError: A bound is not above 0.
    """

    largest: bool | float | Sequence[float] = True

    def __post_init__(self) -> None:
        if self.largest is not True:
            object.__setattr__(self, "largest", one_or_each("JointPD has largest=", self.largest, LARGEST_TORQUES))

    @staticmethod
    def joints_of(robot: Robot) -> list[str]:
        """Return the names of the joints of one degree of freedom, in the order of the inputs.

        Args:
            robot: The robot.
        """
        return [joint.name for joint, _, _ in robot.moving() if joint.nv == 1]


Feedback = bool | float | Sequence[float] | npt.NDArray[Any] | JointPD
"""True, the largest torque, N m or N, one for all degrees of freedom or one for each, or a `JointPD`."""


def feedback_inputs(robot: Robot, feedback: Feedback = True) -> dict[str, tuple[int, ...]]:
    """Return the inputs of a step with feedback besides torques, and their shapes."""
    if isinstance(feedback, JointPD):
        joints = (len(feedback.joints_of(robot)),)
        return dict.fromkeys((TARGET, STIFFNESS, BRAKE), joints)
    return {"gain": (robot.nv, 2 * robot.nv), "q_ref": (robot.nq,), "qd_ref": (robot.nv,)}


def checked_feedback(feedback: Feedback) -> bool | float | tuple[float, ...] | JointPD:
    """Return the option as a truth value, one number, a tuple of numbers or a `JointPD`, which `==` and `if` accept.

    Raise ArgumentError if a number is not above 0. Infinity is a torque without a limit.
    """
    if isinstance(feedback, bool | JointPD):
        return feedback
    return one_or_each("feedback=", feedback, LARGEST_TORQUES)


def largest_of(robot: Robot, feedback: Feedback) -> list[float]:
    """Return the largest torque of each degree of freedom. Raise ArgumentError if there is another count of numbers."""
    feedback = feedback.largest if isinstance(feedback, JointPD) else feedback
    if feedback is True:
        return [np.inf] * robot.nv
    return np.broadcast_to(one_or_several("feedback=", feedback, (robot.nv,), LARGEST_TORQUES), robot.nv).tolist()


def with_feedback(motion: Motion, robot: Robot, feedback: Feedback, torque: str = "tau") -> Motion:
    """Return a motion with feedback.

    Its steps take feedforward (nv,), gain (nv, 2 nv), q_ref (nq,) and qd_ref (nv,) instead of torques, and keep the
    torques.

    Args:
        motion: The motion with torques.
        robot: The robot.
        feedback: The feedback law.
        torque: Name of the torques in the motion: "tau", or the command of actuators.
    """
    loop, (_, velocity) = motion.loop, motion.states
    carry = dict(loop.carry) if "qd" in loop.carry.values() else {**loop.carry, velocity: "qd"}
    others = tuple(name for name in loop.per_iteration if name != torque)
    kept = loop.kept if "tau" in loop.kept else (*loop.kept, "tau")
    closed = replace(
        loop,
        name=f"{loop.name}_with_feedback",
        steps=(feedback_graph(robot, feedback).named({}, {"tau": torque}), *loop.steps),
        carry=carry,
        per_iteration=("feedforward", *feedback_inputs(robot, feedback), *others),
        kept=kept,
    )
    return replace(motion, loop=closed, extras={**motion.extras, "tau": ("tau", (robot.nv,))})


def feedback_graph(robot: Robot, feedback: Feedback) -> Graph:
    """Record the torques of a step with feedback, within the largest ones."""
    recording, sizes = Recording("feedback", robot.name), typical_sizes(tree_of(robot))
    law = _joint_law if isinstance(feedback, JointPD) else _gain_law
    torques = law(robot, recording, sizes)
    bounds = largest_of(robot, feedback)
    return recording.graph({"tau": array([_within(x, most) for x, most in zip(torques, bounds, strict=True)])})


def _joint_law(robot: Robot, recording: Recording, sizes: Mapping[str, Array]) -> Array:
    """Record `feedforward` plus the torques of a `JointPD`. `sizes` has typical magnitudes by name."""
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=units)
    qd = recording.input("qd", (robot.nv,), sizes["qd"])
    torques = recording.input("feedforward", (robot.nv,), sizes["tau"]).copy()
    joints = [(iq.start, iv.start) for joint, iq, iv in robot.moving() if joint.nv == 1]
    at = [velocity for _, velocity in joints]
    away, rate, torque = (np.asarray(sizes[name])[at] for name in ("delta_q", "qd", "tau"))
    of_inputs = {TARGET: away, STIFFNESS: torque / away, BRAKE: torque / rate}
    own = {name: recording.input(name, (len(joints),), size) for name, size in of_inputs.items()}
    with scope("feedback"):
        for k, (place, velocity) in enumerate(joints):
            pull = own[STIFFNESS][k] * (own[TARGET][k] - q[place]) - own[BRAKE][k] * qd[velocity]
            torques[velocity] = torques[velocity] + pull
    return torques


def _gain_law(robot: Robot, recording: Recording, sizes: Mapping[str, Array]) -> Array:
    """Record tau = feedforward + gain (q ⊖ q_ref, q̇ - qd_ref); ⊖ is `dynagate.difference`."""
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q, q_ref = (recording.input(name, (robot.nq,), sizes["q"], unit_vectors=units) for name in ("q", "q_ref"))
    qd, qd_ref = (recording.input(name, (robot.nv,), sizes["qd"]) for name in ("qd", "qd_ref"))
    away_sizes = np.concatenate([sizes["delta_q"], sizes["delta_qd"]])
    gain = recording.input("gain", (robot.nv, 2 * robot.nv), np.outer(sizes["tau"], 1.0 / away_sizes))
    feedforward = recording.input("feedforward", (robot.nv,), sizes["tau"])
    with scope("feedback"):
        torques: Array = feedforward + gain @ np.concatenate([between(robot, q_ref, q), qd - qd_ref])
    return torques


def reverse_with_feedback(loop: Loop, robot: Robot, feedback: Feedback, torque: str = "tau") -> Loop:
    """Return the loop of a gradient for a rollout with feedback.

    Weights of tau become weights of feedforward, gain, q_ref (along velocities) and qd_ref of each step, and of q and
    q̇.

    Args:
        loop: The loop of the gradient without feedback.
        robot: The robot.
        feedback: The feedback law.
        torque: Name of the torques in the loop, as in `with_feedback`.
    """
    closing = feedback_graph(robot, feedback).named({}, {"tau": torque})
    inputs = ("feedforward", *feedback_inputs(robot, feedback))
    opened = {name: f"opened_{name}" for name in ("lam_q_next", "lam_qd_next")}
    *first, last = loop.graphs()
    steps = (closing, *first, last.named({}, opened), _back(robot, closing, opened, torque))
    others = tuple(name for name in loop.per_iteration if name != torque)
    kept = (*(f"vjp_{name}" for name in inputs), *(name for name in loop.kept if name != f"vjp_{torque}"))
    per_iteration = (*others, *inputs)
    return replace(loop, name=f"{loop.name}_with_feedback", steps=steps, per_iteration=per_iteration, kept=kept)


def _back(robot: Robot, closing: Graph, opened: Mapping[str, str], torque: str) -> Graph:
    """Return the graph that adds the derivative of the feedback law to the weights of a step without feedback.

    Args:
        robot: The robot.
        closing: The feedback law, from the state before a step to its torques.
        opened: Names of the weights without feedback, by the names of the weights with it.
        torque: Name of the torques.
    """
    recording, derivative = Recording("feedback_vjp", robot.name), Derivative(closing, robot)
    values = recording.replay(closing, {port.name: recording.input_like(port) for port in closing.inputs})
    by = derivative.reverse(values, {torque: recording.input(f"vjp_{torque}", (robot.nv,))})
    with_it = {
        name: recording.input(opened[name], (robot.nv,)) + by.pop(of)
        for name, of in (("lam_q_next", "q"), ("lam_qd_next", "qd"))
    }
    return recording.graph({**with_it, **{f"vjp_{name}": product for name, product in by.items()}})


def closed_derivatives(robot: Robot, feedback: Feedback, states: int = 0) -> Graph:
    """Record the derivatives of a step with feedback, a (nx, nx) by the state and b (nx, nv) by `feedforward`.

    Its inputs are those of the feedback law, and the derivatives `a` and `b` of the step without feedback.

    Args:
        robot: The robot.
        feedback: The feedback law.
        states: Count of the numbers that a state has besides q and q̇, those of actuators.
    """
    closing, n = feedback_graph(robot, feedback), robot.nv
    nx = 2 * n + states
    recording, derivative = Recording("closed_derivatives", robot.name), Derivative(closing, robot)
    values = recording.replay(closing, {port.name: recording.input_like(port) for port in closing.inputs})
    a, b = recording.input("a", (nx, nx)), recording.input("b", (nx, n))
    unit = np.eye(3 * n).astype(object)
    rates = {"q": unit[:n], "qd": unit[n : 2 * n], "feedforward": unit[2 * n :]}
    by = b @ derivative.along(values, rates, ["tau"])["tau"].reshape(n, 3 * n)
    closed = np.concatenate([a[:, : 2 * n] + by[:, : 2 * n], a[:, 2 * n :]], axis=1)
    return recording.graph({"a": closed, "b": by[:, 2 * n :]})


def _within(x: Scalar, most: float) -> Scalar:
    if np.isinf(most):
        return x
    low = select(x + most, x, -most)
    return select(low - most, most, low)
