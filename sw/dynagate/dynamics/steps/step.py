"""A time step of a robot: forward dynamics within an explicit integrator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynagate.base.arguments import check_time_step
from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.base.nearest import nearest
from dynagate.dynamics.recursions import aba, forward_dynamics
from dynagate.dynamics.spatial import Array, Scalar, array
from dynagate.dynamics.steps.damping import check_damping, robot_in_step
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.dynamics.tree import Tree

DEFAULT_INTEGRATOR = "semi_implicit_euler"
"""Name of the integrator that is used by default."""
DEFAULT_STEP = 1e-3
"""Default time step, s."""
OPTIONS = ("dt", "integrator", "implicit_damping")
"""Options of a time step."""
ROLLOUT_OPTIONS = ("linearize", "variable_dt", "tolerance", "constrained")
"""Options that only rollouts have."""


def step(forward: Callable[..., Sequence[Scalar]]) -> Callable[..., tuple[Array, Array]]:
    """Return the step function for one algorithm of forward dynamics."""

    def stepped(
        tree: Tree,
        q: Sequence[Scalar],
        qd: Sequence[Scalar],
        tau: Sequence[Scalar],
        dt: float = DEFAULT_STEP,
        integrator: str = DEFAULT_INTEGRATOR,
        implicit_damping: bool = False,
        external: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return q (nq,) and q̇ (nv,) after dt seconds with constant torques and external forces.

        Args:
            tree: The robot.
            q: Configuration (nq,), rad or m.
            qd: Velocities (nv,), rad/s or m/s.
            tau: Joint torques (nv,), N m or N.
            dt: The time step, s.
            integrator: One of EXPLICIT_METHODS.
            implicit_damping: Whether joint damping acts at the velocity after the step.
            external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.

        Raises:
            ArgumentError: There is no such integrator, or dt is not positive.
        """
        if integrator not in EXPLICIT_METHODS:
            raise ArgumentError(
                f"integrator '{integrator}'{nearest(integrator, EXPLICIT_METHODS)}; expected one of "
                f"{', '.join(EXPLICIT_METHODS)}",
                code="DG-FUNCTION-048",
            )
        check_time_step(dt)
        check_damping(implicit_damping, integrator, dt)
        tree = tree.of(robot_in_step(tree.source, implicit_damping, dt))

        def acceleration(position: Any, velocity: Any) -> Array:
            return array(list(forward(tree, position, velocity, tau, external)))

        with scope("step"):
            return EXPLICIT_METHODS[integrator].step(tree.source, acceleration, array(list(q)), array(list(qd)), dt)

    return stepped


FORMS = {
    "mass_matrix_solve": step(forward_dynamics.forward_dynamics),
    "aba": step(aba.forward_dynamics),
}
