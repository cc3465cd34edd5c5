"""Checks of masses, centers of mass and inertias, with a guess of the mistake behind impossible inertias."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.checks.finding import Finding
from dynagate.checks.source import ENTRIES, UrdfBody

ROUNDING = 1e-3
"""Fraction of the largest moment of inertia by which files may round their entries."""

OSMIUM = 22590.0
"""Density of the densest solid, kg/m³."""

LEAST_DENSITY = 1.0
"""Density below which shapes are probably far too large, kg/m³."""

ORDERS = {
    "ixx, iyy, izz, ixy, ixz, iyz": (0, 3, 4, 1, 5, 2),
    "ixx, iyy, izz, ixy, iyz, ixz": (0, 3, 5, 1, 4, 2),
    "ixx, iyy, izz, iyz, ixz, ixy": (0, 5, 4, 1, 3, 2),
    "ixx, ixy, iyy, ixz, iyz, izz": (0, 1, 3, 2, 4, 5),
}
"""Orders in which other programs list an inertia -> for each entry of `ENTRIES`, its index in that order."""

UNITS = {"kg mm²": 1e-6, "g mm²": 1e-9, "kg cm²": 1e-4, "g m²": 1e-3, "g cm²": 1e-7}
"""Units of inertia, in kg m²."""


def check_bodies(bodies: Sequence[UrdfBody]) -> Iterator[Finding]:
    """Yield findings on each body, and on copies among the bodies."""
    for body in bodies:
        yield from _mass(body)
        yield from _center(body)
        yield from _inertia(body)
    yield from _copies(bodies)
    yield from _ratio(bodies)


def is_possible(inertia: Floats) -> bool:
    """Return whether a rigid body can have an inertia (3, 3): positive moments that satisfy the triangle inequality."""
    moments = np.linalg.eigvalsh(inertia)
    return bool(moments[0] > 0.0 and moments[2] <= (moments[0] + moments[1]) * (1.0 + ROUNDING))


def _mass(body: UrdfBody) -> Iterator[Finding]:
    """Yield findings on the mass and the density of a body."""
    if body.mass < 0.0:
        yield Finding("error", "mass", body.place, f"mass {body.mass:g} kg", body.mass, body.line)
    if body.mass == 0.0 and np.any(body.inertia):
        yield Finding("error", "mass", body.place, "mass 0 with an inertia", 0.0, body.line)
    if body.lower is None or body.upper is None or body.mass <= 0.0:
        return
    volume = float(np.prod(np.maximum(body.upper - body.lower, 1e-9)))
    density = body.mass / volume
    if density > OSMIUM and volume > 1e-9:
        grams = f'if the mass is in grams: <mass value="{body.mass / 1e3:g}"/>' if density < 1e3 * OSMIUM else ""
        text = f"mass {body.mass:g} kg in a box of {volume * 1e3:.3g} l: {density:.3g} kg/m³ is denser than any solid"
        yield Finding("warning", "density", body.place, text, density, body.line, grams)
    elif density < LEAST_DENSITY and volume > 1e-3:
        text = f"mass {body.mass:g} kg in a box of {volume:.3g} m³: {density:.2g} kg/m³ is lighter than air"
        advice = 'are the shapes in millimetres? scale="0.001 0.001 0.001"' if density * 1e9 < OSMIUM * 10 else ""
        yield Finding("warning", "density", body.place, text, density, body.line, advice)


def _center(body: UrdfBody) -> Iterator[Finding]:
    """Yield a finding if the center of mass lies outside the body's shapes."""
    if body.lower is None or body.upper is None or body.size is None or body.mass <= 0.0:
        return
    beyond = float(np.max(np.maximum(body.lower - body.com, body.com - body.upper)))
    if beyond <= 0.1 * body.size + 1e-3:
        return
    inside = np.all(body.com / 1e3 >= body.lower) and np.all(body.com / 1e3 <= body.upper)
    xyz = " ".join(f"{x:g}" for x in body.com / 1e3)
    advice = f'if it is in millimetres: <origin xyz="{xyz}"/>' if inside and beyond > 10.0 * body.size else ""
    text = f"center of mass is {beyond:.3g} m outside the link's shapes, which are {body.size:.3g} m across"
    yield Finding("warning", "center", body.place, text, beyond, body.line, advice)


def _inertia(body: UrdfBody) -> Iterator[Finding]:
    """Yield findings on the inertia of a body: impossible moments, or a radius of gyration that does not fit its
    size.
    """
    if body.mass <= 0.0:
        return
    moments = np.linalg.eigvalsh(body.inertia)
    shown = ", ".join(f"{moment:.4g}" for moment in moments)
    if not is_possible(body.inertia):
        fault = "the largest exceeds the sum of the others" if moments[0] > 0.0 else "all must be above 0"
        text = f"principal moments of inertia {shown} kg m² are those of no body: {fault}"
        yield Finding("error", "inertia", body.place, text, float(moments[2]), body.line, _likely_mistake(body))
        return
    radius = float(np.sqrt(moments.sum() / 2.0 / body.mass))
    limit = 5.0 if body.size is None else 0.55 * body.size + 1e-3
    if radius > limit:
        size = "" if body.size is None else f", while its shapes are {body.size:.3g} m across"
        text = f"radius of gyration {radius:.3g} m{size}: principal moments {shown} kg m² for {body.mass:g} kg"
        yield Finding("warning", "inertia", body.place, text, radius, body.line, _unit(body, radius, limit))
    elif body.size is not None and radius < 1e-3 * body.size:
        text = f"radius of gyration {radius:.2g} m, while its shapes are {body.size:.3g} m across"
        yield Finding("warning", "inertia", body.place, text, radius, body.line, "is the inertia in another unit?")


def _likely_mistake(body: UrdfBody) -> str:
    """Return the likely mistake behind an impossible inertia, with a corrected line; "" if no guess fits."""
    entries = body.inertia[np.triu_indices(3)]
    for order, places in ORDERS.items():
        inertia = _matrix(entries[list(places)])
        if is_possible(inertia) and _fits(body, inertia):
            return f"if the numbers are in the order {order}: {written(inertia)}"
    moments = np.diag(np.diag(body.inertia))
    for slip, inertia in (
        ("the products have the other sign", 2.0 * moments - body.inertia),
        ("the products are wrong, without them", moments),
    ):
        if is_possible(inertia):
            return f"if {slip}: {written(inertia)}"
    shifted = body.inertia + body.mass * (body.com @ body.com * np.eye(3) - np.outer(body.com, body.com))
    if np.any(body.com) and is_possible(shifted):
        return f"if the parallel axis theorem was applied twice: {written(shifted)}"
    return ""


def _fits(body: UrdfBody, inertia: Floats) -> bool:
    """Return whether the radius of gyration of an inertia fits the size of a body."""
    radius = float(np.sqrt(np.trace(inertia) / 2.0 / body.mass))
    return body.size is None or radius <= 0.55 * body.size + 1e-3


def _unit(body: UrdfBody, radius: float, limit: float) -> str:
    """Return advice with the probable unit of an inertia and the line in kg m²; "" if no unit fits.

    `radius` is the radius of gyration, and `limit` its largest plausible value, m.
    """
    size = body.size if body.size is not None else limit / 5.0
    for unit, factor in UNITS.items():
        if 0.02 * size < radius * np.sqrt(factor) < 0.55 * size:
            return f"if it is in {unit}: {written(body.inertia * factor)}"
    return ""


def _copies(bodies: Sequence[UrdfBody]) -> Iterator[Finding]:
    """Yield findings on bodies that have different masses but the same inertia."""
    same: defaultdict[bytes, list[UrdfBody]] = defaultdict(list)
    for body in bodies:
        if body.mass > 0.0 and np.any(body.inertia):
            same[body.inertia.tobytes()].append(body)
    for group in same.values():
        masses = sorted({body.mass for body in group})
        if masses[-1] > 1.5 * masses[0]:
            names = ", ".join(f"'{body.name}'" for body in group[:4]) + (" ..." if len(group) > 4 else "")
            text = f"links {names} have one inertia, but masses from {masses[0]:g} to {masses[-1]:g} kg: a copy?"
            ratio = masses[-1] / masses[0]
            yield Finding("warning", "copy", group[-1].place, text, ratio, group[-1].line)


def _ratio(bodies: Sequence[UrdfBody]) -> Iterator[Finding]:
    """Yield a finding if the masses of bodies differ by too large a factor."""
    heavy = [body for body in bodies if body.mass > 0.0]
    if len(heavy) < 2:
        return
    least, most = min(heavy, key=lambda body: body.mass), max(heavy, key=lambda body: body.mass)
    ratio = most.mass / least.mass
    if ratio > 1e3:
        text = f"mass {least.mass:g} kg, where link '{most.name}' has {most.mass:g} kg: a ratio of {ratio:.3g}"
        level = "warning" if ratio > 1e5 else "note"
        advice = "short time steps or implicit integrators are needed if the light link moves freely"
        yield Finding(level, "mass ratio", least.place, text, ratio, least.line, advice)


def _matrix(entries: Floats) -> Floats:
    """Return the symmetric matrix (3, 3) with these entries of its upper triangle."""
    xx, xy, xz, yy, yz, zz = entries
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def written(inertia: Floats) -> str:
    """Return an inertia as a line of URDF."""
    values = zip(ENTRIES, inertia[np.triu_indices(3)], strict=True)
    return "<inertia " + " ".join(f'{key}="{value:.6g}"' for key, value in values) + "/>"
