"""Inverse kinematics in JAX: a batch in one call of compiled code, with the implicit derivative of the solutions."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import jax
import numpy as np

from dynagate.base.explained import explained
from dynagate.control.targets import Target
from dynagate.host.inverse_kinematics import InverseKinematics
from dynagate.jax.host_solvers import HostSolver, Shape, directions
from dynagate.robot import Robot


class Reached(NamedTuple):
    """Results of inverse kinematics."""

    q: jax.Array
    """Configurations (*leading, nq), in rad, m and unit quaternions."""
    error: jax.Array
    """Largest remaining distance or angle from a target, (*leading,), in m or rad."""


class InverseKinematicsFunction(HostSolver):
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
        super().__init__()
        self.solver = solver

    @property
    def shapes(self) -> Sequence[Shape]:
        return (self.solver.robot.nq,), *(target.shape for target in self.solver.options.targets)

    @property
    def rows(self) -> Sequence[Shape]:
        return (self.solver.robot.nq,), ()

    @property
    def moving(self) -> Sequence[int]:
        return range(1, len(self.shapes))

    def __call__(self, q0: Any, **targets: Any) -> Reached:
        missing = [name for name in self.solver.inputs if name not in targets]
        if missing or targets.keys() - set(self.solver.inputs):
            self.solver(np.asarray(self.solver.middle), **targets)  # raises the error of the solver
        return Reached(*self.called(q0, *(targets[name] for name in self.solver.inputs)))

    def solved(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return configurations (batch, nq) and errors (batch,)."""
        start, *values = inputs
        solution = self.solver(start, **self._named(values))
        return solution.q, solution.error

    def slopes(self, result: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
        """Return the derivatives (batch, nq, entries) of configurations (batch, nq) by all entries of the targets."""
        slopes = self.solver.sensitivity(result, **self._named(inputs[1:])).values()
        by_value = np.concatenate([x.reshape(*x.shape[: result.ndim], -1) for x in slopes], axis=-1)
        return np.asarray(directions(self.solver.robot, result) @ by_value)

    def _named(self, values: Sequence[Any]) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in zip(self.solver.inputs, values, strict=True)}

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
