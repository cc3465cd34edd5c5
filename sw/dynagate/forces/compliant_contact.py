"""Compliant contact of points with planes: a spring, a damper and Coulomb friction, as simulators of legged
robots use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, EXPONENT, is_number
from dynagate.base.explained import explained
from dynagate.dynamics.friction import SPEED
from dynagate.dynamics.spatial import Array, Scalar, array, select, sqrt
from dynagate.forces.checks import ForceError, check_items, check_numbers
from dynagate.forces.contact import ContactError, Plane, Point, check_points, power, touching
from dynagate.forces.force import Force, ForceContext
from dynagate.robot import Robot
from dynagate.robot.variable import DEFAULT_GROUND_FRICTION


@explained
@dataclass(frozen=True)
class CompliantContact(Force):
    """Press points of links out of planes by springs, with smoothed Coulomb friction.

    The normal force at a depth d is f = k d^e (1 + c ḋ), and never a pull. The friction against the velocity v along
    the plane is -μ f v / √(v² + s²).

    Args:
        points: Points that may touch, at least one.
        planes: Planes in the base frame; the ground unless given.
        stiffness: k, N/m^e.
        dissipation: c, s/m.
        friction: μ. The variable parameter "ground.friction" of a robot replaces it.
        speed: s, m/s, at which 0.7 of the friction acts.
        exponent: e, a whole number.

    Raises:
        ForceError: A number is out of range.
        ContactError: There are no points or planes.

    Reference:
        Hunt & Crossley, "Coefficient of restitution interpreted as damping in vibroimpact", 1975.
    """

    points: Sequence[Point]
    planes: Sequence[Plane] = (Plane(),)
    stiffness: float = 1e4
    dissipation: float = 1.0
    friction: float = DEFAULT_GROUND_FRICTION
    speed: float = SPEED
    exponent: float = 1.0

    def __post_init__(self) -> None:
        check_items(self, "contact", ContactError, points=Point, planes=Plane)
        check_numbers(self, "contact", ForceError, stiffness=ABOVE_ZERO, speed=ABOVE_ZERO, exponent=EXPONENT)
        check_numbers(self, "contact", ForceError, dissipation=AT_LEAST_ZERO, friction=AT_LEAST_ZERO)

    def check(self, robot: Robot) -> None:
        """Raise ContactError if a point is on a link that the robot does not have."""
        check_points(robot, self.points, balls=True)

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the contacts."""
        friction = now.tree.ground_friction(self.friction)
        return touching(now, self.points, self.planes, lambda plane, p, v: self._force(plane, p, v, friction))

    def _force(self, plane: Plane, place: Array, velocity: Array, friction: Scalar) -> Array:
        n = array(list(plane.normal))
        above, leaving = n @ place - plane.offset, n @ velocity
        deep = select(above, 0.0, -above)
        harder = 1.0 - leaving * self.dissipation
        press = power(deep, self.exponent) * self.stiffness * select(harder, harder, 0.0)
        along = velocity - n * leaving
        force: Array = n * press
        if not is_number(friction) or friction:
            force = force - along * (press * (friction * (1.0 / sqrt(along @ along + self.speed**2))))
        return force
