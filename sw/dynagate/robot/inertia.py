"""Checks of masses, inertias and other numbers of a robot."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynagate.base.arguments import is_finite, real, shown
from dynagate.base.errors import Error
from dynagate.robot.errors import RobotError
from dynagate.robot.vectors import Matrix3, Vector3

LARGEST = 1e100
"""Largest number in m, kg or kg m². The square of a larger one overflows."""

OR_TOO_LARGE = f"; expected finite numbers up to {LARGEST:g}"


def is_small(values: Any) -> bool:
    """Return whether all numbers are at most LARGEST in magnitude."""
    return bool(np.all(np.abs(values) <= LARGEST))


def check_array(label: str, value: Any, shape: tuple[int, ...]) -> None:
    """Raise RobotError if a value is not an array of real numbers of this shape. Infinite numbers and NaN pass."""
    try:
        array = real(label, value)
    except Error as error:
        raise RobotError(str(error), code="DG-ROBOT-048") from None
    if array.shape != shape:
        raise RobotError(f"{label} has shape {array.shape}; expected {shape or 'one number'}", code="DG-ROBOT-049")


def check_size(what: str, mass: float, com: Any, inertia: Any) -> None:
    """Raise RobotError if a mass, center of mass or inertia is not finite or exceeds LARGEST."""
    if not is_small([mass, *com, *np.ravel(inertia)]):
        raise RobotError(
            f"{what} has a mass, center of mass or inertia that is not finite{OR_TOO_LARGE}", code="DG-ROBOT-050"
        )


SMALLEST = 1e-100
"""Smallest mass in kg or inertia in kg m². The square of a smaller one underflows."""


def check_inertia(name: str, mass: float, com: Vector3, inertia: Matrix3) -> None:
    """Raise RobotError if no rigid body has this mass and inertia.

    The principal moments must be positive and satisfy the triangle inequality. This is equivalent to a second moment
    Σ = tr(I)/2 1 - I without negative eigenvalues.

    Reference:
        Traversaro, Brossette, Escande & Nori, "Identification of fully physical consistent inertial parameters", 2016.
    """
    if not (is_finite(mass) and mass > 0.0):
        value = f"{mass:g} kg" if isinstance(mass, float) else shown(mass)
        raise RobotError(
            f"link '{name}' has mass {value}; a moving link needs a positive, finite mass", code="DG-ROBOT-051"
        )
    matrix = np.array(inertia)
    if not np.isfinite(matrix).all() or not np.isfinite(com).all():
        raise RobotError(f"link '{name}' has an inertia or center of mass that is not finite", code="DG-ROBOT-052")
    scale = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > 1e-9 * scale:
        raise RobotError(f"link '{name}' has an inertia matrix that is not symmetric", code="DG-ROBOT-053")
    if 0.0 < min(mass, scale) < SMALLEST:
        raise RobotError(
            f"link '{name}' has mass {mass:g} kg and moments of inertia up to {scale:g} kg m²; "
            f"expected {SMALLEST:g} or more",
            code="DG-ROBOT-054",
        )
    moments = np.linalg.eigvalsh(matrix)
    if moments[0] <= 0.0:
        raise RobotError(
            f"link '{name}' has principal moments of inertia {np.array2string(moments, precision=6)} kg m²; "
            "all must be positive",
            code="DG-ROBOT-055",
        )
    if moments[2] > (moments[0] + moments[1]) * (1.0 + 1e-3):  # tolerance, because files round their entries
        raise RobotError(
            f"link '{name}' has principal moments of inertia {np.array2string(moments, precision=6)} kg m², "
            "which no body has: the largest exceeds the sum of the others",
            code="DG-ROBOT-056",
        )
