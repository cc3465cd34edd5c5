"""Ranges of a robot's variable parameters, which number formats must hold and from which samples are drawn.

Unless an operating region has another range, a parameter varies around the robot's own number:

* mass, inertia, armature, damping, friction: by `SHARE` of the number, or up to `SHARE` of a typical one if it is 0;
* center of mass: by `SHARE` of the link's radius of gyration in each direction;
* gravity: by `SHARE` of its magnitude in each direction;
* position: by `MOVED` of the robot's length in each direction; rotation: by `TURNED` about each axis;
* the ten inertial parameters and a payload: a body of up to `MAX_PAYLOAD` within `REACH`, carried by the link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.base.arguments import numbers, real, shown
from dynagate.base.arrays import Floats
from dynagate.base.nearest import nearest
from dynagate.dynamics import tree_of
from dynagate.dynamics.spatial import cross
from dynagate.graph.sizes import typical_sizes, variable_size
from dynagate.robot import Link, Robot, RobotError
from dynagate.robot.variable import (
    COM,
    GRAVITY,
    INERTIA,
    INERTIAL,
    KINDS,
    MOMENTS,
    PAYLOAD,
    PLACEMENT,
    POSITION,
    ROTATION,
    Variable,
    wrong_entry,
)

SHARE = 0.2
"""Relative change of a number in each direction."""

MOVED = 0.02
"""Change of a joint's or frame's position in each direction, relative to the robot's length."""

TURNED = 0.1
"""Change of a joint's or frame's rotation about each axis, in rad."""

MAX_PAYLOAD = 5.0
"""Largest mass of a payload, in kg."""

REACH = 0.2
"""Largest distance of a payload's center of mass from the link's origin along each axis, in m."""

GYRATION = 0.1
"""Largest radius of gyration of a payload, in m."""

HALVINGS = 40
"""Largest number of times that drawn inertial parameters move halfway to the robot's own, until they are
physical.
"""

Range = tuple[str, tuple[float, ...], tuple[float, ...]]
"""Name of an input, and the lower and upper bounds of its entries in row-major order."""


def check_ranges(robot: Robot, ranges: Mapping[str, Any] | None) -> tuple[Range, ...]:
    """Return the ranges that a user passes for variable parameters.

    Args:
        robot: A robot with variable parameters.
        ranges: Name of a parameter or its input -> (low, high), each a number or an array of the input's shape.

    Raises:
        RobotError: There is no such variable parameter, it is a rotation, or a range is no range of numbers that the
            parameter can have.
    """
    result = []
    for name, chosen in (ranges or {}).items():
        variable = _named(robot, name)
        label = f"range of '{variable.name}' "
        if KINDS[variable.kind].unit is not None:
            raise RobotError(
                f"{label}is of a rotation, which varies by {TURNED:g} rad; expected it left out", code="DG-REGION-001"
            )
        if not (isinstance(chosen, tuple | list) and len(chosen) == 2):
            raise RobotError(f"{label}is {shown(chosen)}; expected (low, high)", code="DG-REGION-002")
        low, high = (_spread(label, end, variable) for end in chosen)
        if (low > high).any():
            raise RobotError(f"{label}is {shown(chosen)}; expected a low end below the high one", code="DG-REGION-003")
        for end in (low, high):
            is_body = variable.kind in (INERTIAL, INERTIA, PAYLOAD)  # not every corner of their ranges is physical
            kind = "" if is_body else variable.checked_kind(robot)
            if wrong := wrong_entry(kind, end.reshape(1, -1)):
                raise RobotError(f"{label}is {shown(chosen)}; expected {wrong[3]}", code="DG-REGION-004")
        result.append((variable.input, tuple(low.tolist()), tuple(high.tolist())))
    return tuple(result)


def _named(robot: Robot, name: str) -> Variable:
    for variable in robot.variables:
        if name in (variable.input, variable.name):
            return variable
    names = [variable.name for variable in robot.variables]
    raise RobotError(
        f"robot '{robot.name}' has no variable parameter {name!r}{nearest(name, names)}; expected one of "
        f"{', '.join(names) or 'none: robot.with_variable() makes some'}",
        code="DG-REGION-005",
    )


def _spread(label: str, value: Any, variable: Variable) -> Floats:
    """Return one end of a range as (entries,)."""
    array = real(label.strip(), value)
    try:
        whole = np.broadcast_to(array, variable.shape).ravel()
    except ValueError:
        raise RobotError(
            f"{label}has an end of shape {array.shape}; expected {variable.shape}, or one number", code="DG-REGION-006"
        ) from None
    return np.asarray(numbers(label, whole, (whole.size,), error=RobotError))


def bounds_of(robot: Robot, variable: Variable, ranges: Sequence[Range] = ()) -> list[tuple[float, float]]:
    """Return (low, high) for each entry of a variable parameter.

    Args:
        robot: The robot.
        variable: The parameter.
        ranges: Ranges that the user set.
    """
    for name, low, high in ranges:
        if name == variable.input:
            return list(zip(low, high, strict=True))
    if variable.kind in (INERTIAL, PAYLOAD):
        own = [robot.links[i].parameters() if variable.kind == INERTIAL else np.zeros(10) for i in variable.owners]
        return [bound for one in own for bound in _loaded_bounds(one)]
    center = variable.value(robot).ravel()
    radius = _radius(robot, variable).ravel()
    positive = KINDS[variable.kind].accepted is not None and variable.kind != INERTIA
    least = np.maximum(center - radius, 0.0) if positive else center - radius
    bounds = [(float(a), float(b)) for a, b in zip(least, center + radius, strict=True)]
    for start, stop in variable.unit_vectors:
        bounds[start:stop] = [(-1.0, 1.0)] * (stop - start)
    return bounds


def _radius(robot: Robot, variable: Variable) -> Floats:
    """Return how far each entry of a parameter varies, in the shape of its input. A rotation has 0 here."""
    own, kind = variable.value(robot), variable.kind
    if kind == GRAVITY:
        return np.full(3, SHARE * (np.linalg.norm(own) or 9.81))
    if kind == INERTIA:
        return np.array([_inertia_radius(robot.links[i]) for i in variable.owners]).reshape(variable.shape)
    if kind == COM:
        sizes = [_gyration(robot.links[i]) for i in variable.owners]
        return np.broadcast_to(np.array(sizes)[:, None] * SHARE, (len(sizes), 3)).reshape(variable.shape)
    typical = np.asarray(variable_size(robot, variable, typical_sizes(tree_of(robot))))
    if kind in (PLACEMENT, POSITION, ROTATION):
        radius = np.array(MOVED * typical)
        for start, stop in variable.unit_vectors:
            radius.reshape(-1)[start:stop] = 0.0
        return radius
    return SHARE * np.where(own == 0.0, typical, np.abs(own))


def _gyration(link: Link) -> float:
    return float(np.sqrt(abs(np.trace(link.inertia)) / (2.0 * link.mass))) or 0.01


def _axes(link: Link) -> tuple[Floats, Floats]:
    """Return principal second moments (3,) about the center of mass, and their axes in columns (3, 3)."""
    inertia = np.array(link.inertia)
    moments, axes = np.linalg.eigh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
    return np.maximum(moments, 0.0), axes


def _of_second(second: Floats) -> Floats:
    """Return the inertia (..., 6) of second moments (..., 3, 3)."""
    trace = np.trace(second, axis1=-2, axis2=-1)
    return np.stack([(trace if a == b else 0.0) - second[..., a, b] for a, b in MOMENTS], axis=-1)


def _inertia_radius(link: Link) -> Floats:
    moments, axes = _axes(link)
    second = np.einsum("ak,bk,k->ab", np.abs(axes), np.abs(axes), SHARE * moments)
    trace = np.trace(second)
    return np.array([trace - second[a, b] if a == b else second[a, b] for a, b in MOMENTS])


def drawn(
    robot: Robot, variable: Variable, ranges: Sequence[Range], count: int, seed: Sequence[int], at_limits: bool
) -> Floats:
    """Draw physical values (count, *shape) of a variable parameter.

    Args:
        robot: The robot.
        variable: The parameter.
        ranges: Ranges that the user set.
        count: Number of samples.
        seed: Seed of the generator.
        at_limits: Whether to draw values at the ends of the ranges.
    """
    chosen = any(name == variable.input for name, _, _ in ranges)
    random = np.random.default_rng(seed)
    if variable.kind in (INERTIAL, PAYLOAD) and not chosen:
        parts = [
            _loaded(robot.links[i], count, [*seed, i] if variable.stacked else seed, at_limits)
            - (robot.links[i].parameters() if variable.kind == PAYLOAD else 0.0)
            for i in variable.owners
        ]
        return np.stack(parts, axis=1).reshape(count, *variable.shape)
    if variable.kind == INERTIA and not chosen:
        parts = [_varied_inertia(robot.links[i], random, count, at_limits) for i in variable.owners]
        return np.stack(parts, axis=1).reshape(count, *variable.shape)
    least, most = np.array(bounds_of(robot, variable, ranges)).T
    share = random.uniform(-1.0, 1.0, (count, len(least)))
    share = np.sign(share) if at_limits else share
    values = 0.5 * (least + most) + share * (0.5 * (most - least))
    own = variable.value(robot).ravel()
    for start, stop in variable.unit_vectors:
        values[:, start:stop] = _turned(own[start:stop], random.uniform(-TURNED, TURNED, (count, 3)))
    kind = variable.checked_kind(robot)
    for _ in range(HALVINGS):
        if (wrong := wrong_entry(kind, values)) is None:
            break
        values[wrong[0]] = 0.5 * (values[wrong[0]] + own)
    return values.reshape(count, *variable.shape)


def _turned(quaternion: Floats, angles: Floats) -> Floats:
    """Return a unit quaternion (4,) turned by small rotation vectors (count, 3): (count, 4)."""
    half = 0.5 * angles
    size = np.linalg.norm(half, axis=1, keepdims=True)
    vector, w = half * np.sinc(size / np.pi), np.cos(size)
    axis, scalar = quaternion[:3], quaternion[3]
    across = np.array([cross(axis, each) for each in vector], dtype=np.float64)
    return np.hstack([scalar * vector + w * axis + across, scalar * w - vector @ axis[:, None]])


def _varied_inertia(link: Link, random: np.random.Generator, count: int, at_limits: bool) -> Floats:
    """Return inertias (count, 6) about the center of mass whose second moments along the principal axes vary."""
    moments, axes = _axes(link)
    share = random.uniform(-1.0, 1.0, (count, 3))
    share = np.sign(share) if at_limits else share
    second = np.einsum("ak,bk,nk->nab", axes, axes, moments * (1.0 + SHARE * share))
    return _of_second(second)


def _loaded(link: Link, count: int, seed: Sequence[int], at_limits: bool) -> Floats:
    """Draw inertial parameters (count, 10) of a link with a payload; at limits, MAX_PAYLOAD at the corners
    of REACH.
    """
    random = np.random.default_rng(seed)
    mass, center = random.uniform(0.0, MAX_PAYLOAD, count), random.uniform(-REACH, REACH, (count, 3))
    if at_limits:
        mass[:], center = MAX_PAYLOAD, REACH * np.sign(center)
    spread = random.uniform(0.0, GYRATION, (count, 3)) ** 2
    own = mass[:, None] * (0.5 * (spread.sum(axis=1, keepdims=True) - spread))
    products = -mass[:, None, None] * center[:, :, None] * center[:, None, :]
    about = products + np.eye(3) * (own + (mass * np.sum(center**2, axis=1))[:, None])[:, None, :]
    inertia = np.stack([about[:, a, b] for a, b in MOMENTS], axis=1)
    return link.parameters() + np.concatenate([mass[:, None], mass[:, None] * center, inertia], axis=1)


def _loaded_bounds(own: Floats) -> list[tuple[float, float]]:
    """Return (low, high) of the parameters that `_loaded` draws around the link's own parameters (10,)."""
    across, about = MAX_PAYLOAD * REACH**2, MAX_PAYLOAD * (2.0 * REACH**2 + GYRATION**2)
    added = [(0.0, MAX_PAYLOAD), *[(-MAX_PAYLOAD * REACH, MAX_PAYLOAD * REACH)] * 3]
    added += [(0.0, about) if k in (0, 2, 5) else (-across, across) for k in range(6)]
    return [(x + low, x + high) for x, (low, high) in zip(own.tolist(), added, strict=True)]
