"""Whole-body torques in JAX: a batch in one call of compiled code, with their derivative by the state."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dynagate.base.explained import explained
from dynagate.host.whole_body import WholeBodyTorque
from dynagate.jax.host_solvers import HostSolver, Shape, directions
from dynagate.robot import Robot


class Held(NamedTuple):
    """Results of whole-body torque."""

    tau: jax.Array
    """Torques (*leading, nv) within their limits, N m or N."""
    kept: jax.Array
    """1 if all active contacts stay, else 0, (*leading,)."""
    converged: jax.Array
    """1 if the solver has converged, else 0, (*leading,)."""


class WholeBodyTorqueFunction(HostSolver):
    """A function from states and requested accelerations to torques; `whole_body_torque` creates it.

    Call it with q (*leading, nq), qd and qdd (*leading, nv), in rad, m, unit quaternions and seconds, and `active`,
    `friction` (*leading, contacts) and `normal` (*leading, contacts, 3), as `dynagate.whole_body_torque`. It returns
    `Held` and runs under jit and vmap. Forces and accelerations follow from the torques.

    Torques are differentiable once by q, qd and qdd, in forward and reverse mode. Their derivatives by `active`,
    `friction` and `normal`, and those of `kept` and `converged`, are zero.

    Raises:
        ArgumentError: An input does not fit.
        ArgumentTypeError: An argument has another type.
    """

    def __init__(self, solver: WholeBodyTorque) -> None:
        super().__init__()
        self.solver = solver

    @property
    def shapes(self) -> Sequence[Shape]:
        return tuple(self.solver.input_shapes.values())

    @property
    def rows(self) -> Sequence[Shape]:
        return (self.solver.robot.nv,), (), ()

    @property
    def moving(self) -> Sequence[int]:
        return range(3)

    def __call__(self, q: Any, qd: Any = None, qdd: Any = None, **ground: Any) -> Held:
        shapes, still = self.solver.input_shapes, np.zeros(self.solver.robot.nv)
        motion = (q, still if qd is None else qd, still if qdd is None else qdd)
        usual = self.solver.usual(ground).items()
        own = (jnp.broadcast_to(x, shapes[k]) if jnp.shape(x) == shapes[k][1:] else x for k, x in usual)
        return Held(*self.called(*motion, *own))

    def solved(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return torques (batch, nv), and whether contacts stay and problems converged, (batch,)."""
        solution = self.solver(*inputs[:3], **self._ground(inputs))
        return solution.tau, solution.kept.astype(float), solution.converged.astype(float)

    def slopes(self, result: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
        """Return the derivatives (batch, nv, nq + 2 nv) of torques by the numbers of q, qd and qdd."""
        slopes = self.solver.sensitivity(*inputs[:3], **self._ground(inputs))
        velocities = np.linalg.pinv(directions(self.solver.robot, inputs[0]))  # of rates of the numbers of q
        return np.concatenate([slopes.q @ velocities, slopes.qd, slopes.qdd], axis=-1)

    def _ground(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        names = list(self.solver.input_shapes)
        return {name: np.asarray(x) for name, x in zip(names[3:], inputs[3:], strict=True)}

    def __repr__(self) -> str:
        contacts = ", ".join(self.solver.options.contacts) or "no contacts"
        return f"<dynagate.jax.WholeBodyTorqueFunction {self.solver.robot.name}, {contacts}>"


@explained
def whole_body_torque(
    robot: Robot | str | PathLike[str], contacts: Sequence[str] = (), **options: Any
) -> WholeBodyTorqueFunction:
    """Return whole-body torque for JAX: states and requested accelerations to torques, with derivatives.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        contacts: Names of frames or links whose origin may touch the ground.
        options: Options of `dynagate.whole_body_torque`.

    Raises:
        ArgumentError: An option is not right.
        RobotError: There is no such robot or frame.
        CompileError: There is no compiler, or it fails.
    """
    return WholeBodyTorqueFunction(WholeBodyTorque(robot, contacts, **options))
