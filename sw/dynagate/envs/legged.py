"""A legged robot that should move at a commanded velocity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import FINITE, number, numbers, shown
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.configuration import neutral
from dynagate.dynamics.recursions.poses import places
from dynagate.dynamics.spatial import Scalar, array, exp, select
from dynagate.dynamics.tree import tree_of
from dynagate.envs.moment import Moment
from dynagate.envs.task import Function, Task
from dynagate.envs.vector import RobotVectorEnv
from dynagate.forces.contact import Plane, Point
from dynagate.forces.ground import HeightField
from dynagate.integrators.implicit.rigid_contact import Ground, RigidContact
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName
from dynagate.robot.robots import load

OBSERVATIONS: dict[str, Function] = {
    "up": lambda moment: moment.base_up,
    "velocity": lambda moment: moment.base_velocity,
    "spin": lambda moment: moment.base_spin * 0.25,
    "joints": lambda moment: moment.joints,
    "rates": lambda moment: moment.rates * 0.05,
    "action": lambda moment: moment.action,
    "command": lambda moment: moment["command"],
}
"""Default observations."""

LEVEL = Plane()
"""The ground at height 0."""

HIGHEST, LANDED = 100.0, 1e-9
"""m: how far above and below a foot boxes and spheres are searched, and the gap at which it touches them."""

NEAR = 0.25
"""Squared velocity error, m²/s² or rad²/s², at which the reward for a velocity falls to 0.37."""


def _tracks(moment: Moment) -> Scalar:
    """Return the reward for tracking the commanded horizontal velocity."""
    away = moment.base_velocity[:2] - moment["command"][:2]
    return exp((away @ away) * (-1.0 / NEAR))


def _turns(moment: Moment) -> Scalar:
    """Return the reward for tracking the commanded yaw rate."""
    away = moment.base_spin[2] - moment["command"][2]
    return exp(away * away * (-1.0 / NEAR)) * 0.5


def _changes(moment: Moment) -> Scalar:
    """Return the penalty for changing the action."""
    change = moment.action - moment.last_action
    return (change @ change) * -0.01


REWARDS: dict[str, Function] = {
    "velocity": _tracks,
    "turning": _turns,
    "bounce": lambda moment: moment.base_velocity[2] * moment.base_velocity[2] * -1.0,
    "roll": lambda moment: (moment.base_spin[:2] @ moment.base_spin[:2]) * -0.05,
    "effort": lambda moment: (moment.tau @ moment.tau) * -1e-5,
    "changes": _changes,
}
"""Default rewards."""


@explained
def legged_task(
    robot: RobotOrName,
    feet: Sequence[str | Point] | None = None,
    *,
    stance: Mapping[str, float] | npt.ArrayLike | None = None,
    observations: Mapping[str, Function] | None = None,
    rewards: Mapping[str, Function] | None = None,
    ends: Mapping[str, Function] | None = None,
    commands: npt.ArrayLike = ((0.0, 1.0), (0.0, 0.0), (0.0, 0.0)),
    terrain: Ground | Sequence[Ground] = LEVEL,
    friction: float = 0.8,
    tolerance: float = 1e-4,
    sweeps: int = 50,
    **options: Any,
) -> Task:
    """Return the task of a robot with feet (`LeggedEnv`).

    Args:
        robot: The robot on a floating base, the path of its URDF file, or the name of a robot that ships.
        feet: Names of links or frames whose origins touch the ground, or points of links.
        stance: Positions of joints by name, rad or m, or a configuration (nq,). Joints without one are in the middle of
            their limits. The base is as high as the lowest foot needs, unless a configuration is passed.
        observations: Functions of a `Moment` by name; OBSERVATIONS unless given.
        rewards: Functions of a `Moment` by name; REWARDS unless given.
        ends: Functions of a `Moment` by name, above 0 when an episode ends. Unless given, it ends when the base is
            below half of its height over the ground in the stance or tilts by more than 60 degrees. Boxes and spheres
            do not count as ground there.
        commands: Lowest and highest forward and sideways velocity, m/s, and turning rate, rad/s, (3, 2).
        terrain: Planes, boxes, spheres and height fields of the ground.
        friction: Friction coefficient of the ground.
        tolerance: Accuracy of the velocities of feet, m/s.
        sweeps: Largest number of iterations for the forces of a step.
        options: Other options of `Task`.

    Raises:
        ArgumentError: The robot has no such foot, or stands on a fixed base, or an option does not fit.
        ContactError: A number of the ground is out of range.
    """
    own = robot if isinstance(robot, Robot) else load(robot, floating_base=True)
    points = _points(own, feet)
    ground = (terrain,) if isinstance(terrain, Ground) else terrain
    contact = RigidContact(points, ground, friction=friction, tolerance=tolerance, sweeps=sweeps)
    at = _stance(own, stance, points, contact.ground)
    below = [surface for surface in contact.ground if isinstance(surface, Plane | HeightField)] or [LEVEL]
    least = 0.5 * float(_height(_places(own, at)[0][1], below))
    if ends is None:
        ends = {
            "fallen": lambda moment: least - _height(moment.position(own.links[0].name), below),
            "tilted": lambda moment: 0.5 - moment.base_up[2],
        }
    ranges = numbers("commands=", commands, (3, 2))
    if (ranges[:, 0] > ranges[:, 1]).any():
        raise ArgumentError(
            f"commands={shown(commands)}; expected (low, high) for each of three velocities", code="DG-ENV-006"
        )
    return Task(
        own,
        at,
        OBSERVATIONS if observations is None else observations,
        REWARDS if rewards is None else rewards,
        ends,
        contact,
        inputs={"command": (ranges[:, 0], ranges[:, 1])},
        **options,
    )


def _points(robot: Robot, feet: Sequence[str | Point] | None) -> list[Point]:
    """Return the points that touch the ground, from names of links or frames and from points.

    Raises:
        ArgumentError: There are no feet, a foot is fixed to the base, or the robot's base is fixed.
    """
    leaves = [link.name for i, link in enumerate(robot.links) if i not in robot.parents]
    known = [frame.name for frame in robot.frames if frame.link >= 0] or leaves
    if not feet or isinstance(feet, str):
        raise ArgumentError(
            f"feet={shown(feet)} for robot '{robot.name}'; expected names of links or frames that touch the ground, "
            f"such as some of {', '.join(known)}",
            code="DG-ENV-007",
        )
    points = []
    for foot in feet:
        if isinstance(foot, Point):
            points.append(foot)
            continue
        frame = robot.frame(foot)
        if frame.link < 0:
            raise ArgumentError(
                f"foot '{foot}' of robot '{robot.name}' is fixed to the base; expected a moving one", code="DG-ENV-008"
            )
        points.append(Point(robot.links[frame.link].name, frame.translation))
    if robot.links[0].joint.nv == 1:
        raise ArgumentError(
            f"robot '{robot.name}' is fixed to the ground by joint '{robot.links[0].joint.name}'; expected a floating "
            "base: dynagate.robots.load(file, floating_base=True)",
            code="DG-ENV-009",
        )
    return points


def _stance(
    robot: Robot, stance: Mapping[str, float] | npt.ArrayLike | None, points: Sequence[Point], ground: Sequence[Ground]
) -> Array:
    """Return the stance (nq,), with the lowest foot on the ground unless a configuration is passed."""
    if stance is not None and not isinstance(stance, Mapping):
        return numbers("stance=", stance, (robot.nq,))
    chosen = dict(stance or {})
    q = neutral(robot)
    for joint, iq, _ in robot.moving():
        if joint.nv == 1:
            low, high = robot.lower[iq.start], robot.upper[iq.start]
            middle = 0.5 * (low + high) if np.isfinite([low, high]).all() else 0.0
            q[iq.start] = number(f"stance of joint '{joint.name}' ", chosen.pop(joint.name, middle), FINITE)
            if not low <= q[iq.start] <= high:
                raise ArgumentError(
                    f"stance has joint '{joint.name}' at {q[iq.start]:g}, beyond its limits; expected {low:g} to "
                    f"{high:g}",
                    code="DG-ENV-026",
                )
    if chosen:
        raise ArgumentError(
            f"stance has joint '{next(iter(chosen))}', which robot '{robot.name}' has not; expected some of "
            f"{', '.join(joint.name for joint, _, _ in robot.moving() if joint.nv == 1)}",
            code="DG-ENV-010",
        )
    q[2] -= _lowest(robot, q, points, ground)
    return q


def _lowest(robot: Robot, q: Array, points: Sequence[Point], ground: Sequence[Ground]) -> float:
    """Return the smallest height of a foot above the ground, m, along the vertical."""
    links = {link.name: i for i, link in enumerate(robot.links)}
    poses, gaps = _places(robot, q), []
    for point in points:
        rotation, position = poses[links[point.link]]
        place = position + rotation @ np.array(point.position)
        gaps += [_fall(surface, place, point.radius) for surface in ground]
    return min(gaps)


def _fall(surface: Ground, place: Array, radius: float) -> float:
    """Return how far a ball can fall until it touches a surface, m; infinite if it passes by."""
    if isinstance(surface, Plane | HeightField):
        gap, normal = surface.gap(array(place), radius)
        return float(gap / normal[2])
    fallen = -HIGHEST
    while fallen < HIGHEST:
        gap = float(surface.gap(array(place - [0.0, 0.0, fallen]), radius)[0])
        if gap < LANDED:
            return fallen
        fallen += gap
    return math.inf


def _places(robot: Robot, q: Array) -> list[tuple[Array, Array]]:
    """Return the rotation (3, 3) and position (3,) of each link's frame as in the robot's file."""
    tree = tree_of(robot).unreduced
    own = zip(places(tree, tree.mimic.configuration(q.tolist())), tree.to_file_axes, strict=True)
    return [(np.asarray(turn @ axes.T, dtype=np.float64), np.asarray(at, dtype=np.float64)) for (turn, at), axes in own]


def _height(place: Array, ground: Sequence[Ground]) -> Scalar:
    """Return the height of the first link's origin, m."""
    gaps = [surface.gap(place)[0] for surface in ground]
    least = gaps[0]
    for gap in gaps[1:]:
        least = select(gap - least, least, gap)
    return least


@explained
class LeggedEnv(RobotVectorEnv):
    """Many robots with feet on the ground, as a Gymnasium `VectorEnv`: one call in C does an action of all of them.

    Args:
        robot: The robot on a floating base, the path of its URDF file, or the name of a robot that ships.
        feet: Names of links or frames whose origins touch the ground, or points of links.
        num_envs: Number of environments.
        actions: "pd_targets", "torques" or "positions", from -1 to 1.
        options: Options of `legged_task`, and `dtype`, `threads` and `render_mode`.

    Raises:
        ArgumentError: The robot has no such foot, or stands on a fixed base, or an option does not fit.

    Example:
        >>> env = LeggedEnv("hyq", ["lf_foot", "rf_foot", "lh_foot", "rh_foot"], num_envs=64)
    """

    def __init__(
        self,
        robot: RobotOrName,
        feet: Sequence[str | Point] | None = None,
        num_envs: int = 1,
        *,
        actions: Literal["pd_targets", "torques", "positions"] = "pd_targets",
        dtype: npt.DTypeLike = "float32",
        threads: int = 1,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        task = legged_task(robot, feet, actions=actions, **options)
        super().__init__(task, num_envs, dtype=dtype, threads=threads, render_mode=render_mode)
