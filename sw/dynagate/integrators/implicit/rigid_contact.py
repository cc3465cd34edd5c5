"""Rigid contact as an option: the shapes that touch, and the law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, SHARE, check_count, shown, store_plain_numbers
from dynagate.base.explained import explained
from dynagate.base.upper_limits import MAX_ITERATIONS
from dynagate.forces.checks import check_items, check_numbers
from dynagate.forces.contact import Capsule, ContactError, Plane, Point
from dynagate.forces.ground import GroundBox, GroundSphere, HeightField
from dynagate.robot.variable import DEFAULT_GROUND_FRICTION, DEFAULT_GROUND_RESTITUTION

Ground = Plane | GroundBox | GroundSphere | HeightField
"""A surface of the ground."""

OfLink = Point | Capsule
"""A shape of a link."""

Pair = tuple[OfLink, Ground | OfLink]
"""Two shapes that may touch: the first is of a link."""


@explained
@dataclass(frozen=True)
class RigidContact:
    """Rigid ground with dry friction, which points of links touch, press and leave, and links that touch each other.

    Args:
        points: Points, balls and capsules of links that may touch the ground. Capsules meet planes and spheres.
        ground: Planes, boxes, spheres and height fields; the horizontal plane through the origin unless given.
        friction: Friction coefficient μ of Coulomb's law, in all directions and at rest. The variable parameter
            "ground.friction" of a robot replaces it.
        compliance: c in 1/kg. A point yields with a velocity of c times its impulse, which shares a load among points
            that could carry it in many ways.
        tolerance: Largest change of a point's velocity by the last sweep, m/s.
        sweeps: Largest number of sweeps in a step.
        restitution: Normal velocity of a point after an impact, as a share of the closing speed before it, from 0 to 1.
            The variable parameter "ground.restitution" of a robot replaces it.
        bounce_speed: Closing speed, m/s, up to which a point does not bounce.
        between: Pairs of balls or capsules of two links that may touch each other, by the same law.

    Raises:
        ContactError: There are no points and pairs, a pair is of one link, or a number is out of range.
    """

    points: Sequence[OfLink]
    ground: Sequence[Ground] = (Plane(),)
    friction: float = DEFAULT_GROUND_FRICTION
    compliance: float = 1e-6
    tolerance: float = 1e-7
    sweeps: int = 400
    restitution: float = DEFAULT_GROUND_RESTITUTION
    bounce_speed: float = 0.1
    between: Sequence[tuple[OfLink, OfLink]] = ()

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        what = "rigid contact"
        object.__setattr__(self, "between", _checked_pairs(self.between))
        if self.between and isinstance(self.points, Sequence) and not self.points:
            object.__setattr__(self, "points", ())
        else:
            check_items(self, what, ContactError, points=Point | Capsule)
        check_items(self, what, ContactError, ground=Ground)
        ranges = {"friction": AT_LEAST_ZERO, "compliance": AT_LEAST_ZERO, "tolerance": ABOVE_ZERO}
        ranges |= {"restitution": SHARE, "bounce_speed": AT_LEAST_ZERO}
        check_numbers(self, what, ContactError, **ranges)
        check_count(f"{what} has sweeps", self.sweeps, MAX_ITERATIONS, failure=ContactError)
        assert self.by_point  # raises for capsules that the ground does not take

    @cached_property
    def by_point(self) -> tuple[tuple[Pair, ...], ...]:
        """The pairs of each point with the ground, in the order of `points`, and those between links at the end."""
        ground_pairs = [
            tuple(pair for surface in self.ground for pair in _meetings(point, surface)) for point in self.points
        ]
        return (*ground_pairs, tuple(self.between))

    @property
    def meetings(self) -> list[Pair]:
        """The pairs in the order of the impulses."""
        return [pair for pairs in self.by_point for pair in pairs]

    @property
    def pairs(self) -> int:
        """Number of pairs: three impulses each."""
        return len(self.meetings)


def _meetings(point: OfLink, surface: Ground) -> list[Pair]:
    """Return the pairs by which a point or capsule touches a surface."""
    if isinstance(point, Point) or isinstance(surface, GroundSphere):
        return [(point, surface)]
    if isinstance(surface, Plane):
        return [(ball, surface) for ball in point.balls]
    raise ContactError(
        f"capsule on link '{point.link}' against a {type(surface).__name__}; expected planes or spheres for capsules, "
        "or balls along it: Point(link, position, radius)",
        code="DG-ROLLOUT-060",
    )


def _checked_pairs(between: Sequence[tuple[OfLink, OfLink]]) -> tuple[tuple[OfLink, OfLink], ...]:
    expected = "expected pairs of balls and capsules of two links, such as (Capsule('a', ...), Point('b', ..., 0.05))"
    if not isinstance(between, Sequence) or isinstance(between, str):
        raise ContactError(f"rigid contact has between {shown(between)}; {expected}", code="DG-ROLLOUT-061")
    for pair in between:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(x, Point | Capsule) for x in pair)):
            raise ContactError(f"rigid contact has between {shown(pair)}; {expected}", code="DG-ROLLOUT-062")
        a, b = pair
        if a.link == b.link:
            raise ContactError(
                f"a pair of link '{a.link}' with itself, which never moves apart; {expected}", code="DG-ROLLOUT-063"
            )
        if not a.radius + b.radius:
            raise ContactError(
                f"a pair of points of links '{a.link}' and '{b.link}' without a radius; {expected}",
                code="DG-ROLLOUT-064",
            )
    return tuple((a, b) for a, b in between)
