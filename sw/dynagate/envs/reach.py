"""An arm that should bring a frame to a goal, which is drawn for each episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import numbers, shown
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.configuration import neutral
from dynagate.envs.moment import Moment
from dynagate.envs.task import Function, Task
from dynagate.envs.vector import RobotVectorEnv
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.robot.checked import RobotOrName, robot_of

STARTS = 256
"""Number of random configurations from which the box of goals is computed."""

CLOSE = 0.02
"""Squared distance to the goal, m², at which the reward for it falls to 0.37."""


@explained
def reach_task(
    robot: RobotOrName,
    frame: str | None = None,
    *,
    stance: npt.ArrayLike | None = None,
    goals: npt.ArrayLike | None = None,
    observations: Mapping[str, Function] | None = None,
    rewards: Mapping[str, Function] | None = None,
    ends: Mapping[str, Function] | None = None,
    **options: Any,
) -> Task:
    """Return the task of an arm that reaches for goals (`ReachEnv`).

    Args:
        robot: The arm, the path of its URDF file, or the name of a robot that ships.
        frame: Name of the frame or link that reaches; the last link unless given.
        stance: Configuration (nq,) that episodes begin near; zeros, within the limits, unless given.
        goals: Lowest and highest coordinates of goals in the base frame, m, (3, 2). Unless given, the middle half of
            the box that the frame reaches.
        observations: Functions of a `Moment` by name. Unless given: joints, rates, the frame's position and the way to
            the goal.
        rewards: Functions of a `Moment` by name. Unless given: 1 at the goal, less the squares of actions and rates.
        ends: Functions of a `Moment` by name, above 0 when an episode ends; none unless given.
        options: Other options of `Task`.

    Raises:
        RobotError: The robot has no such frame.
        ArgumentError: An option does not fit.
    """
    own = robot_of(robot)
    name = own.links[-1].name if frame is None else frame
    own.frame(name)
    at = np.clip(neutral(own), own.lower, own.upper) if stance is None else numbers("stance=", stance, (own.nq,))
    box = _reached(own, name) if goals is None else numbers("goals=", goals, (3, 2))
    if (box[:, 0] > box[:, 1]).any():
        raise ArgumentError(f"goals={shown(goals)}; expected the lowest and highest x, y and z", code="DG-ENV-011")

    def away(moment: Moment) -> Any:
        return moment["goal"] - moment.position(name)

    seen: dict[str, Function] = {
        "joints": lambda moment: moment.joints,
        "rates": lambda moment: moment.rates * 0.1,
        "position": lambda moment: moment.position(name),
        "away": away,
    }
    paid: dict[str, Function] = {
        "goal": lambda moment: 1.0 / (1.0 + (away(moment) @ away(moment)) * (1.0 / CLOSE)),
        "effort": lambda moment: (moment.action @ moment.action) * -0.01,
        "rates": lambda moment: (moment.rates @ moment.rates) * -0.001,
    }
    return Task(
        own,
        at,
        seen if observations is None else observations,
        paid if rewards is None else rewards,
        ends or {},
        inputs={"goal": (box[:, 0], box[:, 1])},
        **options,
    )


def _reached(robot: Any, frame: str) -> Any:
    """Return the middle half of the box that a frame reaches within the limits of joints, (3, 2)."""
    low, high = np.maximum(robot.lower, -np.pi), np.minimum(robot.upper, np.pi)
    q = np.random.default_rng(0).uniform(low, high, (STARTS, robot.nq))
    for part in robot.quaternions():
        q[:, part] /= np.linalg.norm(q[:, part], axis=1, keepdims=True)
    places = evaluate(trace(robot, f"frame_pose_{frame}", outputs=["frame_position"]), {"q": q})["frame_position"]
    return np.quantile(places, [0.25, 0.75], axis=0).T


@explained
class ReachEnv(RobotVectorEnv):
    """Many arms that reach for goals, as a Gymnasium `VectorEnv`: one call in C does an action of all of them.

    Args:
        robot: The arm, the path of its URDF file, or the name of a robot that ships.
        frame: Name of the frame or link that reaches; the last link unless given.
        num_envs: Number of environments.
        actions: "pd_targets", "torques" or "positions", from -1 to 1.
        options: Options of `reach_task`, and `dtype`, `threads` and `render_mode`.

    Raises:
        RobotError: The robot has no such frame.
        ArgumentError: An option does not fit.
    """

    def __init__(
        self,
        robot: RobotOrName,
        frame: str | None = None,
        num_envs: int = 1,
        *,
        actions: Literal["pd_targets", "torques", "positions"] = "pd_targets",
        dtype: npt.DTypeLike = "float32",
        threads: int = 1,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        task = reach_task(robot, frame, actions=actions, **options)
        super().__init__(task, num_envs, dtype=dtype, threads=threads, render_mode=render_mode)
