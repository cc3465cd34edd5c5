"""Inverse kinematics in JAX: a batch in one call of compiled code, with the implicit derivative of the solutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynagate.base.explained import explained
from dynagate.control.targets import Target
from dynagate.dynamics.configuration import direction_matrix
from dynagate.host.inverse_kinematics import InverseKinematics
from dynagate.jax.calls import host_call
from dynagate.jax.devices import aligned
from dynagate.robot import Robot


class Reached(NamedTuple):
    """Results of inverse kinematics."""

    q: jax.Array
    """Configurations (*leading, nq), in rad, m and unit quaternions."""
    error: jax.Array
    """Largest remaining distance or angle from a target, (*leading,), in m or rad."""


class InverseKinematicsFunction:
    """A function from targets to configurations; `inverse_kinematics` creates it.

    Call it with the start q0 (*leading, nq), in rad, m and unit quaternions, and the targets by name, as
    `dynagate.inverse_kinematics`. It returns `Reached` and runs under jit and vmap.

    It is differentiable once with respect to the targets, in forward and reverse mode. The derivative is the smallest
    motion of the joints that keeps reaching the targets; joints at a limit do not move. The derivatives with respect to
    the start, and of the error, are zero.

    Raises:
        ArgumentError: A target or the start does not fit.
        ArgumentTypeError: An argument has another type.
    """

    def __init__(self, solver: InverseKinematics) -> None:
        self.solver = solver
        self._solve = jax.custom_jvp(self._forward)
        self._solve.defjvp(self._tangent)

    def __call__(self, q0: Any, **targets: Any) -> Reached:
        missing = [name for name in self.solver.inputs if name not in targets]
        if missing or targets.keys() - set(self.solver.inputs):
            self.solver(np.asarray(self.solver.middle), **targets)  # raises the error of the solver
        kinds = self.solver.options.targets
        shapes = [(self.solver.robot.nq,), *(target.shape for target in kinds)]
        arrays = [jnp.asarray(x, float) for x in (q0, *(targets[target.input] for target in kinds))]
        leading = jnp.broadcast_shapes(
            *(x.shape[: max(x.ndim - len(shape), 0)] for x, shape in zip(arrays, shapes, strict=True))
        )
        whole = [jnp.broadcast_to(x, (*leading, *shape)) for x, shape in zip(arrays, shapes, strict=True)]
        return self._solve(*aligned(whole, len(leading)))

    def _forward(self, q0: jax.Array, *targets: jax.Array) -> Reached:
        """Solve by a call of the compiled solver on the host."""
        return Reached(*host_call(self._solved, [q0.shape[-1:], ()], [q0, *targets], q0.ndim - 1))

    def _solved(self, start: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return configurations (batch, nq) and errors (batch,)."""
        solution = self.solver(start, **self._named(values))
        return solution.q, solution.error

    def _tangent(self, primals: Sequence[jax.Array], tangents: Sequence[jax.Array]) -> tuple[Reached, Reached]:
        """Return the solution and its derivative along tangents of the targets."""
        solution, (_, *targets) = self._solve(*primals), primals
        leading = solution.error.shape
        sizes = [math.prod(target.shape) for target in self.solver.options.targets]
        row = solution.q.shape[-1], sum(sizes)
        (slopes,) = host_call(self._slopes, [row], [solution.q, *targets], len(leading))
        change = jnp.concatenate(
            [x.reshape(*leading, size) for x, size in zip(tangents[1:], sizes, strict=True)], axis=-1
        )
        return solution, Reached(jnp.einsum("...ij,...j->...i", slopes, change), jnp.zeros_like(solution.error))

    def _slopes(self, q: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray]:
        """Return the derivatives (batch, nq, entries) of configurations (batch, nq) by all entries of the targets."""
        slopes = self.solver.sensitivity(q, **self._named(values)).values()
        by_value = np.concatenate([x.reshape(*x.shape[: q.ndim], -1) for x in slopes], axis=-1)
        return (self._directions(q) @ by_value,)

    def _named(self, values: Sequence[Any]) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in zip(self.solver.inputs, values, strict=True)}

    def _directions(self, q: np.ndarray) -> np.ndarray:
        """Return the rates (..., nq, nv) of the numbers of configurations (..., nq) along velocities."""
        robot = self.solver.robot
        matrix = direction_matrix(robot, list(np.moveaxis(q, -1, 0)))
        rows = [[np.broadcast_to(np.asarray(x, float), q.shape[:-1]) for x in row] for row in matrix]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))

    def __repr__(self) -> str:
        return f"<dynagate.jax.InverseKinematicsFunction {self.solver.robot.name}, {', '.join(self.solver.inputs)}>"


@explained
def inverse_kinematics(
    robot: Robot | str | PathLike[str], frames: Sequence[str | Target] = (), **options: Any
) -> InverseKinematicsFunction:
    """Return inverse kinematics for JAX: targets to configurations, with derivatives.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        frames: Names of frames that should reach poses, and targets, as of `dynagate.inverse_kinematics`.
        options: Options of `dynagate.inverse_kinematics`. With `posture`, configurations stay near the start.

    Raises:
        ArgumentError: An option is not right, or there is no target.
        RobotError: There is no such robot or frame.
        CompileError: There is no compiler, or it fails.
    """
    return InverseKinematicsFunction(InverseKinematics(robot, frames, **options))
