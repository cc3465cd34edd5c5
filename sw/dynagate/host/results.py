"""The result of a call: named arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.base.explained import explained
from dynagate.base.named_arrays import without_arithmetic
from dynagate.base.nearest import nearest
from dynagate.base.notebook import arrays_table
from dynagate.dynamics.functions.aliases import held


@explained
class Results(Mapping[str, Any]):
    """The outputs of a function by name, as attributes and by `[]`; `keys()` lists them.

    Each is an array (..., *shape): the leading axes of the inputs, then the shape below. It is float64 unless the
    device was opened for float32, and lies on the GPU if the inputs do. With `pack=True` an output is (..., entries)
    instead. Results keep their arrays: assigning to an attribute raises AttributeError, writing into an array does not.
    `overflow` has the samples in which a number did not fit its format. `Results(tau=array)` makes results of your own
    arrays, which a call overwrites if it gets them as `out`.

    An attribute may have its name in Pinocchio, MuJoCo or textbooks, such as M, nle or ddq_dq: reading it returns the
    output of the same meaning (docs/from_pinocchio.md). Any other name raises AttributeError (KeyError for `[]`) with a
    text that lists the outputs. Two results are equal only if they are the same object; compare their arrays with
    numpy.
    """

    overflow: npt.NDArray[np.bool_]
    """(...): samples with a number that did not fit its format, so that their results are wrong; all False for a
    device that computes in floating point. Missing for arrays on a GPU. It is no output, so `keys()` leaves it out.
    """

    qdd: Array
    """(nv,) accelerations q̈, rad/s² or m/s²."""
    tau: Array
    """(nv,) torques and forces τ, N m or N."""
    m: Array
    """(nv, nv) mass matrix M, kg m², kg m or kg."""
    minv: Array
    """(nv, nv) inverse of the mass matrix, M⁻¹, 1/(kg m²), 1/(kg m) or 1/kg."""
    dqdd_dq: Array
    """(nv, nv) ∂q̈/∂q: entry (i, j) is the derivative of q̈_i by coordinate j, rad/s² or m/s² a rad or m."""
    dqdd_dqd: Array
    """(nv, nv) ∂q̈/∂q̇, rad/s² or m/s² a rad/s or m/s."""
    dtau_dq: Array
    """(nv, nv) ∂τ/∂q, N m or N a rad or m."""
    dtau_dqd: Array
    """(nv, nv) ∂τ/∂q̇, N m or N a rad/s or m/s."""
    force: Array
    """(rows,) forces λ on the frames that constraints hold, in base axes: of a point [force], N; of a fixed one
    [moment; force], N m and N, about and at the frame's origin. 0 where a constraint is not active."""
    qd_after: Array
    """(nv,) velocities after an impact, rad/s or m/s."""
    impulse: Array
    """(rows,) impulses on the frames that an impact catches, as `force` has forces: N s and N m s."""
    delassus: Array
    """(rows, rows) J M⁻¹ Jᵀ of all constraints, in base axes: 1/kg, 1/(kg m) and 1/(kg m²)."""
    constraint_drift: Array
    """(rows,) J̇ q̇ of all constraints with what stabilization adds, in base axes: m/s² and rad/s²."""
    contact_jacobian: Array
    """(rows, nv) of all constraints, in base axes: of a point the frame's velocity, of a fixed one [angular; linear];
    m/s and rad/s a unit of q̇."""
    dqdd_dtau: Array
    """(nv, nv) ∂q̈/∂τ of constrained dynamics, 1/(kg m²), 1/(kg m) or 1/kg."""
    dforce_dq: Array
    """(rows, nv) ∂λ/∂q, N m or N a rad or m."""
    dforce_dqd: Array
    """(rows, nv) ∂λ/∂q̇."""
    dforce_dtau: Array
    """(rows, nv) ∂λ/∂τ."""
    kinetic_energy: Array
    """() kinetic energy of all links, J."""
    potential_energy: Array
    """() energy of the moving links under gravity, J; 0 where their center of mass is at the base's origin."""
    center_of_mass: Array
    """(3,) center of mass of the moving links, m, in the base frame."""
    gravity_torque: Array
    """(nv,) torques and forces that hold the robot still, N m or N."""
    coriolis_torque: Array
    """(nv,) C(q, q̇) q̇, N m or N."""
    bias_torque: Array
    """(nv,) torques and forces at zero acceleration, N m or N."""
    centroidal_momentum: Array
    """(6,) [angular; linear] momentum about the center of mass in base axes, kg m²/s and kg m/s."""
    centroidal_momentum_matrix: Array
    """(6, nv) of centroidal_momentum by q̇, kg m² and kg m."""
    center_of_mass_velocity: Array
    """(3,) velocity of the center of mass, m/s, in base axes."""
    center_of_mass_jacobian: Array
    """(3, nv) of center_of_mass_velocity by q̇, m/s a unit of q̇."""
    regressor: Array
    """(nv, links, 13) torques and forces by the dynamic parameters of the links, N m or N a unit of each."""
    kinetic_regressor: Array
    """(links, 13) kinetic energy by the dynamic parameters, J a unit of each."""
    potential_regressor: Array
    """(links, 13) potential energy by the dynamic parameters, J a unit of each."""
    link_positions: Array
    """(links, 3) origins of the link frames, m, in the base frame."""
    link_jacobians: Array
    """(links, 6, nv) Jacobians of the links' origins in base axes, [angular; linear]: rad/s and m/s a unit of q̇."""

    vjp_q: Array
    """(nv,) λᵀ ∂/∂q of the function's vector, along velocities as ∂/∂q is: λ is the input lam_qdd or lam_tau."""
    vjp_qd: Array
    """(nv,) λᵀ ∂/∂q̇ of the function's vector."""
    vjp_qdd: Array
    """(nv,) λᵀ ∂τ/∂q̈ = M λ."""
    vjp_tau: Array
    """(nv,) λᵀ ∂q̈/∂τ = M⁻¹ λ."""
    jvp_qdd: Array
    """(nv,) ∂q̈/∂(q, q̇, τ) · (delta_q, delta_qd, delta_tau)."""
    jvp_tau: Array
    """(nv,) ∂τ/∂(q, q̇, q̈) · (delta_q, delta_qd, delta_qdd)."""
    jvp_force: Array
    """(rows,) ∂λ/∂(q, q̇, τ) · (delta_q, delta_qd, delta_tau) of constrained dynamics."""
    jvp_qd_after: Array
    """(nv,) ∂q̇⁺/∂(q, q̇) · (delta_q, delta_qd) of an impact."""
    jvp_impulse: Array
    """(rows,) ∂P/∂(q, q̇) · (delta_q, delta_qd) of an impact's impulses."""
    q_next: Array
    """(nq,) the configuration after a step, rad, m and unit quaternions."""
    qd_next: Array
    """(nv,) the velocity after a step, rad/s or m/s."""
    d2_dq_dq: Array
    """(nv, nv) ∂²(λᵀ q̈)/∂q∂q: entry (i, j) is the derivative of vjp_q_i by coordinate j."""
    d2_dq_dqd: Array
    """(nv, nv) ∂²(λᵀ q̈)/∂q∂q̇, row by q."""
    d2_dqd_dqd: Array
    """(nv, nv) ∂²(λᵀ q̈)/∂q̇∂q̇."""
    d2_dq_dtau: Array
    """(nv, nv) ∂²(λᵀ q̈)/∂q∂τ, row by q. By (q̇, τ) and (τ, τ) it is zero."""

    __array_ufunc__ = None
    """numpy leaves arithmetic to the operators of this class, which name the outputs."""

    def __init__(self, *, overflow: npt.NDArray[np.bool_] | None = None, **outputs: Any) -> None:
        vars(self).update(outputs)
        if overflow is not None:
            self.set_overflow(overflow)

    def set_overflow(self, overflow: npt.NDArray[np.bool_]) -> None:
        """Set which samples overflowed, by the device that has written the results.

        Args:
            overflow: Whether a number of the sample did not fit its format, (*leading).
        """
        vars(self)["overflow"] = overflow

    def __getitem__(self, name: str) -> Any:
        if name == "overflow" or name not in vars(self):
            own, hint = held(name, self) if isinstance(name, str) else ("", "")
            hint = f"; it is called '{own}' here" if own else hint or nearest(name, self)
            raise KeyError(f"no output '{name}'{hint}; expected one of {', '.join(self)}")
        return vars(self)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in vars(self) if name != "overflow")

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # type checkers know the names above

        def __getattr__(self, name: str) -> Any:
            own, hint = ("", "") if name.startswith("__") else held(name, self)
            if own:
                return self[own]
            names = vars(self)
            hint = hint or nearest(name, names)
            raise AttributeError(f"no result '{name}'{hint}; expected one of {', '.join(names)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"results keep their arrays; to change '{name}', write into it with results.{name}[...] = values, or make "
            "results of other arrays with Results(...)"
        )

    def _repr_html_(self) -> str:
        return arrays_table(self)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {tuple(self[name].shape)}" for name in self)
        dtypes = dict.fromkeys(str(self[name].dtype) for name in self)
        flags = vars(self).get("overflow")
        lost = int(flags.sum()) if flags is not None else 0
        overflowed = f"; {lost} of {flags.size} overflowed" if flags is not None and lost else ""
        return f"<Results {arrays}; {', '.join(dtypes)}{overflowed}>"


without_arithmetic(Results, list)
