"""Contact of points with planes as a spring, a damper and Coulomb friction: what a simulator of legs needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.explained import explained
from dynagate.dynamics.friction import SPEED
from dynagate.dynamics.spatial import Array, array, select, sqrt
from dynagate.forces.checks import check_above_zero, check_at_least_zero, check_power
from dynagate.forces.contact import ContactError, Plane, Point, check_points, power, touching
from dynagate.forces.force import Force, Now
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class CompliantContact(Force):
    """Points of links against planes: f = k d^e (1 + c ḋ) along a plane's normal at a depth d, never a pull (Hunt &
    Crossley, 1975), and Coulomb friction -μ f v / √(v² + s²) against a point's velocity v along the plane.

    points: at least one. planes: in the base frame; the ground by default. stiffness: k, N/m^e. dissipation: c, s/m.
    friction: μ. speed: s, m/s, at which 0.7 of the friction acts. exponent: e, a whole number.
    Raises ForceError: a number is out of range; ContactError: points or planes are none."""

    points: Sequence[Point]
    planes: Sequence[Plane] = (Plane(),)
    stiffness: float = 1e4
    dissipation: float = 1.0
    friction: float = 0.8
    speed: float = SPEED
    exponent: float = 1.0

    def __post_init__(self) -> None:
        for name, kind in (("points", Point), ("planes", Plane)):
            items = getattr(self, name)
            if not (isinstance(items, Sequence) and items and all(isinstance(item, kind) for item in items)):
                raise ContactError(
                    f"contact has {name} {items!r:.60}; expected a sequence of one {kind.__name__} or more"
                )
            object.__setattr__(self, name, tuple(items))
        check_above_zero("contact", stiffness=self.stiffness, speed=self.speed)
        check_at_least_zero("contact", dissipation=self.dissipation, friction=self.friction)
        check_power("contact", "exponent", self.exponent)

    def check(self, robot: Robot) -> None:
        """Raises ContactError: a point on no link of the robot."""
        check_points(robot, self.points, balls=True)

    def torque(self, now: Now) -> Array:
        return touching(now, self.points, self.planes, self._force)

    def _force(self, plane: Plane, place: Array, velocity: Array) -> Array:
        n = array(list(plane.normal))
        above, leaving = n @ place - plane.offset, n @ velocity
        deep = select(above, 0.0, -above)
        harder = 1.0 - leaving * self.dissipation
        press = power(deep, self.exponent) * self.stiffness * select(harder, harder, 0.0)
        along = velocity - n * leaving
        force: Array = n * press
        if self.friction:
            force = force - along * (press * (self.friction * (1.0 / sqrt(along @ along + self.speed**2))))
        return force
