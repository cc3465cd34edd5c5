"""Pairs that may touch at a configuration: their gaps, and how they move along the normal and two tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynagate.base.arguments import is_number
from dynagate.base.arrays import Floats
from dynagate.base.explained import explained
from dynagate.base.naming import label, scope
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.recursions.poses import Poses, jacobian_columns, poses
from dynagate.dynamics.spatial import Array, Scalar, array, select, zeros
from dynagate.dynamics.tree import Tree, tree_of
from dynagate.forces.contact import Capsule, ContactError, Plane, Point, check_points
from dynagate.forces.ground import GroundSphere, length_and_direction
from dynagate.graph.evaluate import evaluate
from dynagate.graph.recorder import Recording
from dynagate.integrators.implicit.rigid_contact import Ground, OfLink, RigidContact
from dynagate.robot import Robot

TRIED = 64
"""Random configurations in which links of a pair are tried to be apart."""

PARALLEL = 1e-9
"""Squared sine of the angle between capsules, up to which one of their ends is the place that touches."""


@explained
def axes_of(plane: Plane) -> np.ndarray:
    """Rows (3, 3): the plane's normal and two tangents, in base axes."""
    normal = np.array(plane.normal)
    first = np.zeros(3)
    first[np.argmin(np.abs(normal))] = 1.0
    tangent = np.cross(normal, first)
    tangent /= np.linalg.norm(tangent)
    return np.stack([normal, tangent, np.cross(normal, tangent)]) + 0.0


def axes_about(normal: Array) -> Array:
    """Return the axes (3, 3) of a normal (3,) that a state decides, as rows (Duff et al. 2017)."""
    if all(is_number(x) for x in normal):
        return array(axes_of(Plane((float(normal[0]), float(normal[1]), float(normal[2])))))
    x, y, z = normal
    side = select(z, 1.0, -1.0)
    share = -1.0 / (side + z)
    product = x * y * share
    first = array([1.0 + side * (x * x * share), side * product, -side * x])
    return array([normal, first, [product, side + y * y * share, -y]])


def links_of(robot: Robot, contact: RigidContact) -> dict[str, int]:
    """Return the numbers of the links that may touch, by name. Raise ContactError if the robot has no such link, or a
    pair of links overlaps in all configurations."""
    shapes = [*contact.points, *(shape for pair in contact.between for shape in pair)]
    numbers = dict(zip((shape.link for shape in shapes), check_points(robot, shapes, balls=True), strict=True))
    if contact.between:
        _check_apart(robot, contact, numbers)
    return numbers


def drawn_configurations(robot: Robot, lower: Floats, upper: Floats) -> Floats:
    """Draw TRIED configurations within limits (nq,), or from -π to π for joints without limits."""
    random, (low, high) = np.random.default_rng(0), (np.maximum(lower, -np.pi), np.minimum(upper, np.pi))
    low, high = np.where(low < high, low, -np.pi), np.where(low < high, high, np.pi)
    tried = np.stack([normalized(robot, random.uniform(low, high)) for _ in range(TRIED)])
    return tried.astype(np.float64)


def _check_apart(robot: Robot, contact: RigidContact, links: dict[str, int]) -> None:
    own = RigidContact((), between=contact.between)
    recording = Recording("gaps", robot.name)
    q = recording.input("q", (robot.nq,))
    tree = tree_of(robot)
    _, gaps = contact_rows(tree, own, links, poses(tree, list(tree.mimic.configuration(q)), "base"))
    gap_values = evaluate(
        recording.graph({"gaps": array(gaps)}), {"q": drawn_configurations(robot, robot.lower, robot.upper)}
    )["gaps"]
    for (a, b), most in zip(contact.between, gap_values.max(axis=0), strict=True):
        if most < 0.0:
            raise ContactError(
                f"links '{a.link}' and '{b.link}' of robot '{robot.name}' overlap by {-most:.2g} m or more in all of "
                f"{TRIED} configurations; expected shapes that can be apart: smaller ones, or links that are no "
                "neighbours",
                code="DG-CONTACT-012",
            )


class _Meeting(NamedTuple):
    """A pair at a configuration: its gap in m, its axes (3, 3), and the links and places (3,) that touch."""

    gap: Scalar
    axes: Array
    touching: Sequence[tuple[int, Array]]


def contact_rows(tree: Tree, contact: RigidContact, links: dict[str, int], where: Poses) -> tuple[Array, list[Scalar]]:
    """Return J (3 pairs, nv) along the axes of the pairs, and their gaps in m."""
    result, gaps = zeros(3 * contact.pairs, tree.nv), []
    for c, (shape, other) in enumerate(contact.meetings):
        with scope("constraint", f"link{links[shape.link]}"):
            ends = _ends(tree, shape, links, where)
            if isinstance(other, Point | Capsule):
                meeting = _of_links(shape, other, links, ends, _ends(tree, other, links, where))
            else:
                meeting = _of_ground(shape, other, links, ends)
            columns = [jacobian_columns(tree, link, at, where)[1] for link, at in meeting.touching]
            moves = columns[0] if len(columns) == 1 else columns[0] - columns[1]
            result[3 * c : 3 * c + 3] = meeting.axes @ moves
            gaps.append(label(meeting.gap, "gap"))
    return result, gaps


def _ends(tree: Tree, shape: OfLink, links: dict[str, int], where: Poses) -> list[Array]:
    """Return the place of a point, or of both ends of a capsule, in base axes."""
    link = links[shape.link]
    own = (shape.position,) if isinstance(shape, Point) else (shape.begin, shape.end)
    return [where.position[link] + where.rotation[link] @ tree.point(link, place) for place in own]


def _of_ground(shape: OfLink, surface: Ground, links: dict[str, int], ends: Sequence[Array]) -> _Meeting:
    at = ends[0]
    if len(ends) > 1:
        assert isinstance(surface, GroundSphere)  # as `RigidContact` checks
        line, center = ends[1] - ends[0], array(list(surface.center))
        at = ends[0] + line * _clipped((line @ (center - ends[0])) * (1.0 / _squared_length(shape)))
    gap, normal = surface.gap(at, shape.radius)
    axes = array(axes_of(surface)) if isinstance(surface, Plane) else axes_about(normal)
    place = at - axes[0] * shape.radius if shape.radius else at
    return _Meeting(gap, axes, [(links[shape.link], place)])


def _of_links(
    shape: OfLink, other: OfLink, links: dict[str, int], ends: Sequence[Array], others: Sequence[Array]
) -> _Meeting:
    here, there = _nearest(shape, other, ends, others)
    distance, normal = length_and_direction(here - there)
    places = here - normal * shape.radius, there + normal * other.radius
    gap = distance - (shape.radius + other.radius)
    return _Meeting(gap, axes_about(normal), list(zip((links[shape.link], links[other.link]), places, strict=True)))


def _nearest(shape: OfLink, other: OfLink, ends: Sequence[Array], others: Sequence[Array]) -> tuple[Array, Array]:
    """Return the nearest places (3,) of two lines, or of points (Ericson, "Real-Time Collision Detection", 5.1.9)."""
    if len(ends) == 1 and len(others) == 1:
        return ends[0], others[0]
    if len(ends) == 1:
        line = others[1] - others[0]
        share = _clipped((line @ (ends[0] - others[0])) * (1.0 / _squared_length(other)))
        return ends[0], others[0] + line * share
    if len(others) == 1:
        there, here = _nearest(other, shape, others, ends)
        return here, there
    along, across, apart = ends[1] - ends[0], others[1] - others[0], ends[0] - others[0]
    a, e = _squared_length(shape), _squared_length(other)
    b, c, f = along @ across, along @ apart, across @ apart
    square = a * e - b * b
    crossing = select(square - PARALLEL * a * e, square, 1.0)
    share = select(square - PARALLEL * a * e, _clipped((b * f - c * e) * (1.0 / crossing)), 0.0)
    first = (b * share + f) * (1.0 / e)
    there = _clipped(first)
    inside = select(first, select(first - 1.0, 0.0, 1.0), 0.0)
    share = select(inside, share, _clipped((b * there - c) * (1.0 / a)))
    return ends[0] + along * share, others[0] + across * there


def _squared_length(shape: OfLink) -> float:
    assert isinstance(shape, Capsule)
    return float(((np.array(shape.end) - np.array(shape.begin)) ** 2).sum())


def _clipped(share: Scalar) -> Scalar:
    """Return a number within 0 and 1."""
    return select(share, select(share - 1.0, 1.0, share), 0.0)
