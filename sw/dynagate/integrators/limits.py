"""Joint limits where nothing keeps them: a motion that passes one is warned of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.robot import Robot, RobotWarning

BEYOND = 1e-9
"""rad or m: how far a joint may pass its limit unnoticed."""


def warn_beyond_limits(robot: Robot, q: npt.NDArray[Any]) -> bool:
    """Gives a RobotWarning with the joints that pass their limits in a motion q (..., nq), rad or m, from a start (of
    index 0 in the axis before) within them; whether there are any. Numbers that are not finite pass none."""
    q = q.reshape(-1, *q.shape[-2:])
    passed = []
    for link, iq, _ in robot.slices():
        if link.joint.nv != 1:
            continue
        low, high = robot.reach(link.joint)
        x = q[..., iq.start]
        inside = np.ones(len(x), bool)
        beyond = np.zeros(x.shape, bool)
        for limit, sign in ((low, -1.0), (high, 1.0)):
            if limit is not None:
                over = sign * (x - limit) > BEYOND
                inside &= ~over[:, 0]
                beyond |= over
        if (beyond.any(axis=1) & inside).any():
            passed.append(link.joint.name)
    if passed:
        more = f" and {len(passed) - 1} more" if passed[1:] else ""
        warnings.warn(
            f"joint '{passed[0]}'{more} of robot '{robot.name}' passes its limits, which this integrator does not "
            "keep; Rollout(..., stops=True) or forces=[Limits(stiffness)] does",
            RobotWarning,
            stacklevel=3,
        )
    return bool(passed)
