"""Names of functions in Pinocchio, MuJoCo and textbooks.

A name is compared without case, _ and other signs: "computeABADerivatives" is "compute_aba_derivatives".
"""

from __future__ import annotations

from typing import NamedTuple


class Elsewhere(NamedTuple):
    """A function of this package that has another name elsewhere."""

    function: str
    """Name of the function here. FRAME stands for the name of a frame or link."""
    differs: str = ""
    """How the function elsewhere differs. Empty if it computes the same, so that its name is accepted."""


_FRAME = "FRAME is the name of a frame or link"
_MUJOCO = "MuJoCo adds the forces of contacts and constraints"

ELSEWHERE = {
    # textbooks
    "rnea": Elsewhere("inverse_dynamics"),
    "crba": Elsewhere("mass_matrix"),
    "aba": Elsewhere("forward_dynamics"),
    "id": Elsewhere("inverse_dynamics"),
    "fd": Elsewhere("forward_dynamics"),
    "minv": Elsewhere("mass_matrix_inverse"),
    "gravity": Elsewhere("gravity_torque"),
    "bias": Elsewhere("bias_torque"),
    "coriolis": Elsewhere("coriolis_torque", "it is the torque, not a matrix"),
    "inertia": Elsewhere("mass_matrix", "it is the inertia of the whole robot in joint coordinates"),
    "com": Elsewhere("center_of_mass"),
    "comjacobian": Elsewhere("center_of_mass_jacobian"),
    "centerofmass": Elsewhere("center_of_mass"),
    "fk": Elsewhere("frame_pose_FRAME", _FRAME),
    "jacobian": Elsewhere("frame_jacobian_FRAME", _FRAME),
    # Pinocchio
    "nle": Elsewhere("bias_torque"),
    "nonlineareffects": Elsewhere("bias_torque"),
    "ccrba": Elsewhere("centroidal_momentum_matrix"),
    "computegeneralizedgravity": Elsewhere("gravity_torque"),
    "computecoriolismatrix": Elsewhere("coriolis_torque", "it is the torque, not the matrix"),
    "computeminverse": Elsewhere("mass_matrix_inverse"),
    "computeabaderivatives": Elsewhere("forward_dynamics_gradient"),
    "computerneaderivatives": Elsewhere("inverse_dynamics_gradient"),
    "computekineticenergy": Elsewhere("kinetic_energy"),
    "computepotentialenergy": Elsewhere("potential_energy"),
    "centerofmassposition": Elsewhere("center_of_mass"),
    "jacobiancenterofmass": Elsewhere("center_of_mass_jacobian"),
    "computecentroidalmomentum": Elsewhere("centroidal_momentum"),
    "constraintdynamics": Elsewhere("constrained_forward_dynamics", "the constraints are part of the robot"),
    "forwardkinematics": Elsewhere("frame_pose_FRAME", _FRAME),
    "framesforwardkinematics": Elsewhere("frame_pose_FRAME", _FRAME),
    "updateframeplacements": Elsewhere("frame_pose_FRAME", _FRAME),
    "updateframeplacement": Elsewhere("frame_pose_FRAME", _FRAME),
    "computejointjacobians": Elsewhere("link_jacobians", "it has the Jacobians of all links, in their frames"),
    "getjointjacobian": Elsewhere("link_jacobians", "it has the Jacobians of all links, in their frames"),
    "computeframejacobian": Elsewhere("frame_jacobian_FRAME", _FRAME),
    "getframejacobian": Elsewhere("frame_jacobian_FRAME", _FRAME),
    "getframevelocity": Elsewhere("frame_velocity_FRAME", _FRAME),
    "getframeacceleration": Elsewhere("frame_acceleration_FRAME", _FRAME),
    # MuJoCo
    "mjinverse": Elsewhere("inverse_dynamics", _MUJOCO),
    "mjforward": Elsewhere("forward_dynamics", _MUJOCO),
    "mjstep": Elsewhere("step", _MUJOCO),
    "mjfullm": Elsewhere("mass_matrix"),
    "mjcrb": Elsewhere("mass_matrix"),
    "mjrne": Elsewhere("inverse_dynamics", "without accelerations it is 'bias_torque'"),
    "mjkinematics": Elsewhere("frame_pose_FRAME", _FRAME),
    "mjfwdposition": Elsewhere("frame_pose_FRAME", _FRAME),
    "mjjac": Elsewhere("frame_jacobian_FRAME", _FRAME),
    "mjjacbody": Elsewhere("frame_jacobian_FRAME", _FRAME),
    "mjjacsite": Elsewhere("frame_jacobian_FRAME", _FRAME),
    "mjjacsubtreecom": Elsewhere("center_of_mass_jacobian", "it is of the whole robot"),
}
"""Functions elsewhere, by name in lower case without other signs -> the function here."""

ALIASES = {name: row.function for name, row in ELSEWHERE.items() if not row.differs}
"""The names that are accepted, as the command line has them."""


def plain(name: str) -> str:
    """Return a name in lower case, without signs other than letters and digits."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def accepted(name: str) -> str:
    """Return the name of the function here if a name means the same function elsewhere, else the name itself."""
    known = ELSEWHERE.get(plain(name))
    return name if known is None or known.differs else known.function
