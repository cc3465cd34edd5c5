"""Several functions of one robot computed together, with shared work done once.

Each sample selects one function. Its third vector is τ or q̈, depending on that function. The sample's
acceleration is this vector or the solution of M q̈ = τ - bias. The gradient of inverse dynamics at this acceleration
serves both gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.factor import Factor, factorize, inverse_from_factor, solve
from dynagate.dynamics.gradients import closed_form as gradients
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.poses import Frame
from dynagate.dynamics.recursions.rnea import inverse_dynamics
from dynagate.dynamics.spatial import Array, Scalar, array, select
from dynagate.dynamics.tree import Tree

Vector = Sequence[Scalar]
OF_TORQUE = frozenset({"tau", "dtau_dq", "dtau_dqd"})
"""Outputs that need no mass matrix."""


class SampleState(NamedTuple):
    """State of one sample. If a function takes only one of tau and qdd, the other one is None.

    With a code, both fields are the same vector.
    """

    q: Vector
    """Configuration (nq,)."""
    qd: Vector | None
    """Velocities (nv,), or None."""
    tau: Vector | None
    """Joint torques (nv,), or None."""
    qdd: Vector | None
    """Accelerations (nv,), or None."""
    code: Scalar | None = None
    """Positive if the sample's vector is q̈, else it is τ; None if all samples have the same one."""
    external: Array | None = None
    """External forces (links, 6), or None."""


class Together:
    """The six functions of rigid-body dynamics at one state, with each quantity computed when it is first used.

    In samples of another function, load and acceleration are zero, so no value leaves its usual range.

    Args:
        tree: The robot.
        state: State of the sample.
        outputs: Names of the outputs that are requested.
        frame: Expression frame of each chain's vectors.
        prefix: Whether sums along chains are prefix computations.
    """

    def __init__(
        self, tree: Tree, state: SampleState, outputs: Sequence[str], frame: Frame = "sparsest", prefix: bool = False
    ) -> None:
        self.tree, self.state, self.outputs = tree, state, tuple(outputs)
        self._frame, self._prefix = frame, prefix

    def results(self) -> list[Array | list[Scalar]]:
        """Return the requested outputs in order."""
        if not OF_TORQUE.issuperset(self.outputs):
            # M comes first, so that equal nodes keep body frames: the pivots of M are on the critical path
            _ = self.m
        return [getattr(self, name) for name in self.outputs]

    @cached_property
    def m(self) -> Array:
        return mass_matrix(self.tree, self.state.q)

    @cached_property
    def _factor(self) -> Factor:
        return factorize(self.tree, self.m)

    @cached_property
    def minv(self) -> Array:
        return inverse_from_factor(self.tree, self._factor)

    @cached_property
    def _kinematics(self) -> gradients.Kinematics:
        assert self.state.qd is not None
        return gradients.kinematics_in_one_frame(self.tree, self.state.q, self.state.qd, self._frame, self._prefix)

    @cached_property
    def _subtrees(self) -> gradients.Composites:
        return gradients.composites(self.tree, self._kinematics)

    @cached_property
    def _torque_gradient_by_velocity(self) -> Array:
        """∂τ/∂q̇ without damping and friction."""
        return gradients.torque_gradient_by_velocity(self.tree, self._kinematics, self._subtrees)

    @cached_property
    def _bias(self) -> Vector:
        """The torque (nv,) at zero acceleration."""
        tree, state = self.tree, self.state
        assert state.qd is not None
        if any(name.startswith("d") for name in self.outputs):
            subtrees = self._subtrees
            return gradients.bias_torques(
                tree, self._kinematics, subtrees, self._torque_gradient_by_velocity, state.qd, state.external
            )
        return inverse_dynamics(tree, state.q, state.qd, [0.0] * tree.nv, state.external)

    @cached_property
    def qdd(self) -> list[Scalar]:
        """The accelerations M⁻¹ (τ - bias) (nv,)."""
        tree, tau, code = self.tree, self.state.tau, self.state.code
        assert tau is not None
        bias = self._bias
        with scope("fd"):
            load = [label(t - b, f"load_{i}") for i, (t, b) in enumerate(zip(tau, bias, strict=True))]
            if code is not None:
                load = [label(select(code, 0.0, x), f"own_load_{i}") for i, x in enumerate(load)]
        if {"minv", "dqdd_dq", "dqdd_dqd"}.isdisjoint(self.outputs):
            return solve(tree, self._factor, load)
        minv = self.minv
        with scope("fd"):
            return [label(row @ array(load), f"qdd_{i}") for i, row in enumerate(minv)]

    @cached_property
    def tau(self) -> Vector:
        """The torque M q̈ + bias; M is needed in any case."""
        tree, state = self.tree, self.state
        assert state.qd is not None
        assert state.qdd is not None
        if OF_TORQUE.issuperset(self.outputs):
            return inverse_dynamics(tree, state.q, state.qd, state.qdd, state.external)
        bias, own = self._bias, state.qdd
        with scope("id"):
            if state.code is not None:
                own = [label(select(state.code, x, 0.0), f"own_qdd_{i}") for i, x in enumerate(own)]
            return [
                label(row @ array(own) + b, f"tau_{i}") for i, (row, b) in enumerate(zip(self.m, bias, strict=True))
            ]

    @cached_property
    def _acceleration(self) -> Vector:
        """The acceleration of the sample for either kind of input."""
        state = self.state
        if state.tau is None:
            assert state.qdd is not None
            return state.qdd
        if state.code is None or state.qdd is None:
            return self.qdd
        with scope("acc"):
            chosen = zip(state.qdd, self.qdd, strict=True)
            return [label(select(state.code, own, qdd), f"qdd_{i}") for i, (own, qdd) in enumerate(chosen)]

    @cached_property
    def dtau_dq(self) -> Array:
        """∂τ/∂q (nv, nv) at the sample's acceleration."""
        tree, kin = self.tree, self._kinematics
        assert self.state.qd is not None
        subtrees = self._subtrees
        accelerations = gradients.link_accelerations(tree, kin, self.state.qd, self._acceleration)
        forces = gradients.net_forces(tree, kin, accelerations, self.state.external)
        return gradients.torque_gradient_by_position(
            tree, kin, subtrees, accelerations, gradients.composite(tree, kin, forces)
        )

    @cached_property
    def dtau_dqd(self) -> Array:
        assert self.state.qd is not None
        return self.tree.damped(self._torque_gradient_by_velocity.copy(), self.state.qd)

    @cached_property
    def dqdd_dq(self) -> Array:
        return gradients.negated_product(self.minv, self.dtau_dq, "dqdd_dq")

    @cached_property
    def dqdd_dqd(self) -> Array:
        return gradients.negated_product(self.minv, self.dtau_dqd, "dqdd_dqd")
