"""The payload of a link while it moves: recursive least squares as a loop of a small graph.

Each iteration takes one sample of a motion. The torque of each joint is one equation, so no matrix is factored: an
iteration divides once per joint (Ljung, "System identification", 1999, §11.2, measurement by measurement).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import ABOVE_ZERO, Accepted, check_texts, number, of_type, one_or_several
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.dynamics.spatial import Scalar, array, is_zero, symmetric
from dynagate.graph import trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.host.compiling import check_robot
from dynagate.host.devices import DeviceOptions
from dynagate.host.loop_solver import LoopSolver
from dynagate.identification.measured import measured
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.robot.errors import RobotError
from dynagate.robot.variable import COUNT

FUNCTION = "payload_estimator"

UNITS = (1.0, *[0.1] * 3, *[0.01] * 6)
"""Sizes of a payload's parameters, kg, kg m and kg m²: the loop computes in these, so that its numbers are alike."""

FORGETTING = Accepted("a number above 0 and at most 1", "", 1e-6, 1.0)

MEASURED = ("q", "qd", "qdd", "tau")
CARRY = {"payload_new": "payload", "covariance_new": "covariance"}


@explained
@dataclass(frozen=True)
class Payload:
    """Estimates of a payload after each sample.

    Attributes:
        parameters: Inertial parameters (samples, 10) in the link's frame, as `Link.parameters`: kg, kg m, kg m².
        standard_errors: Standard error (samples, 10) of each.
        covariance: Covariance (10, 10) after the last sample, from which a further call goes on.
    """

    parameters: Array
    standard_errors: Array
    covariance: Array

    def __repr__(self) -> str:
        return f"<Payload {self.parameters.shape[:-1]}, last mass {self.parameters[..., -1, 0]} kg>"


def payload_loop(robot: Robot, link: str, noise: Array, forgetting: float) -> Loop:
    """Return the loop from samples of q, qd, qdd and tau, `payload` (10,) and `covariance` (10, 10), in UNITS, to these
    after each sample.

    noise: standard deviation (nv,) of the torques, N m or N. forgetting: weight of a sample after the next one.
    """
    recording = Recording("sample", robot.name)
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), unit_vectors=units)
    qd, qdd, tau = (recording.input(name, (robot.nv,)) for name in MEASURED[1:])
    payload, covariance = recording.input("payload", (COUNT,)), recording.input("covariance", (COUNT, COUNT))
    state = {"q": q, "qd": qd, "qdd": qdd}
    values: dict[str, Array] = {}
    for name in ("inverse_dynamics", "inverse_dynamics_regressor"):
        graph = trace(robot, name)
        values |= output_values(graph.outputs, recording.replay(graph, state))
    place = [each.name for each in robot.links].index(link)
    rows = values["regressor"][:, place, :COUNT] * array(list(UNITS))
    with scope("estimate"):
        if forgetting < 1.0:
            covariance = covariance * (1.0 / forgetting)
        for d in range(robot.nv):
            error = tau[d] - values["tau"][d]
            payload, covariance = _updated(payload, covariance, rows[d], error, float(noise[d]) ** 2)
    errors = array([covariance[k, k] for k in range(COUNT)])
    graph = recording.graph({"payload_new": payload, "covariance_new": covariance, "variance": errors})
    return Loop(
        FUNCTION,
        robot.name,
        (graph,),
        CARRY,
        Count(None),
        per_iteration=MEASURED,
        kept=("payload_new", "variance"),
        last=("covariance_new",),
    )


def _updated(payload: Array, covariance: Array, row: Array, error: Scalar, variance: float) -> tuple[Array, Array]:
    """Return payload and covariance after the equation row @ payload = error with a noise of this variance."""
    if all(is_zero(x) for x in row):
        return payload, covariance
    spread = covariance @ row
    gain = spread * (1.0 / (row @ spread + variance))
    left = error - row @ payload
    return payload + gain * left, symmetric(lambda a, b: covariance[a, b] - gain[a] * spread[b], COUNT)


@explained
class PayloadEstimator(LoopSolver):
    """An estimate of what a link carries, from the torques of a motion, sample by sample.

    The robot's own parameters must be right: calibrate them by `identify` without the payload first.

    Args:
        robot: The robot without the payload, the path of its URDF file, or the name of a robot that ships.
        link: Name of the link that carries the payload.
        noise: Standard deviation of the measured torques, one or (nv,), N m or N.
        size: Standard deviation of the payload's mass before the first sample, kg. Its first moments have a tenth of it
            in kg m, and its inertia a hundredth in kg m².
        forgetting: Weight of a sample compared with the one after it: 1 for a payload that stays, 0.99 for one that
            changes within some hundred samples.
        device: "cpu", C compiled for this processor; or "numpy".

    Raises:
        ArgumentError: A number is not right.
        ArgumentTypeError: An argument has another type.
        RobotError: There is no such link.
        CompileError: There is no compiler, or it fails.

    Example:
        >>> estimator = dynagate.payload_estimator("two_joint_arm", "forearm", device="numpy")
        >>> still = np.zeros((5, 2))
        >>> estimator(q=still, qd=still, qdd=still, tau=still).parameters.shape
        (5, 10)
    """

    results = Payload

    def __init__(
        self,
        robot: RobotOrName,
        link: str,
        *,
        noise: npt.ArrayLike = 0.1,
        size: float = 10.0,
        forgetting: float = 1.0,
        device: Literal["cpu", "numpy"] | DeviceOptions = "cpu",
    ) -> None:
        check_robot(robot)
        self.robot = robot_of(robot)
        check_texts(link=link)
        names = [each.name for each in self.robot.links]
        if link not in names:
            raise RobotError(
                f"robot '{self.robot.name}' has no moving link '{link}'; expected one of {', '.join(names)}",
                code="DG-IDENT-007",
            )
        if self.robot.variable:
            raise ArgumentError(
                f"robot '{self.robot.name}' has variable parameters; expected a robot of constants", code="DG-IDENT-008"
            )
        deviation = one_or_several("payload_estimator() has noise ", noise, (self.robot.nv,), ABOVE_ZERO)
        self.link, self.size = link, number("payload_estimator() has size ", size, ABOVE_ZERO)
        self.noise = np.broadcast_to(np.asarray(deviation, dtype=np.float64), (self.robot.nv,)).copy()
        self.forgetting = number("payload_estimator() has forgetting ", forgetting, FORGETTING)
        self.choose(FUNCTION, device, {})
        self.compile(lambda: payload_loop(self.robot, link, self.noise, self.forgetting))

    def __repr__(self) -> str:
        return f"<PayloadEstimator of {self.robot.name}, {self.link}, on {self.device}>"

    def __call__(
        self,
        q: npt.ArrayLike,
        qd: npt.ArrayLike,
        qdd: npt.ArrayLike,
        tau: npt.ArrayLike,
        *,
        before: Payload | None = None,
    ) -> Payload:
        """Return the estimate after each sample of one motion.

        Args:
            q: Configurations (samples, nq), rad, m and unit quaternions.
            qd: Velocities (samples, nv), rad/s or m/s.
            qdd: Accelerations (samples, nv), rad/s² or m/s².
            tau: Measured torques and forces (samples, nv), N m or N.
            before: Result of the samples before these, from which the estimate goes on.

        Returns:
            The estimates after each sample, (samples, 10), and the covariance (10, 10) after the last one.

        Raises:
            ArgumentError: An array has another shape, is not finite or empty.
            ArgumentTypeError: An array does not hold real numbers.
            DeviceError: The estimator is closed.
        """
        self.check_open()
        samples = measured(self.robot, q=q, qd=qd, qdd=qdd, tau=tau)
        count, units = len(samples["q"]), np.array(UNITS)
        inputs: dict[str, Any] = {name: samples[name][None] for name in MEASURED}
        start, covariance = np.zeros(COUNT), np.eye(COUNT) * self.size**2
        if before is not None:
            start, covariance = before.parameters[-1] / units, before.covariance / np.outer(units, units)
        inputs |= {"payload": start[None], "covariance": covariance[None]}
        outputs = {
            "payload_new": np.empty((1, count, COUNT), self.dtype),
            "variance": np.empty((1, count, COUNT), self.dtype),
            "covariance_new": np.empty((1, COUNT, COUNT), self.dtype),
        }
        self._compute({name: of_type(x, self.dtype) for name, x in inputs.items()}, outputs)
        return Payload(
            outputs["payload_new"][0] * units,
            np.sqrt(np.maximum(outputs["variance"][0], 0.0)) * units,
            outputs["covariance_new"][0] * np.outer(units, units),
        )
