"""Measurements of a motion, and the equations of torques that they make, condensed to a triangle for each joint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import all_finite, check_unit_vectors, common_axes, real
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.identification.columns import Columns
from dynagate.robot import Robot

CHUNK = 1024
"""Samples whose regressors are in memory together."""


class _Input(NamedTuple):
    name: str
    shape: tuple[int, ...]


def measured(robot: Robot, **arrays: npt.ArrayLike) -> dict[str, Array]:
    """Return measurements (samples, n) of a robot by name, from arrays with any leading axes.

    Raises:
        ArgumentError: An array has another shape, is not finite, or has no samples.
        ArgumentTypeError: An array does not hold real numbers.
    """
    ports = [_Input(name, (robot.nq if name == "q" else robot.nv,)) for name in arrays]
    values = {name: real(name, x).astype(np.float64, copy=False) for name, x in arrays.items()}
    spread, _ = common_axes(ports, values, np.broadcast_to)
    flat = {name: np.ascontiguousarray(x).reshape(-1, x.shape[-1]) for name, x in spread.items()}
    for name, x in flat.items():
        if not len(x):
            raise ArgumentError(
                f"{name} has shape {spread[name].shape}, no samples; expected one or more", code="DG-IDENT-005"
            )
        if not all_finite(x):
            sample = int(np.argmax(~np.isfinite(x).all(axis=1)))
            raise ArgumentError(
                f"{name} is not finite in sample {sample}; expected finite numbers", code="DG-IDENT-006"
            )
    check_unit_vectors("q", [(part.start, part.stop) for part in robot.quaternions()], flat["q"])
    return flat


def regressors(columns: Columns, states: dict[str, Array]) -> Iterator[tuple[slice, Array]]:
    """Yield regressors (samples, nv, links * 13) of some samples each, with the samples."""
    graph = trace(columns.robot, "inverse_dynamics_regressor")
    for start in range(0, len(states["q"]), CHUNK):
        part = slice(start, start + CHUNK)
        rows = evaluate(graph, {name: states[name][part] for name in ("q", "qd", "qdd")})["regressor"]
        yield part, rows.reshape(*rows.shape[:2], -1)


def triangle_of(rows: Array) -> Array:
    """Return the triangle R of rows = Q R, with the same squares."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


@dataclass(frozen=True)
class Equations:
    """Equations Y π = τ of all samples, with the same least squares as a triangle for each joint.

    Attributes:
        triangles: Triangles (nv, rows, count + 1): the columns of the parameters, then the torques that they explain.
        samples: Number of samples.
        torque: Root mean square (nv,) of the measured torques, N m or N.
    """

    triangles: tuple[Array, ...]
    samples: int
    torque: Array

    def weighted(self, weights: Array) -> tuple[Array, Array]:
        """Return the matrix and the right side of the equations, each joint's times its weight (nv,)."""
        rows = np.vstack([w * triangle for w, triangle in zip(weights, self.triangles, strict=True)])
        triangle = triangle_of(rows) if len(rows) > rows.shape[1] else rows
        return triangle[:, :-1], triangle[:, -1]

    def residual(self, values: Array) -> Array:
        """Return the root mean square error (nv,) of the torques with these parameters (count,), N m or N."""
        ends = np.append(-values, 1.0)
        return np.array([np.linalg.norm(triangle @ ends) for triangle in self.triangles]) / np.sqrt(self.samples)


def equations(columns: Columns, states: dict[str, Array]) -> Equations:
    """Return the equations of measurements q, qd, qdd and tau (samples, n). Parameters that are not estimated keep the
    robot's own numbers."""
    robot, places = columns.robot, list(columns.places)
    fixed = robot.dynamic_parameters.ravel()
    fixed[places] = 0.0
    triangles = [np.zeros((0, len(places) + 1)) for _ in range(robot.nv)]
    for part, rows in regressors(columns, states):
        rest = states["tau"][part] - rows @ fixed
        own = np.concatenate([rows[:, :, places], rest[:, :, None]], axis=2)
        triangles = [triangle_of(np.vstack([triangle, own[:, d]])) for d, triangle in enumerate(triangles)]
    torque = np.sqrt((states["tau"] ** 2).mean(axis=0))
    return Equations(tuple(triangles), len(states["q"]), torque)
