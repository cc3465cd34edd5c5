"""Contact of points with planes by the laws of Pan & Manocha (2018, 2019): functions of positions and
displacements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dynagate.base.arguments import (
    ABOVE_ZERO,
    AT_LEAST_ZERO,
    FINITE,
    Accepted,
    check_count,
    number,
    numbers,
    shown,
)
from dynagate.base.errors import Error
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.base.upper_limits import MAX_AROUND, MAX_EXPONENT
from dynagate.dynamics.spatial import Array, Scalar, array, select, zeros
from dynagate.forces.checks import check_items, check_numbers
from dynagate.forces.force import Force, ForceContext, Wrench
from dynagate.robot import Robot
from dynagate.robot.shapes import Shape
from dynagate.robot.vectors import Vector3, vector3


class ContactError(Error, ValueError):
    """A contact law or point that has no meaning. The text names the parameter and its range."""


@dataclass(frozen=True)
class Plane:
    """A half-space that is an obstacle."""

    normal: Vector3 = (0.0, 0.0, 1.0)
    """Normal that points out of the obstacle, scaled to length 1."""
    offset: float = 0.0
    """The obstacle contains the points x with normal · x < offset, in m."""

    def __post_init__(self) -> None:
        normal = numbers("plane has normal ", self.normal, (3,), FINITE, ContactError)
        if not normal.any():
            raise ContactError(
                f"plane has normal {shown(self.normal)}; expected three finite numbers, not all 0",
                code="DG-CONTACT-001",
            )
        object.__setattr__(self, "normal", vector3(normal / math.hypot(*normal)))
        check_numbers(self, "plane", ContactError, offset=FINITE)

    def gap(self, place: Array, radius: float = 0.0) -> tuple[Scalar, Array]:
        """Return the signed distance of a ball in m, and the unit normal (3,) towards it. place: its center (3,), m."""
        normal = array(list(self.normal))
        return normal @ place - (self.offset + radius), normal

    @classmethod
    def slope(cls, degrees: float) -> Plane:
        """Return a plane through the origin that descends along x by an angle in degrees."""
        angle = math.radians(number("slope of degrees ", degrees, FINITE, ContactError))
        return cls((math.sin(angle), 0.0, math.cos(angle)))


@explained
@dataclass(frozen=True)
class Point:
    """A point of a link that may touch a plane."""

    link: str
    """Name of the link."""
    position: Vector3
    """Position in the link's frame, in m."""
    radius: float = 0.0
    """Radius in m of a ball around the point, whose nearest point touches. Compliant and rigid contact accept it."""

    def __post_init__(self) -> None:
        if not isinstance(self.link, str):
            raise ContactError(
                f"contact point on link {shown(self.link)}; expected the name of a link", code="DG-CONTACT-002"
            )
        what = f"contact point on link '{self.link}'"
        check_numbers(self, what, ContactError, radius=AT_LEAST_ZERO)
        place = numbers(f"{what} is at ", self.position, (3,), FINITE, ContactError)
        object.__setattr__(self, "position", vector3(place))


@explained
@dataclass(frozen=True)
class Capsule:
    """A line of a link with a radius, all of which may touch: for rigid contact.

    Args:
        link: The link's name.
        begin: First end of the line (3,) in the link's frame, m.
        end: Other end (3,), m.
        radius: Radius around the line, m.

    Raises:
        ContactError: A number is not finite, the ends are equal, or the radius is not above 0.
    """

    link: str
    begin: Vector3
    end: Vector3
    radius: float

    def __post_init__(self) -> None:
        if not isinstance(self.link, str):
            raise ContactError(
                f"capsule on link {shown(self.link)}; expected the name of a link", code="DG-CONTACT-003"
            )
        what = f"capsule on link '{self.link}'"
        check_numbers(self, what, ContactError, radius=ABOVE_ZERO)
        for name in ("begin", "end"):
            place = numbers(f"{what} has {name} ", getattr(self, name), (3,), FINITE, ContactError)
            object.__setattr__(self, name, vector3(place))
        if self.begin == self.end:
            raise ContactError(
                f"{what} has equal ends {self.begin}; expected a Point with this radius", code="DG-CONTACT-004"
            )

    @property
    def balls(self) -> tuple[Point, Point]:
        """The balls at both ends."""
        return Point(self.link, self.begin, self.radius), Point(self.link, self.end, self.radius)


@explained
@dataclass(frozen=True)
class Contact(Force):
    """Contact of points with planes.

    With the depth d ≥ 0 of a point, the plane's normal n, and the point's displacement x along the plane in a step (for
    explicit and variational steps its velocity times the step):

    * The normal force is stiffness d^alpha n (2019, Equation 8).
    * The force along the plane is -friction (beta + 1) x |x|^(beta - 1) d^(gamma + 1). For the same effect at another
      time step, friction must be proportional to 1/dt.

    Raises:
        ContactError: Parameters are outside the lemmas. All models need stiffness > 0 and friction ≥ 0. "pbfd"
            needs alpha > 1, gamma > 0 and beta ≥ 1, so that the force is differentiable. "pbd" needs alpha, beta, gamma
            > 0, so that the energy is.

    References:
        Pan & Manocha, 2018 and 2019.
    """

    points: Sequence[Point]
    """Points that may touch."""
    planes: Sequence[Plane] = (Plane(),)
    """Planes that they may touch."""
    stiffness: float = 1e4
    """C⊥ of the papers, in N/m^alpha."""
    friction: float = 1e5
    """C∥ of the papers. The robot's variable parameter "ground.friction" replaces it."""
    alpha: float = 2.0
    """Exponent of the depth in the normal force."""
    beta: float = 1.0
    """Exponent of the displacement in the friction."""
    gamma: float = 1.0
    """Exponent of the depth in the friction."""
    model: Literal["pbfd", "pbd"] = "pbfd"
    """"pbfd": the two forces (2019, Equation 13). "pbd": the forces of the energy friction |x|^(beta + 1) d^(gamma +
    1), which push sliding points out of the plane (2019, Equation 11).
    """

    least_beta: ClassVar[tuple[float, bool]] = (1.0, True)
    """Lower bound of beta for "pbfd", and whether beta may equal it."""

    def __post_init__(self) -> None:
        if self.model not in ("pbfd", "pbd"):
            raise ContactError(f"contact has model '{self.model}'; expected 'pbfd' or 'pbd'", code="DG-CONTACT-005")
        check_items(self, "contact", ContactError, points=Point, planes=Plane)
        pbfd = self.model == "pbfd"
        ranges = {
            "stiffness": (0.0, False),
            "friction": (0.0, True),
            "alpha": (1.0 if pbfd else 0.0, False),
            "beta": self.least_beta if pbfd else (0.0, False),
            "gamma": (0.0, False),
        }
        for name, (least, inclusive) in ranges.items():
            text = f"{name} {'≥' if inclusive else '>'} {least:g} for model '{self.model}'"
            check_numbers(self, "contact", ContactError, **{name: Accepted(text, least=least, open=not inclusive)})

    @property
    def sliding(self) -> float:
        """The exponent of |x| that x is multiplied by in the force along the plane."""
        return self.beta - 1.0

    @classmethod
    def of_velocities(
        cls, points: Sequence[Point], planes: Sequence[Plane], *, normal: float, tangential: float, dt: float
    ) -> Contact:
        """Return the contact of Equation 9 of the paper of 2018, D₁ d² + D₂ d² |x/dt|², as a "pbd" law.

        Args:
            points: Points that may touch.
            planes: Planes that they may touch.
            normal: D₁ in N/m; the stiffness is 2 D₁.
            tangential: D₂ in N s²/m³; the friction is D₂/dt².
            dt: Time step in s.

        Raises:
            ContactError: dt or another number is not accepted.
        """
        step = number("dt is ", dt, ABOVE_ZERO, ContactError)
        stiffness = 2.0 * number("contact has normal ", normal, ABOVE_ZERO, ContactError)
        friction = number("contact has tangential ", tangential, AT_LEAST_ZERO, ContactError) / step**2
        return cls(points, planes, stiffness=stiffness, friction=friction, alpha=1.0, beta=1.0, model="pbd")

    def check(self, robot: Robot) -> None:
        """Raise ContactError if a point is on no link of the robot, or a graph has no operation for an exponent."""
        check_points(robot, self.points, balls=True)
        for name in ("alpha", "beta", "gamma"):
            if getattr(self, name) > MAX_EXPONENT:
                value = shown(getattr(self, name))
                raise ContactError(
                    f"contact has {name} {value}; expected at most {MAX_EXPONENT}", code="DG-CONTACT-006"
                )
        if not (self.alpha % 1.0 == self.gamma % 1.0 == 0.0 and self.sliding % 2.0 == 0.0):
            even = "an even" if self.sliding == self.beta else "an odd"
            raise ContactError(
                f"contact has alpha {self.alpha:g}, beta {self.beta:g}, gamma {self.gamma:g}; a graph takes whole "
                f"numbers as alpha and gamma and {even} one as beta",
                code="DG-CONTACT-007",
            )

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the contacts."""
        friction = now.tree.ground_friction(self.friction)

        def law(plane: Plane, place: Array, velocity: Array) -> Array:
            return self.force(plane, place, velocity * now.dt, friction)

        return touching(now, self.points, self.planes, law)

    def force(self, plane: Plane, place: Array, moved: Array, friction: Scalar | None = None) -> Array:
        """Return the force (3,) of a plane on a point.

        Args:
            plane: The plane.
            place: Position of the point, (3,).
            moved: Displacement of the point in the step, (3,).
            friction: C∥ in place of the contact's own.
        """
        friction = self.friction if friction is None else friction
        n = array(list(plane.normal))
        above = n @ place - plane.offset
        deep = select(above, 0.0, -above)
        x = moved - n * (n @ moved)
        square = x @ x
        rub = (self.beta + 1.0) * friction
        press = self.stiffness * power(deep, self.alpha)
        if self.model == "pbd":
            lift = (self.gamma + 1.0) * friction
            press = press + lift * power(square, 0.5 * (self.beta + 1.0)) * power(deep, self.gamma)
        force: Array = n * press - x * (rub * power(square, 0.5 * self.sliding) * power(deep, self.gamma + 1.0))
        return force


def touching(
    now: ForceContext, points: Sequence[Point], planes: Sequence[Plane], law: Callable[[Plane, Array, Array], Array]
) -> Array:
    """Return the generalized force (nv,) of a contact law on points.

    Args:
        now: The state.
        points: The points.
        planes: The planes.
        law: Force (3,) from a plane, a position (3,) and a velocity (3,), all in the base frame.
    """
    wrenches = []
    for k, (i, point) in enumerate(zip(check_points(now.robot, points, balls=True), points, strict=True)):
        with scope(f"point{k}"):
            rotation, position = now.poses[i]
            place = position + rotation @ now.tree.point(i, point.position)
            if point.radius:
                for plane in planes:
                    nearest = place - array(list(plane.normal)) * point.radius
                    wrenches.append((i, Wrench.at(nearest, law(plane, nearest, now.velocity(i, nearest)))))
                continue
            velocity = now.velocity(i, place)
            force = sum((law(plane, place, velocity) for plane in planes), zeros(3))
            wrenches.append((i, Wrench.at(place, force)))
    return now.pushed(wrenches)


def power(x: Scalar, exponent: float) -> Scalar:
    """Return x to the power of a whole number."""
    result: Scalar = 1.0
    for _ in range(round(exponent)):
        result = result * x
    return result


def corners(link: str, size: Vector3, center: Vector3 = (0.0, 0.0, 0.0)) -> list[Point]:
    """Return the eight corners of a box on a link, or fewer if a size is 0.

    Args:
        link: Name of the link.
        size: Size (3,) in m.
        center: Center (3,) in the link's frame, in m.

    Raises:
        ContactError: They are not three finite numbers each, or a size is negative.
    """
    size = vector3(numbers("box has size ", size, (3,), AT_LEAST_ZERO, ContactError))
    center = vector3(numbers("box has center ", center, (3,), FINITE, ContactError))
    sides = [(-0.5, 0.5) if length else (0.0,) for length in size]
    return [
        Point(link, (center[0] + a * size[0], center[1] + b * size[1], center[2] + c * size[2]))
        for a in sides[0]
        for b in sides[1]
        for c in sides[2]
    ]


MOST_POINTS = 1 << 16
"""Largest number of points on one line."""


def along(link: str, begin: Vector3, end: Vector3, count: int) -> list[Point]:
    """Return points on a line in a link's frame, including both ends.

    Args:
        link: Name of the link.
        begin: First end (3,), in m.
        end: Second end (3,), in m.
        count: Number of points, 1 or more.

    Raises:
        ContactError: An end is not three finite numbers, or count is not accepted.
    """
    check_count("count", count, MOST_POINTS, failure=ContactError)
    first = numbers("line has begin ", begin, (3,), FINITE, ContactError)
    last = numbers("line has end ", end, (3,), FINITE, ContactError)
    return [Point(link, vector3(p)) for p in np.linspace(first, last, count)]


@explained
def contact_points(shapes: Sequence[Shape], around: int = 8) -> list[Point]:
    """Return the points of shapes that may touch a plane.

    These are a box's corners, a ball for a sphere and for each end of a capsule, and points around each rim of a
    cylinder, the first along its x axis. They are exact except for a cylinder on its side, which touches at one of
    these points or between two of them.

    Args:
        shapes: Shapes, such as `robot.shapes.collision_shapes` returns.
        around: Number of points around a rim, 3 or more.

    Raises:
        ContactError: `around` is below 3.
    """
    check_count("around", around, MAX_AROUND, 3, ContactError)
    if not isinstance(shapes, Sequence):
        raise ContactError(
            f"shapes={shown(shapes)}; expected a sequence of shapes, such as collision_shapes gives",
            code="DG-CONTACT-008",
        )
    points: list[Point] = []
    for shape in shapes:
        radius, half = shape.size[0], 0.5 * shape.size[-1]
        if shape.kind == "box":
            own = [point.position for point in corners(shape.link, vector3(shape.size))]
        elif shape.kind == "cylinder":
            turns = 2.0 * np.pi * np.arange(around) / around
            own = [(radius * np.cos(a), radius * np.sin(a), z) for z in (-half, half) for a in turns]
        else:
            own = [(0.0, 0.0, 0.0)] if shape.kind == "sphere" else [(0.0, 0.0, -half), (0.0, 0.0, half)]
        ball = radius if shape.kind in ("sphere", "capsule") else 0.0
        turned = np.array(own) @ np.array(shape.rotation).T + np.array(shape.translation)
        points += [Point(shape.link, vector3(place), ball) for place in turned]
    return points


def _place_of_frame(robot: Robot, name: str) -> str:
    """Return how to write the origin of a frame as a point, for an error; "" if the robot has no such frame."""
    for frame in robot.frames:
        if frame.name == name and frame.link >= 0:
            place = ", ".join(f"{x:g}" for x in frame.translation)
            return f"; the frame '{name}' is Point('{robot.links[frame.link].name}', ({place}))"
    return ""


def check_points(robot: Robot, points: Sequence[Point | Capsule], *, balls: bool = False) -> list[int]:
    """Return the indices of the points' links.

    Args:
        robot: The robot.
        points: The points.
        balls: Whether points may have a radius.

    Raises:
        ContactError: The robot does not have a link, or a point has a radius.
    """
    names = {link.name: i for i, link in enumerate(robot.links)}
    for point in points:
        if point.link not in names:
            raise ContactError(
                f"contact point on link '{point.link}', which robot '{robot.name}' has not; expected one of "
                f"{', '.join(names)}{_place_of_frame(robot, point.link)}",
                code="DG-CONTACT-009",
            )
        if point.radius and not balls:
            raise ContactError(
                f"contact point on link '{point.link}' has radius {point.radius:g}, which this law does not take; "
                "expected 0, or a CompliantContact or RigidContact",
                code="DG-CONTACT-010",
            )
    return [names[point.link] for point in points]
