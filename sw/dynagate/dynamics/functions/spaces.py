"""Vector spaces of inputs and outputs, from which their shapes, quaternions, mimic maps and derivatives follow.

The configuration of a robot is a point q, and velocities are tangent vectors at that point. Forces are cotangent
vectors: their product with a velocity is a power. The derivative of a force with respect to a velocity is bilinear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.dynamics.mimic import MimicMap
from dynagate.robot import Robot
from dynagate.robot.variable import DYNAMIC

Shape = Callable[[Robot], tuple[int, ...]]
Map = Callable[[MimicMap, Any], Any]


@dataclass(frozen=True)
class Space:
    """The space that contains the values of an argument."""

    name: str
    """Name, as `Argument` accepts it."""
    shape: Shape
    """Shape of a value for a robot."""
    to_joints: Map | None = None
    """Map from a robot's own coordinates to those of all its joints. None if values do not depend on coordinates."""
    from_joints: Map | None = None
    """Map from the coordinates of all joints to the robot's own. None if values do not depend on coordinates."""
    is_solved: bool = False
    """Whether values in a robot's own coordinates can only be found by solving equations in these coordinates."""
    is_symmetric: bool = False
    """Whether values are symmetric matrices."""
    is_switch: bool = False
    """Whether each number is 0 or 1."""
    dual: str = ""
    """Name of the space of derivatives of a scalar with respect to a value; "" if values are not differentiated."""
    moves_in: str = ""
    """Name of the space of a value's derivatives; "" if it has none."""
    by_link: Callable[[int, slice, slice], slice] | None = None
    """Function of a link's number and its slices of q and q̇ that returns the link's part of a value.

        None if all links share the value.
    """


def _vector(robot: Robot) -> tuple[int, ...]:
    return (robot.nv,)


def _matrix(robot: Robot) -> tuple[int, ...]:
    return robot.nv, robot.nv


def _rows(robot: Robot) -> tuple[int, ...]:
    return (robot.constraint_rows,)


def _constraints(robot: Robot) -> tuple[int, ...]:
    return (len(robot.constraints),)


def _by_joint(link: int, q: slice, v: slice) -> slice:
    return v


TANGENT = Space(
    "tangent",
    _vector,
    to_joints=MimicMap.rates,
    is_solved=True,
    dual="cotangent",
    moves_in="tangent",
    by_link=_by_joint,
)
"""The space of velocities, accelerations and directions (nv,)."""
SPACES: Mapping[str, Space] = {
    space.name: space
    for space in (
        replace(
            TANGENT,
            name="configuration",
            shape=lambda robot: (robot.nq,),
            to_joints=MimicMap.configuration,
            by_link=lambda link, q, v: q,
        ),
        TANGENT,
        Space(
            "cotangent",
            _vector,
            from_joints=MimicMap.torques,
            dual="tangent",
            moves_in="cotangent",
            by_link=_by_joint,
        ),
        Space("bilinear", _matrix, from_joints=MimicMap.matrix),
        Space("metric", _matrix, from_joints=MimicMap.symmetric, is_symmetric=True),
        Space("inverse_metric", _matrix, is_solved=True, is_symmetric=True),
        Space("linear", _matrix, is_solved=True),
        Space(
            "wrenches", lambda robot: (len(robot.links), 6), by_link=lambda link, q, v: slice(6 * link, 6 * link + 6)
        ),
        Space("scalar", lambda robot: ()),
        Space("point", lambda robot: (3,)),
        Space("points", lambda robot: (len(robot.links), 3)),
        Space("rotation", lambda robot: (3, 3)),
        Space("twist", lambda robot: (6,)),
        Space("jacobian", lambda robot: (6, robot.nv), from_joints=MimicMap.columns),
        Space("point_jacobian", lambda robot: (3, robot.nv), from_joints=MimicMap.columns),
        Space("jacobians", lambda robot: (len(robot.links), 6, robot.nv), from_joints=MimicMap.columns),
        Space("torques_by_parameters", lambda robot: (robot.nv, len(robot.links), DYNAMIC), from_joints=MimicMap.rows),
        Space("parameters", lambda robot: (len(robot.links), DYNAMIC)),
        Space("cosines", lambda robot: (robot.nv, 2)),
        Space("switches", _constraints, is_switch=True),
        Space("ratios", _constraints),
        Space("rows", _rows, dual="rows", moves_in="rows"),
        Space("rows_by_tangent", lambda robot: (robot.constraint_rows, robot.nv), from_joints=MimicMap.columns),
        Space("rows_by_rows", lambda robot: (robot.constraint_rows, robot.constraint_rows)),
    )
}
"""Spaces by name.

* configuration (nq,); tangent and cotangent (nv,)
* bilinear and linear (nv, nv); metric and inverse_metric (nv, nv), symmetric
* wrenches (links, 6); scalar (); point (3,); points (links, 3); rotation (3, 3); twist (6,)
* jacobian (6, nv); point_jacobian (3, nv); jacobians (links, 6, nv)
* torques_by_parameters (nv, links, 13); parameters (links, 13); cosines (nv, 2), cosine and sine of each joint
* switches (constraints,), 0 or 1 each; ratios (constraints,); rows (rows,), those of all constraints
* rows_by_tangent (rows, nv); rows_by_rows (rows, rows), symmetric
"""


@dataclass(frozen=True)
class Argument:
    """An input or output of a function.

    Args:
        name: Name in calls and results.
        space: Name of the space of its values, one of SPACES.
        like: Name of an input of a listed function with numbers of similar size, if `name` is not such an input.

    Raises:
        ArgumentError: There is no such space.
    """

    name: str
    space: str
    like: str = ""

    def __post_init__(self) -> None:
        if self.space not in SPACES:
            raise ArgumentError(
                f"argument '{self.name}' has space {self.space!r}{nearest(str(self.space), SPACES)}; expected one of "
                f"{', '.join(SPACES)}",
                code="DG-FUNCTION-036",
            )

    @property
    def values(self) -> Space:
        """The space of the values."""
        return SPACES[self.space]

    def shape(self, robot: Robot) -> tuple[int, ...]:
        """Return the shape of a value for a robot."""
        return self.values.shape(robot)

    def unit_vectors(self, robot: Robot) -> tuple[tuple[int, int], ...]:
        """Return the first and the end index of each group of entries, in row-major order, that form a vector of length
        1.
        """
        if self.space == "cosines":
            return tuple((2 * d, 2 * d + 2) for d in range(robot.nv))
        is_q = self.space == "configuration"
        return tuple((part.start, part.stop) for part in robot.quaternions()) if is_q else ()

    def weights(self) -> Argument:
        """Return the input λ of a reverse derivative: weights of this output."""
        return Argument(f"lam_{self.name}", self.values.dual)

    def direction(self) -> Argument:
        """Return the input δ of a forward derivative: a direction of this input."""
        return Argument(f"delta_{self.name}", self.values.moves_in)

    def product(self) -> Argument:
        """Return the output of a reverse derivative by this input."""
        return Argument(f"vjp_{self.name}", self.values.dual)

    def rate(self) -> Argument:
        """Return the forward derivative's output that corresponds to this output."""
        return Argument(f"jvp_{self.name}", self.values.moves_in)


SPACE_OF = {
    name: space
    for space, names in {
        "configuration": "q q_next",
        "tangent": "qd qdd qd_next qd_after",
        "cotangent": "tau gravity_torque coriolis_torque bias_torque",
        "bilinear": "dtau_dq dtau_dqd d2_dq_dq d2_dq_dqd d2_dqd_dqd d2_dq_dtau",
        "metric": "m",
        "inverse_metric": "minv",
        "linear": "dqdd_dq dqdd_dqd dqdd_dtau",
        "scalar": "kinetic_energy potential_energy",
        "point": "center_of_mass frame_position center_of_mass_velocity",
        "points": "link_positions",
        "rotation": "frame_rotation",
        "twist": "frame_velocity frame_acceleration frame_bias_acceleration centroidal_momentum",
        "jacobian": "frame_jacobian centroidal_momentum_matrix",
        "point_jacobian": "center_of_mass_jacobian",
        "jacobians": "link_jacobians",
        "torques_by_parameters": "regressor",
        "parameters": "kinetic_regressor potential_regressor",
        "switches": "active",
        "ratios": "restitution",
        "rows": "force acceleration constraint_drift impulse",
        "rows_by_tangent": "contact_jacobian dforce_dq dforce_dqd dforce_dtau",
        "rows_by_rows": "delassus",
    }.items()
    for name in names.split()
}
"""Spaces of the arguments of listed functions, by argument name."""


def arguments(names: str) -> tuple[Argument, ...]:
    """Return inputs or outputs of the listed functions by their names."""
    return tuple(Argument(name, SPACE_OF[name]) for name in names.split())
