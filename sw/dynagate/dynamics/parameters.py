"""A link's ten inertial parameters, as inputs instead of constants.

They are Pinocchio's: [m, h_x, h_y, h_z, I_xx, I_xy, I_yy, I_xz, I_yz, I_zz] with mass m in kg, first moment h = m c in
kg m and rotational inertia I in kg m² about the link's origin, all in the axes of the link's frame in the URDF.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, symmetric
from dynagate.robot import Robot
from dynagate.robot.model import Link

COUNT = 10
CALLED = ("out", "outputs")
"""Arguments of an accelerator's call that are no inputs."""
NAMES = ("m", "h_x", "h_y", "h_z", "i_xx", "i_xy", "i_yy", "i_xz", "i_yz", "i_zz")
"""Of the parameters, in order."""


def parameters_of(link: Link) -> npt.NDArray[np.float64]:
    """The parameters of a link (10,)."""
    second = np.array(link.second_moment())
    i = np.trace(second) * np.eye(3) - second
    return np.array([link.mass, *link.first_moment(), i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]])


def check_variable(robot: Robot, names: Sequence[str], taken: Sequence[str]) -> None:
    """Raises ValueError: a name is no moving link's, of one without mass, or cannot be an input's. taken: names of
    other inputs."""
    links = {link.name: link for link in robot.links}
    taken = (*taken, *CALLED)
    for name in names:
        if name not in links:
            raise ArgumentError(
                f"robot '{robot.name}' has no moving link '{name}'{nearest(name, links)}; expected one of "
                f"{', '.join(links)} (a link on a fixed joint is part of the link that carries it)"
            )
        if links[name].mass == 0.0:
            raise ArgumentError(f"link '{name}' has no mass; expected a link with mass as a variable one")
        if names.count(name) > 1:
            raise ArgumentError(f"variable link '{name}' is named {names.count(name)} times; expected each once")
        if name in taken or not (name.isidentifier() and name.isascii()):
            raise ArgumentError(
                f"link '{name}' cannot be an input of that name; expected a link whose name has letters, digits and _ "
                f"alone and is not {', '.join(taken)}"
            )


def inertia_of(parameters: Sequence[Scalar], turn: Array, moved: float) -> Inertia:
    """The inertia in a frame that is turned, and whose origin is moved along its own z, from the link's."""
    mass, first = parameters[0], turn.T @ array(parameters[1:4])
    xx, xy, yy, xz, yz, zz = parameters[4:]
    half = (xx + yy + zz) * 0.5
    second = array([[half - xx, -xy, -xz], [-xy, half - yy, -yz], [-xz, -yz, half - zz]])
    turned = turn.T @ second @ turn
    to = array([0.0, 0.0, moved])
    shifted = symmetric(lambda a, b: turned[a, b] - to[a] * first[b] - first[a] * to[b] + mass * (to[a] * to[b]))
    return Inertia(mass, first - to * mass, shifted)
