"""Colors and light of a scene, the same in pixels, SVG and the page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.views.scene.solids import Color

THEMES = ("auto", "light", "dark")


@dataclass(frozen=True)
class Theme:
    """Colors behind the robot: the paper, the ground in the middle of the picture, its lines, shadows, and outlines of
    bodies."""

    paper: Color
    ground: Color
    lines: Color
    shadow: Color
    ink: Color


LIGHT = Theme((255, 255, 255), (236, 239, 243), (206, 212, 219), (188, 195, 204), (38, 46, 56))
DARK = Theme((13, 17, 23), (25, 31, 39), (48, 56, 66), (6, 8, 12), (2, 4, 8))


def theme_of(theme: str) -> Theme:
    """Return the colors of a theme; "auto" is light where a file has one look. Raises ArgumentError: no such theme."""
    if theme not in THEMES:
        raise ArgumentError(f"theme={theme!r}; expected one of {', '.join(THEMES)}", code="DG-VIEW-006")
    return DARK if theme == "dark" else LIGHT


def _unit(*values: float) -> Floats:
    return np.array(values) / np.linalg.norm(values)


KEY_SIDE = (0.28, 0.38, 0.88)
"""Direction to the light along the camera's right and towards the camera, both level, and straight up."""
AMBIENT, SKY, KEY, SHINE = 0.36, 0.22, 0.52, 0.22
"""Light from everywhere, from above, from the lamp, and its reflection."""
GLOSS = 5
"""The reflection falls with the power 2**GLOSS of the cosine to its middle."""


def key_light(rotation: Floats) -> Floats:
    """Return the direction (3,) to the lamp in the base frame, for a camera with this rotation (3, 3)."""
    right, back = rotation[0], np.array([rotation[2, 0], rotation[2, 1], 0.0])
    x, y, z = KEY_SIDE
    return _unit(*(-x * right + y * back / np.linalg.norm(back) + [0.0, 0.0, z]))


def brightness(normals: Floats, toward: Floats, light: Floats) -> tuple[Floats, Floats]:
    """Return the diffuse light and the reflection on surfaces.

    A normal that points away from the camera is reversed, because both sides of a surface are visible.

    Args:
        normals: Normals (n, 3).
        toward: Direction (3,) to the camera.
        light: Direction (3,) to the lamp.
    """
    facing = normals @ toward
    sign = np.where(facing < 0.0, -1.0, 1.0)
    lit = np.maximum(sign * (normals @ light), 0.0)
    half = _unit(*(toward + light))
    diffuse = AMBIENT + SKY * (0.5 + 0.5 * sign * normals[..., 2]) + KEY * lit
    shine = np.maximum(sign * (normals @ half), 0.0)
    for _ in range(GLOSS):
        shine *= shine
    return diffuse, SHINE * shine
