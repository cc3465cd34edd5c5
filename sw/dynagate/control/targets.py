"""Targets of inverse kinematics: positions, rotations or directions that a frame, or the center of mass, should reach.

Each target has rows for a Gauss-Newton step: errors that vanish at the target, their Jacobian, and a cost whose
gradient is exactly their product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import ABOVE_ZERO, check_texts, number, numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, array, cross, select, sqrt

Floats = npt.NDArray[Any]

OPPOSITE = 1e-12
"""Squared cosine of half the angle to a direction below which the direction counts as opposite, and any axis
is used.
"""
NEAREST = 1e-12
"""Square of the smallest distance, in m², from which a frame looks at a point."""
WEIGHT = ABOVE_ZERO.called("a weight of more than 0")


class Rows(NamedTuple):
    """Rows of a target for a Gauss-Newton step."""

    errors: Array
    """Errors (rows,), in m, or twice the sine of half an angle."""
    jacobian: Array
    """Rate of the errors near the target, (rows, nv)."""
    cost: Scalar
    """Number whose derivative with respect to q is errorsᵀ jacobian."""


class TargetInput(NamedTuple):
    """An input of the loop that is part of a target's value."""

    shape: tuple[int, ...]
    """Shape of the input."""
    index: Any
    """Index of the input in the value."""


@explained
@dataclass(frozen=True)
class Target(ABC):
    """Something that a configuration should reach. The classes below are the kinds."""

    shape: ClassVar[tuple[int, ...]]
    """Shape of the value for one problem."""
    count: ClassVar[int]
    """Number of errors."""

    @property
    @abstractmethod
    def input(self) -> str:
        """Name of the value that a call passes."""

    @property
    def parts(self) -> dict[str, TargetInput]:
        """Inputs of the loop into which the value is split, by name: the value itself, unless a class splits it."""
        return {self.input: TargetInput(self.shape, ...)}

    @property
    @abstractmethod
    def functions(self) -> tuple[str, ...]:
        """Names of the functions of the robot that the rows need."""

    @abstractmethod
    def rows(self, values: Mapping[str, Array]) -> list[tuple[float, Rows]]:
        """Return groups of rows, each with its weight.

        Args:
            values: Results of the functions and inputs of the loop, by name, over any scalar.
        """

    @abstractmethod
    def distances(self, values: Mapping[str, Floats], value: Floats) -> Floats:
        """Return estimates (batch, samples) of the cost, from configurations to targets.

        Args:
            values: Results of the functions at the configurations (samples, *shape), by name.
            value: Targets (batch, *shape).
        """

    @abstractmethod
    def sizes(self, errors: Floats) -> Floats:
        """Return the largest distance in m or angle in rad (batch,) of errors (batch, rows) of all groups."""

    def check(self, value: Floats) -> None:  # noqa: B027
        """Raise ArgumentError if the values (batch, *shape) are no such targets."""


@dataclass(frozen=True)
class _FrameTarget(Target):
    """A target of a frame or link, whose name a call passes with the suffix of the class."""

    frame: str

    suffix: ClassVar[str]

    @property
    def input(self) -> str:
        return self.frame + self.suffix

    @property
    def functions(self) -> tuple[str, ...]:
        return f"frame_pose_{self.frame}", f"frame_jacobian_{self.frame}"


@explained
@dataclass(frozen=True)
class FramePosition(_FrameTarget):
    """The origin of a frame is at a point.

    A call passes the point as `<frame>_position` (..., 3), in m in the base frame.

    Args:
        frame: Name of a frame or link.
        weight: Weight of the squared distance, 1/m².

    Raises:
        ArgumentError: The name is empty, or the weight is not above 0.
    """

    weight: float = 1.0

    suffix: ClassVar[str] = "_position"
    shape: ClassVar[tuple[int, ...]] = (3,)
    count: ClassVar[int] = 3

    def __post_init__(self) -> None:
        _check(self, "weight")

    def rows(self, values: Mapping[str, Array]) -> list[tuple[float, Rows]]:
        """Return the weights and rows of the target."""
        error = values[f"frame_position_{self.frame}"] - values[self.input]
        return [(self.weight, _distance(error, values[f"frame_jacobian_{self.frame}"][3:]))]

    def distances(self, values: Mapping[str, Floats], value: Floats) -> Floats:
        """Return the cost of each configuration."""
        return self.weight * 0.5 * _squares(value, values[f"frame_position_{self.frame}"])

    def sizes(self, errors: Floats) -> Floats:
        """Return the distance in m of each error."""
        return _lengths(errors)


@explained
@dataclass(frozen=True)
class FrameRotation(_FrameTarget):
    """A frame has a rotation.

    A call passes the rotation as `<frame>_rotation` (..., 3, 3): v_base = rotation @ v_frame.

    Args:
        frame: Name of a frame or link.
        weight: Weight of the squared angle, 1/rad².

    Raises:
        ArgumentError: The name is empty, or the weight is not above 0.
    """

    weight: float = 1.0

    suffix: ClassVar[str] = "_rotation"
    shape: ClassVar[tuple[int, ...]] = (3, 3)
    count: ClassVar[int] = 3

    def __post_init__(self) -> None:
        _check(self, "weight")

    def rows(self, values: Mapping[str, Array]) -> list[tuple[float, Rows]]:
        """Return the weights and rows of the target."""
        turned = values[f"frame_rotation_{self.frame}"] @ values[self.input].T
        return [(self.weight, _turn(turned, values[f"frame_jacobian_{self.frame}"][:3]))]

    def distances(self, values: Mapping[str, Floats], value: Floats) -> Floats:
        """Return the cost of each configuration."""
        return self.weight * 0.5 * _squares(_flat(value), _flat(values[f"frame_rotation_{self.frame}"])) * 0.5

    def sizes(self, errors: Floats) -> Floats:
        """Return the angle in rad of each error."""
        return _angles(errors)

    def check(self, value: Floats) -> None:
        """Raise ArgumentError if a value is not a rotation."""
        check_rotations(self.input, value)


@explained
@dataclass(frozen=True)
class FramePose(_FrameTarget):
    """A frame has a pose.

    A call passes the pose as `<frame>` (..., 4, 4): the rotation, the origin in m, and a last row of 0, 0, 0, 1.

    Args:
        frame: Name of a frame or link.
        position: Weight of the squared distance of the origins, 1/m².
        rotation: Weight of the squared angle, 1/rad². With 0.1, a radian counts as much as 0.3 m.

    Raises:
        ArgumentError: The name is empty, or a weight is not above 0.
    """

    position: float = 1.0
    rotation: float = 0.1

    suffix: ClassVar[str] = ""
    shape: ClassVar[tuple[int, ...]] = (4, 4)
    count: ClassVar[int] = 6

    def __post_init__(self) -> None:
        _check(self, "position", "rotation")

    @property
    def _places(self) -> tuple[FramePosition, FrameRotation]:
        return FramePosition(self.frame, self.position), FrameRotation(self.frame, self.rotation)

    @property
    def parts(self) -> dict[str, TargetInput]:
        position, rotation = self._places
        return {
            position.input: TargetInput((3,), (slice(None), slice(3), 3)),
            rotation.input: TargetInput((3, 3), (slice(None), slice(3), slice(3))),
        }

    def rows(self, values: Mapping[str, Array]) -> list[tuple[float, Rows]]:
        """Return the weights and rows of the target."""
        return [group for part in self._places for group in part.rows(values)]

    def distances(self, values: Mapping[str, Floats], value: Floats) -> Floats:
        """Return the cost of each configuration."""
        position, rotation = self._places
        return position.distances(values, value[:, :3, 3]) + rotation.distances(values, value[:, :3, :3])

    def sizes(self, errors: Floats) -> Floats:
        """Return the larger of the distance in m and the angle in rad of each error."""
        return np.maximum(_lengths(errors[:, :3]), _angles(errors[:, 3:]))

    def check(self, value: Floats) -> None:
        """Raise ArgumentError if a value is not a homogeneous transform."""
        wrong = np.flatnonzero(np.abs(value[:, 3] - [0.0, 0.0, 0.0, 1.0]).max(axis=1) > ROTATION)
        if len(wrong):
            raise ArgumentError(
                f"{self.input}[{wrong[0]}] has the last row {value[wrong[0], 3].tolist()}; expected [0, 0, 0, 1]",
                code="DG-SOLVER-029",
            )
        check_rotations(self.input, value[:, :3, :3])


@explained
@dataclass(frozen=True)
class LookAt(_FrameTarget):
    """An axis of a frame points at a point, as a camera looks at an object.

    A call passes the point as `<frame>_look_at` (..., 3), in m in the base frame.

    Args:
        frame: Name of a frame or link.
        axis: Direction in the frame, of any length but 0.
        weight: Weight of the squared angle, 1/rad².

    Raises:
        ArgumentError: The name is empty, the axis is no direction, or the weight is not above 0.
    """

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    weight: float = 1.0

    suffix: ClassVar[str] = "_look_at"
    shape: ClassVar[tuple[int, ...]] = (3,)
    count: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check(self, "weight")
        axis = numbers("axis=", self.axis, (3,))
        if not (length := float(np.linalg.norm(axis))) > 0.0:
            raise ArgumentError(f"axis={self.axis!r}; expected a direction of a length above 0", code="DG-SOLVER-030")
        object.__setattr__(self, "axis", tuple((axis / length).tolist()))

    def rows(self, values: Mapping[str, Array]) -> list[tuple[float, Rows]]:
        """Return the weights and rows of the target."""
        jacobian, turn = values[f"frame_jacobian_{self.frame}"], values[f"frame_rotation_{self.frame}"]
        axis = np.array(self.axis)
        side = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
        side /= np.linalg.norm(side)
        ahead, *sides = (turn @ array(each) for each in (axis, side, np.cross(axis, side)))
        way = values[self.input] - values[f"frame_position_{self.frame}"]
        squared = way @ way
        inverse = 1.0 / sqrt(select(squared - NEAREST, squared, NEAREST))
        towards = way * inverse
        half = (towards @ ahead + 1.0) * 0.5
        opposite = OPPOSITE - half
        cosine = sqrt(select(opposite, OPPOSITE, half))
        over = cross(towards, ahead) * (1.0 / cosine)
        errors = array([select(opposite, 2.0 * (k == 0), each @ over) for k, each in enumerate(sides)])
        swept = np.stack([cross(towards, column) for column in jacobian[3:].T], axis=1) * inverse
        rows = array([each @ (jacobian[:3] + swept) for each in sides])
        return [(self.weight, Rows(errors, rows, (errors @ errors) * (1.0 / (cosine + 1.0))))]

    def distances(self, values: Mapping[str, Floats], value: Floats) -> Floats:
        """Return the cost of each configuration."""
        ways = value[:, None] - values[f"frame_position_{self.frame}"]
        ahead = values[f"frame_rotation_{self.frame}"] @ np.array(self.axis)
        cosines = np.einsum("bsk,sk->bs", ways, ahead) / np.maximum(np.linalg.norm(ways, axis=2), NEAREST)
        return self.weight * (1.0 - cosines)

    def sizes(self, errors: Floats) -> Floats:
        """Return the angle in rad of each error."""
        return _angles(errors)


@explained
@dataclass(frozen=True)
class CenterOfMass(Target):
    """The center of mass is at a point.

    A call passes the point as `center_of_mass` (..., 3), in m in the base frame.

    Args:
        weight: Weight of the squared distance, 1/m².

    Raises:
        ArgumentError: The weight is not above 0.
    """

    weight: float = 1.0

    shape: ClassVar[tuple[int, ...]] = (3,)
    count: ClassVar[int] = 3

    def __post_init__(self) -> None:
        _check_weights(self, "weight")

    @property
    def input(self) -> str:
        return "center_of_mass"

    @property
    def parts(self) -> dict[str, TargetInput]:
        return {"center_of_mass_target": TargetInput((3,), ...)}

    @property
    def functions(self) -> tuple[str, ...]:
        return "center_of_mass", "center_of_mass_jacobian"

    def rows(self, values: Mapping[str, Array]) -> list[tuple[float, Rows]]:
        """Return the weights and rows of the target."""
        error = values["center_of_mass"] - values["center_of_mass_target"]
        return [(self.weight, _distance(error, values["center_of_mass_jacobian"]))]

    def distances(self, values: Mapping[str, Floats], value: Floats) -> Floats:
        """Return the cost of each configuration."""
        return self.weight * 0.5 * _squares(value, values["center_of_mass"])

    def sizes(self, errors: Floats) -> Floats:
        """Return the distance in m of each error."""
        return _lengths(errors)


ROTATION = 1e-6
"""Largest accepted entry of R Rᵀ - 1 for a target's rotation R; float32 rotations pass."""


def check_rotations(name: str, rotations: Floats) -> None:
    """Raise ArgumentError if a matrix of (batch, 3, 3) is no rotation."""
    square = rotations @ np.swapaxes(rotations, 1, 2)
    off = np.abs(square - np.eye(3)).max(axis=(1, 2))
    wrong = np.flatnonzero(~((off <= ROTATION) & (np.linalg.det(rotations) > 0.0)))
    if len(wrong):
        k = int(wrong[0])
        raise ArgumentError(
            f"{name}[{k}] has the matrix {np.round(rotations[k], 6).tolist()}, which is no rotation (R Rᵀ - 1 is up to "
            f"{off[k]:.2g}, the determinant {np.linalg.det(rotations[k]):.3g}); expected orthogonal columns of length "
            "1 in a right-handed order",
            code="DG-SOLVER-031",
        )


def _check(target: Any, *weights: str) -> None:
    check_texts(frame=target.frame)
    _check_weights(target, *weights)


def _check_weights(target: Any, *weights: str) -> None:
    for name in weights:
        object.__setattr__(target, name, number(f"{name}=", getattr(target, name), WEIGHT))


def _flat(matrices: Floats) -> Floats:
    return matrices.reshape(len(matrices), -1)


def _squares(a: Floats, b: Floats) -> Floats:
    """Return the squared distances (rows of a, rows of b) between vectors."""
    return np.asarray((a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T))


def _lengths(errors: Floats) -> Floats:
    return np.asarray(np.linalg.norm(errors, axis=1))


def _angles(errors: Floats) -> Floats:
    return np.asarray(2.0 * np.arcsin(np.minimum(_lengths(errors) * 0.5, 1.0)))


def _distance(error: Array, jacobian: Array) -> Rows:
    return Rows(error, jacobian, (error @ error) * 0.5)


def _turn(turned: Array, jacobian: Array) -> Rows:
    """Return the rows that bring a rotation (3, 3) in base axes to the identity.

    The errors are twice the vector part of its quaternion, whose scalar part is not negative. The cost is 4 (1 - cos
    θ/2).

    Args:
        turned: The rotation.
        jacobian: Derivative of the angular velocity in base axes with respect to q̇, (3, nv).
    """
    r = turned
    squares = [1.0 + r[0, 0] + r[1, 1] + r[2, 2]]
    squares += [1.0 + r[k, k] - (r[(k + 1) % 3, (k + 1) % 3] + r[(k + 2) % 3, (k + 2) % 3]) for k in range(3)]
    a, b, c = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    d, e, f = r[2, 1] + r[1, 2], r[0, 2] + r[2, 0], r[1, 0] + r[0, 1]
    products = [[a, b, c], [squares[1], f, e], [f, squares[2], d], [e, d, squares[3]]]
    scalars = [squares[0], a, b, c]
    largest, vector, scalar = squares[0], array(products[0]), scalars[0]
    for square, others, w in zip(squares[1:], products[1:], scalars[1:], strict=True):
        more = square - largest  # a quaternion is found best by its largest entry
        vector = array([select(more, x, y) for x, y in zip(others, vector, strict=True)])
        scalar, largest = select(more, w, scalar), select(more, square, largest)
    inverse = 1.0 / sqrt(largest)
    errors = vector * select(scalar, inverse, -inverse)
    cosine = scalar * select(scalar, inverse, -inverse) * 0.5
    return Rows(errors, jacobian, (errors @ errors) * (1.0 / (cosine + 1.0)))
