"""The states that a design is made for, and the one seeded sampler of them that every layer uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from dynagate.algorithms import function
from dynagate.evaluate import evaluate
from dynagate.graph import trace
from dynagate.robot import Robot, RobotError

DEFAULT_ACCELERATION = 10.0
"""rad/s²: what an arm moves with; torques are sampled as those that cause up to it."""

EXTERNAL_MOMENT = 5.0
EXTERNAL_FORCE = 50.0
"""N m and N on each link: a hand's push."""

Limits = float | Sequence[float] | None


@dataclass(frozen=True)
class Region:
    """Bounds per joint: q in [lower, upper] rad, |q̇| <= velocity rad/s, |q̈| <= acceleration rad/s².

    Torques have no bounds of their own: they are those that move the robot so. External forces, where a function takes
    them, are up to EXTERNAL_MOMENT N m and EXTERNAL_FORCE N in each direction.
    """

    robot: Robot
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    velocity: tuple[float, ...]
    acceleration: tuple[float, ...]

    @classmethod
    def of(cls, robot: Robot, *, velocity: Limits = None, acceleration: Limits = DEFAULT_ACCELERATION) -> Region:
        """The region inside the joint limits; a continuous joint takes one turn, -π to π.

        velocity: rad/s, one number or one per joint, instead of the limits in the URDF.
        Raises RobotError: a joint has no velocity limit and none is given.
        """
        lower, upper, speeds = [], [], []
        for link in robot.links:
            joint = link.joint
            lower.append(-math.pi if joint.lower is None else joint.lower)
            upper.append(math.pi if joint.upper is None else joint.upper)
            if velocity is None and not joint.velocity:
                raise RobotError(
                    f"joint '{joint.name}' has no velocity limit; give one in the URDF or as velocity= (rad/s)"
                )
            speeds.append(joint.velocity or 0.0)
        return cls(
            robot,
            tuple(lower),
            tuple(upper),
            tuple(speeds) if velocity is None else _per_joint(robot, "velocity", velocity),
            _per_joint(robot, "acceleration", acceleration),
        )

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        """(low, high) per joint of an input; None for one that follows from the others (tau, minv)."""
        if name == "q":
            return list(zip(self.lower, self.upper, strict=True))
        if name == "f_ext":
            limits = [EXTERNAL_MOMENT] * 3 + [EXTERNAL_FORCE] * 3
            return [(-x, x) for x in limits] * self.robot.n
        symmetric = {"qd": self.velocity, "qdd": self.acceleration}.get(name)
        return None if symmetric is None else [(-x, x) for x in symmetric]

    def sample(
        self, name: str, count: int, seed: int, *, external_forces: bool = False
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Inputs of the function of this name, (count, ...) each, uniform in the region.

        tau is the torque of a uniform q̈ and minv the inverse mass matrix at q, both in float64.
        """
        random = np.random.default_rng(seed)
        n = self.robot.n
        state = {
            "q": random.uniform(self.lower, self.upper, (count, n)),
            "qd": random.uniform(-1.0, 1.0, (count, n)) * self.velocity,
            "qdd": random.uniform(-1.0, 1.0, (count, n)) * self.acceleration,
        }
        needed = [argument.name for argument in function(name).inputs_with(external_forces)]
        if external_forces:
            limits = np.repeat([EXTERNAL_MOMENT, EXTERNAL_FORCE], 3)
            state["f_ext"] = random.uniform(-1.0, 1.0, (count, n, 6)) * limits
        if "tau" in needed:
            torque = trace(self.robot, "inverse_dynamics", external_forces=external_forces)
            state["tau"] = evaluate(torque, state)["tau"]
        if "minv" in needed:
            state["minv"] = evaluate(trace(self.robot, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
        return {key: state[key] for key in needed}


def _per_joint(robot: Robot, name: str, values: Limits) -> tuple[float, ...]:
    limits = np.broadcast_to(np.asarray(values, dtype=float), (robot.n,)) if np.ndim(values or 0) == 0 else values
    if len(limits) != robot.n or not np.all(np.isfinite(limits)) or not np.all(np.asarray(limits) > 0.0):  # type: ignore[arg-type]
        raise RobotError(f"{name}={values}; expected a positive number, or {robot.n} of them, one per joint")
    return tuple(float(x) for x in limits)  # type: ignore[union-attr]
