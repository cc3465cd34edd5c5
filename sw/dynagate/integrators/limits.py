"""Limits of joints where nothing keeps them: a start beyond one, a motion that passes one, and a torque beyond one are
warned of once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import le
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.base.warned import warn
from dynagate.forces import Force, Limits, Stops, of_text
from dynagate.robot import Robot, RobotWarning

BEYOND = 1e-9
"""rad or m: how far a joint may pass its limit unnoticed."""

SELDOM = 16
"""Calls from one look at their limits to the next: small calls from the first, others after as many looks."""


def keeps_positions(forces: Iterable[Force | str]) -> bool:
    """Return whether one of the forces keeps joints within their limits."""
    return any(isinstance(of_text(force), Limits | Stops) for force in forces)


def limits_text(robot: Robot, options: Mapping[str, Any]) -> str:
    """Describe how a rollout on a chip treats the limits of a robot; "" if the robot has none.

    Args:
        robot: The robot.
        options: Options of the design, of which its forces count.
    """
    positions, efforts = len(_moving(robot, *ranges(robot))), int(np.isfinite(robot.effort).sum())
    text = []
    if positions and keeps_positions(options.get("forces", ())):
        text.append(f"positions of {_joints(positions)} are kept")
    elif positions:
        text.append(f"positions of {_joints(positions)} are not kept: the force `Stops` or `Limits` keeps them")
    if efforts:
        text.append(f"torques of {_joints(efforts)} are taken as they come, not cut to the limits of effort")
    return "; ".join(text)


def warn_beyond_limits(robot: Robot, q: Array) -> bool:
    """Gives a RobotWarning with the joints that pass their limits in a motion q (..., nq), rad or m, from a start (of
    index 0 in the axis before) within them; whether there are any. Numbers that are not finite pass none."""
    return _warn_passed(robot, _outside(q, *_just_beyond(*ranges(robot))))


def _warn_passed(robot: Robot, beyond: Array, *, stops: bool = True) -> bool:
    """Warn of the joints with an entry of a motion beyond a limit, and return whether there are any.

    beyond: (..., states, nq) bool. stops: the integrator accepts the force Stops.
    """
    motions = beyond.reshape(-1, *beyond.shape[-2:])
    passed = np.logical_and(motions.any(axis=1), ~motions[:, 0]).any(axis=0)
    return _warn(
        robot,
        _named(robot, passed),
        "passes its limits, which this integrator does not keep; "
        f"{'forces=[Stops()] or ' if stops else ''}forces=[Limits(stiffness)] does",
    )


class LimitWatch:
    """Issue one warning for a start beyond position limits, one for a motion that passes them, and one for excessive
    torques.
    """

    def __init__(self, robot: Robot, forces: Sequence[Force | str], *, kept: bool = False, stops: bool = True) -> None:
        """Watch a robot.

        forces: those of the motion. kept: something else keeps joints within their limits. stops: the integrator
        accepts the force Stops, so that a warning suggests it.
        """
        self._stops = stops
        self.robot, self.most = robot, robot.effort * (1.0 + BEYOND)
        self.lower, self.upper = (ends.astype(np.float64) for ends in ranges(robot))
        self._low, self._high = _just_beyond(self.lower, self.upper)
        self._lowest, self._highest = self._low.tolist(), self._high.tolist()
        self.of_starts = bool(_moving(robot, self.lower, self.upper))
        self.of_positions = not (kept or keeps_positions(forces)) and self.of_starts
        self.of_efforts = bool(np.isfinite(self.most).any())
        self._calls = self._looks = 0

    def might_warn(self, q: Array, tau: Array) -> bool:
        """Return whether a motion of a small call may need a warning.

        Only every `SELDOM`th such call is checked, since a check takes half as long as the call. The others return
        False.

        Args:
            q: Configurations (..., nq).
            tau: Torques (..., nv).
        """
        self._calls += 1
        if self._calls % SELDOM or not (self.of_positions or self.of_efforts):
            return False
        beyond = self.of_positions and bool(((q > self.upper) | (q < self.lower)).any())
        return beyond or (self.of_efforts and bool((np.abs(tau) > self.most).any()))

    def look(self, q: Array, tau: Array) -> None:
        """Issue the warnings of a motion, with q (..., states, nq) and tau (..., steps, nv).

        After `SELDOM` looks, only every `SELDOM`th motion is looked at, since a look can take a third of a call's time.
        """
        self._looks += 1
        if self._looks > SELDOM and self._looks % SELDOM:
            return
        self.look_at_positions(q)
        if self.of_efforts and _any_outside(tau, -self.most, self.most):
            passed: Array = np.asarray(_outside(tau, -self.most, self.most).reshape(-1, self.robot.nv).any(axis=0))
            names = [joint.name for joint, _, at in self.robot.moving() if passed[at].any()]
            text = "is given more than its limit of effort, which no rollout cuts; clip tau to robot.effort"
            self.of_efforts = not _warn(self.robot, names, text)

    def look_at_positions(self, q: Array) -> None:
        """Issue the warning about positions, with q (..., states, nq)."""
        if self.of_positions and _any_outside(q, self._low, self._high):
            beyond = _outside(q, self._low, self._high)
            self.of_positions = not _warn_passed(self.robot, beyond, stops=self._stops)

    def _within(self, q: list[float]) -> bool:
        """Return whether a configuration is certainly within the limits, which is faster than numpy for a few
        numbers.
        """
        return all(map(le, self._lowest, q)) and all(map(le, q, self._highest))

    def look_at_starts(self, q: Array) -> None:
        """Issue the warning about starts q (batch, nq), which describes the first one beyond its limits."""
        if not self.of_starts or (len(q) == 1 and self._within(q[0].tolist())):
            return
        beyond = _outside(q, self._low, self._high)
        if np.count_nonzero(beyond):
            which = np.flatnonzero(beyond.any(axis=1))
            place = f" in {len(which)} of {len(q)} problems, first in problem {which[0]}" if len(q) > 1 else ""
            text = f"starts beyond its limits{place}; expected starts within robot.lower and robot.upper"
            self.of_starts = not _warn(self.robot, _named(self.robot, beyond.any(axis=0)), text)


def _just_beyond(lower: Array, upper: Array) -> tuple[Array, Array]:
    return lower - BEYOND, upper + BEYOND


def _outside(q: Array, low: Array, high: Array) -> Array:
    """Return which entries of q (..., nq) are beyond their limits. Numbers that are not finite do not count."""
    with np.errstate(invalid="ignore"):
        return np.asarray((q < low) | (q > high))


def _any_outside(values: Array, low: Array, high: Array) -> bool:
    """Return whether an entry of values (..., n) is beyond its limits (n,), without an array of that size."""
    if not values.size:
        return False
    rows = values.reshape(len(values), -1)
    return any(
        bool(_outside(end.reduce(rows, axis=0).reshape(-1, len(low)), low, high).any()) for end in (np.fmin, np.fmax)
    )


def ranges(robot: Robot) -> tuple[Array, Array]:
    """Lower and upper limits (nq,) of joints with one number, and infinity."""
    lower, upper = robot.lower, robot.upper
    for part in robot.quaternions():
        lower[part], upper[part] = -np.inf, np.inf
    return lower, upper


def _moving(robot: Robot, lower: Array, upper: Array) -> list[str]:
    """Return the names of the joints that have a limit among these (nq,)."""
    return _named(robot, np.isfinite(lower) | np.isfinite(upper))


def _named(robot: Robot, which: npt.ArrayLike) -> list[str]:
    """Return the names of the joints to which selected entries (nq,) of q belong."""
    entries = np.asarray(which)
    return [joint.name for joint, at, _ in robot.moving() if entries[at].any()]


def _joints(count: int) -> str:
    return "1 joint" if count == 1 else f"{count} joints"


def _warn(robot: Robot, names: Sequence[str], text: str) -> bool:
    """Warn about these joints and return whether there are any."""
    if names:
        more = f" and {len(names) - 1} more" if names[1:] else ""
        warn(f"joint '{names[0]}'{more} of robot '{robot.name}' {text}", RobotWarning, code="DG-ROLLOUT-066")
    return bool(names)
