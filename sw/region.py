"""The states that a design is made for, and the one seeded sampler of them that every layer uses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from dynagate.algorithms import function
from dynagate.configuration import normalised
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.robot import Robot, RobotError

DEFAULT_ACCELERATION = 10.0
"""rad/s²: what an arm moves with; torques are sampled as those that cause up to it, unless effort limits bound them."""

EXTERNAL_MOMENT = 5.0
EXTERNAL_FORCE = 50.0
"""N m and N on each link: a hand's push."""

POSITION = 1.0
"""m: how far from the origin a floating joint is sampled. Nothing but positions depends on it."""

UNITS = {"velocity": "rad/s", "effort": "N m"}
"""Of the limits that turning joints have."""

Limits = float | Sequence[float] | Mapping[str, float] | None


class LimitError(RobotError):
    """Joints without a limit that a region needs. limit: "velocity" or "effort"; joints: all that lack it, by name."""

    def __init__(self, limit: str, joints: Sequence[str]) -> None:
        self.limit, self.joints = limit, tuple(joints)
        unit = UNITS[limit]
        names = ", ".join(f"'{name}'" for name in joints)
        what, have, give = ("joint", "has", "one") if len(joints) == 1 else ("joints", "have", "them")
        super().__init__(f"{what} {names} {have} no {limit} limit; give {give} in the URDF or as {limit}= ({unit})")


@dataclass(frozen=True)
class Region:
    """Bounds of the states. q: (lower, upper) per number of the configuration, rad or m, (-1, 1) in a quaternion, which
    takes any direction; |q̇| <= velocity per degree of freedom, rad/s or m/s; and either |q̈| <= acceleration, rad/s² or
    m/s², with the torques that move the robot so, or |τ| <= effort, N m or N, with the accelerations that these cause:
    the other of the two is None.

    External forces, where a function takes them, are up to EXTERNAL_MOMENT N m and EXTERNAL_FORCE N in each direction.
    """

    robot: Robot
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    velocity: tuple[float, ...]
    acceleration: tuple[float, ...] | None
    effort: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls,
        robot: Robot,
        *,
        velocity: Limits = None,
        acceleration: Limits = None,
        effort: Limits | Literal["limits"] = None,
    ) -> Region:
        """The region inside the joint limits; a continuous joint takes one turn, -π to π, a floating one POSITION m.

        velocity: rad/s or m/s, one number, one per degree of freedom, or by joint name, instead of the limits in the
        URDF. acceleration: likewise, instead of DEFAULT_ACCELERATION. effort: N m or N, likewise, instead of the limits
        in the URDF, or "limits" for those, and instead of accelerations.
        Raises LimitError: joints have no limit and none is given; RobotError: acceleration and effort are both given, a
        limit is no positive number, or names a joint that the robot does not have.
        """
        if acceleration is not None and effort is not None:
            raise RobotError("acceleration and effort are both given; expected one: the other follows from it")
        lower, upper = [], []
        for link in robot.links:
            joint = link.joint
            free = 1.0 if joint.has_quaternion else math.pi
            low = [-free if joint.lower is None else joint.lower] * joint.nq
            high = [free if joint.upper is None else joint.upper] * joint.nq
            if joint.type == "floating":
                low[:3], high[:3] = [-POSITION] * 3, [POSITION] * 3
            lower += low
            upper += high
        accelerations = efforts = None
        if effort is not None:
            efforts = _of_joints(robot, "effort", None if effort == "limits" else effort)
        else:
            usual = [DEFAULT_ACCELERATION] * robot.nv
            accelerations = _per_dof(robot, "acceleration", usual if acceleration is None else acceleration, usual)
        speeds = _of_joints(robot, "velocity", velocity)
        return cls(robot, tuple(lower), tuple(upper), speeds, accelerations, efforts)

    def text(self) -> str:
        """In a few words, numbers in rad, m, s and N."""

        def span(values: Sequence[float]) -> str:
            low, high = min(values), max(values)
            return f"{low:g}" if low == high else f"{low:g} to {high:g}"

        name, limits = ("torques", self.effort) if self.effort else ("accelerations", self.acceleration or ())
        speeds = f"speeds up to {span(self.velocity)}"
        return f"positions within limits, {speeds}, {name} up to {span(limits)} (rad, m, s, N)"

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        """(low, high) per entry of an input; None for one that follows from the others (tau or qdd, minv)."""
        if name == "q":
            return list(zip(self.lower, self.upper, strict=True))
        if name == "f_ext":
            limits = [EXTERNAL_MOMENT] * 3 + [EXTERNAL_FORCE] * 3
            return [(-x, x) for x in limits] * len(self.robot.links)
        symmetric = {"qd": self.velocity, "qdd": self.acceleration, "tau": self.effort}.get(name)
        return None if symmetric is None else [(-x, x) for x in symmetric]

    def sample(
        self, name: str, count: int, seed: int, *, external_forces: bool = False
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Inputs of the function of this name, (count, ...) each, uniform in the region, quaternions in all directions.

        Of qdd and tau one is uniform and the other follows from it in float64, as minv does from q.
        """
        random = np.random.default_rng(seed)
        nv = self.robot.nv
        state = {
            "q": random.uniform(self.lower, self.upper, (count, self.robot.nq)),
            "qd": random.uniform(-1.0, 1.0, (count, nv)) * self.velocity,
        }
        drive = random.uniform(-1.0, 1.0, (count, nv))
        if self.effort is not None:
            effect, dynamics = "qdd", "forward_dynamics"
            state["tau"] = drive * np.asarray(self.effort)
        else:
            effect, dynamics = "tau", "inverse_dynamics"
            state["qdd"] = drive * np.asarray(self.acceleration)
        for part in self.robot.quaternions():
            state["q"][:, part] = random.normal(size=(count, 4))
        normalised(self.robot, state["q"])
        needed = [argument.name for argument in function(name).inputs_with(external_forces)]
        if external_forces:
            limits = np.repeat([EXTERNAL_MOMENT, EXTERNAL_FORCE], 3)
            state["f_ext"] = random.uniform(-1.0, 1.0, (count, len(self.robot.links), 6)) * limits
        if effect in needed:
            state[effect] = evaluate(trace(self.robot, dynamics, external_forces=external_forces), state)[effect]
        if "minv" in needed:
            state["minv"] = evaluate(trace(self.robot, "mass_matrix_inverse"), {"q": state["q"]})["minv"]
        return {key: state[key] for key in needed}


def _of_joints(robot: Robot, name: Literal["velocity", "effort"], given: Limits) -> tuple[float, ...]:
    """The limits of this name per degree of freedom: those that are given, and the URDF's for the rest."""
    limits: list[float] = []
    missing: list[str] = []
    for link in robot.links:
        joint = link.joint
        limit = joint.velocity if name == "velocity" else joint.effort
        if not limit and (given is None or (isinstance(given, Mapping) and joint.name not in given)):
            missing.append(joint.name)
        limits += [limit or 0.0] * joint.nv
    if missing:
        raise LimitError(name, missing)
    return tuple(limits) if given is None else _per_dof(robot, name, given, limits)


def _per_dof(robot: Robot, name: str, values: Limits, default: Sequence[float]) -> tuple[float, ...]:
    if isinstance(values, Mapping):
        unknown = set(values) - {link.joint.name for link in robot.links}
        if unknown:
            raise RobotError(f"{name} names joint '{min(unknown)}', which robot '{robot.name}' does not have")
        limits = list(default)
        for link, _, dofs in robot.slices():
            limits[dofs] = [values.get(link.joint.name, x) for x in limits[dofs]]
    else:
        limits = [values] * robot.nv if isinstance(values, int | float) else list(() if values is None else values)
    if len(limits) != robot.nv or not all(math.isfinite(x) and x > 0.0 for x in limits):
        raise RobotError(
            f"{name}={values}; expected positive numbers: one, or {robot.nv}, one per degree of freedom, "
            "or by joint name"
        )
    return tuple(float(x) for x in limits)
