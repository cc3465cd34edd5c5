"""Dynamic parameters from measured torques, by least squares over parameters that bodies can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import ABOVE_ZERO, number, one_or_several
from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.base.warned import warn
from dynagate.identification.columns import ALL, columns_of, parameter_names
from dynagate.identification.combinations import base_of
from dynagate.identification.excited import Excitation, excited_by
from dynagate.identification.measured import equations, measured
from dynagate.identification.search import Search
from dynagate.robot import Robot, RobotWarning
from dynagate.robot.checked import RobotOrName, robot_of
from dynagate.robot.variable import DYNAMIC

PASSES, SAME = 12, 0.01
"""Largest number of estimates of the noise, and the change of it, as a part, after which it is known."""

LEAST_NOISE = 1e-9
"""Smallest noise of a joint's torque, as a part of the torque: data of a simulation may have none."""

LISTED = 6
"""Names that a warning lists."""

CONFIDENCE = 1.96
"""Standard errors on each side that hold a parameter with 95 %."""


@explained
@dataclass(frozen=True, repr=False)
class Identification:
    """Estimated parameters of a robot. Print it to see them with their confidence.

    Attributes:
        robot: The robot with the estimated parameters.
        parameters: Dynamic parameters (links, 13), as `Robot.dynamic_parameters`.
        standard_errors: Standard error (links, 13) of each parameter, NaN for those that were not estimated. Where
            data excite it little, it is that of the prior.
        residual: Root mean square error (nv,) of the torques that the estimate predicts for the data, N m or N.
        excitation: How well the data excite the parameters; `excitation.unexcited` names those they do not excite.
        converged: Whether the search ended before its last iteration.
        iterations: Iterations of the search.
    """

    robot: Robot
    parameters: Array
    standard_errors: Array
    residual: Array
    excitation: Excitation
    converged: bool
    iterations: int

    @property
    def confidence(self) -> tuple[Array, Array]:
        """Return lower and upper bounds (links, 13) of each parameter with 95 % confidence."""
        reach = CONFIDENCE * self.standard_errors
        return self.parameters - reach, self.parameters + reach

    def __repr__(self) -> str:
        count = int(np.isfinite(self.standard_errors).sum())
        state = "converged" if self.converged else "not converged"
        return f"<Identification of {count} parameters of {self.robot.name}, {state}>"

    def __str__(self) -> str:
        head = f"{self.robot.name}: {self.excitation}"
        errors = np.array2string(self.residual, precision=4)
        names = parameter_names(self.robot)
        rows = [
            f"  {name:<32} {value: .6g} ± {CONFIDENCE * error:.2g}"
            for name, value, error in zip(names, self.parameters.ravel(), self.standard_errors.ravel(), strict=True)
            if np.isfinite(error)
        ]
        return "\n".join([head, f"error of torques: {errors}", "parameters, with 95 % confidence:", *rows])


@explained
def identify(
    robot: RobotOrName,
    q: npt.ArrayLike,
    qd: npt.ArrayLike,
    qdd: npt.ArrayLike,
    tau: npt.ArrayLike,
    *,
    parameters: Sequence[str] = ALL,
    noise: npt.ArrayLike | None = None,
    prior: float = 1.0,
) -> Identification:
    """Estimate dynamic parameters of a robot from a measured motion.

    The estimate minimizes the errors of inverse dynamics. Links keep inertias that a body can have, and armature,
    damping and friction stay at 0 or more. What the data do not excite stays near the robot's own numbers.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships. The search begins there.
        q: Configurations (..., nq), rad, m and unit quaternions.
        qd: Velocities (..., nv), rad/s or m/s.
        qdd: Accelerations (..., nv), rad/s² or m/s², for example from filtered velocities.
        tau: Measured torques and forces (..., nv), N m or N.
        parameters: Names of links, for their ten inertial parameters, and of joints with .armature, .damping or
            .friction, as `Robot.with_variable` accepts them. All of them unless given.
        noise: Standard deviation of the measured torques, one or (nv,), N m or N. A joint with less noise has more
            weight. Estimated from the data unless given.
        prior: Standard deviation of the robot's own parameters, as a part of them. 1 trusts the file little, 0.1
            trusts its numbers within about 10 %.

    Raises:
        ArgumentError: An array has another shape, is not finite or empty, a name is not right, or a number is not above
            0. Nothing is computed then.
        ArgumentTypeError: An argument has another type.
        RobotError: The robot has no such parameter.

    Warns:
        RobotWarning: If data do not excite some parameters; the warning names them.
    """
    robot = robot_of(robot)
    columns = columns_of(robot, parameters)
    number("identify() has prior ", prior, ABOVE_ZERO)
    deviation = None if noise is None else _noise(noise, robot)
    system = equations(columns, measured(columns.robot, q=q, qd=qd, qdd=qdd, tau=tau))
    matrix, _ = system.weighted(1.0 / _or_one(system.torque))
    excited = excited_by(matrix, system.samples, base_of(columns))
    if excited.unexcited:
        more = f" and {len(excited.unexcited) - LISTED} more" if len(excited.unexcited) > LISTED else ""
        warn(
            f"the motion does not excite {', '.join(excited.unexcited[:LISTED])}{more} of robot '{robot.name}'; these "
            "stay near the robot's own numbers. Move all joints with different speeds and accelerations",
            RobotWarning,
            code="DG-IDENT-004",
        )
    return _estimated(robot, Search(columns, system, float(prior)), deviation, excited)


def _noise(noise: npt.ArrayLike, robot: Robot) -> Array:
    values = one_or_several("identify() has noise ", noise, (robot.nv,), ABOVE_ZERO)
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (robot.nv,)).copy()


def _or_one(values: Array) -> Array:
    """Return positive numbers as they are, and 1 in place of 0."""
    return np.where(values > 0.0, values, 1.0)


def _estimated(robot: Robot, search: Search, noise: Array | None, excited: Excitation) -> Identification:
    torque = _or_one(search.equations.torque)
    deviation, point, iterations = torque if noise is None else noise, search.start, 0
    for _ in range(PASSES):
        point, converged, count = search.minimum(point, 1.0 / deviation)
        iterations += count
        values = search.values(point)
        residual = search.equations.residual(values)
        before, deviation = deviation, deviation if noise is not None else np.maximum(residual, LEAST_NOISE * torque)
        if (np.abs(before - deviation) <= SAME * before).all():
            break
    places = list(search.columns.places)
    parameters, errors = robot.dynamic_parameters, np.full(len(robot.links) * DYNAMIC, np.nan)
    parameters.ravel()[places] = values
    errors[places] = search.standard_errors(point, 1.0 / deviation)
    identified = search.columns.robot.with_dynamic_parameters(parameters)
    return Identification(
        replace(identified, variable=robot.variable),
        parameters,
        errors.reshape(parameters.shape),
        residual,
        excited,
        converged,
        iterations,
    )
