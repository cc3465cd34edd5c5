"""Units of the inputs and outputs of functions, as the header of a package lists them."""

from __future__ import annotations

import re

from dynagate.robot import Robot

OF_ANGLES = {"q": "rad", "qd": "rad/s", "qdd": "rad/s^2", "tau": "N m"}
OF_LENGTHS = {"q": "m", "qd": "m/s", "qdd": "m/s^2", "tau": "N"}
"""Units of the entries of a revolute joint and of a prismatic joint, by argument."""

LIKE = {
    "q_next": "q",
    "qd_next": "qd",
    "gravity_torque": "tau",
    "coriolis_torque": "tau",
    "bias_torque": "tau",
    "feedforward": "tau",
    "tau_used": "tau",
    "tau_mean": "tau",
}
"""Argument -> argument with the same units."""

OTHERS = {
    "f_ext": "N m and N, moment first",
    "dt": "s",
    "kinetic_energy": "J",
    "potential_energy": "J",
    "center_of_mass": "m",
    "center_of_mass_velocity": "m/s",
    "link_positions": "m",
    "frame_position": "m",
    "frame_rotation": "1",
    "draw": "1",
    "effective": "1",
    "failed": "1",
}
"""Units of arguments whose units do not depend on joints."""

UNKNOWN = "SI units"
"""Text for an argument without a listed unit."""


def unit_of(name: str, robot: Robot) -> str:
    """Return the unit of the entries of an input or output.

    Args:
        name: Name of the input or output.
        robot: The robot. Its joints decide between radians and meters.
    """
    name = LIKE.get(name, name)
    if name in OTHERS:
        return OTHERS[name]
    if name in OF_ANGLES:
        return _of_joints(name, robot)
    if derivative := re.fullmatch(r"d(q_next|qd_next|qdd|tau)_d(q|qd|tau)", name):
        above, below = (_of_joints(LIKE.get(each, each), robot) for each in derivative.groups())
        return f"({above}) per ({below})"
    if name in ("m", "minv"):
        torque, acceleration = _of_joints("tau", robot), _of_joints("qdd", robot)
        return f"({torque}) per ({acceleration})" if name == "m" else f"({acceleration}) per ({torque})"
    return UNKNOWN


def _of_joints(name: str, robot: Robot) -> str:
    """Return the units of the entries of all joints for one of the arguments in OF_ANGLES."""
    types = {link.joint.type for link in robot.links if link.joint.nv}
    units = [OF_ANGLES[name]] if types - {"prismatic"} else []
    units += [OF_LENGTHS[name]] if types & {"prismatic", "floating"} else []
    units += ["unit quaternion"] if name == "q" and types & {"spherical", "floating"} else []
    return " or ".join(units)
