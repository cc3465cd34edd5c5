"""Names of functions and results in Pinocchio, MuJoCo and textbooks, and the names here.

Names are compared without case, underscores and other signs: "computeABADerivatives" equals "compute_aba_derivatives".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Elsewhere(NamedTuple):
    """A function of this package that has another name in other software."""

    function: str
    """Name of the function here."""
    differs: str = ""
    """How the other function differs. Empty if it computes the same result, so that its name is accepted."""


_FRAME = "pass frame='NAME', the name of a frame or link (on the command line, append _NAME)"
_FRAME_ROWS = f"{_FRAME}; the angular part comes first"
_ENERGY = "compute ['kinetic_energy', 'potential_energy'] and add them"
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
    "fk": Elsewhere("frame_pose", _FRAME),
    "jacobian": Elsewhere("frame_jacobian", _FRAME),
    # Pinocchio
    "nle": Elsewhere("bias_torque"),
    "nonlineareffects": Elsewhere("bias_torque"),
    "ccrba": Elsewhere("centroidal_momentum_matrix"),
    "computegeneralizedgravity": Elsewhere("gravity_torque"),
    "computecoriolismatrix": Elsewhere("coriolis_torque", "it is the torque, not the matrix"),
    "computeminverse": Elsewhere("mass_matrix_inverse"),
    "computejointtorqueregressor": Elsewhere(
        "inverse_dynamics_regressor", "it also has columns for armature, damping and friction of joints"
    ),
    "computekineticenergyregressor": Elsewhere("energy_regressor", "it has both energies"),
    "computepotentialenergyregressor": Elsewhere("energy_regressor", "it has both energies"),
    "computeabaderivatives": Elsewhere("forward_dynamics_gradient"),
    "computerneaderivatives": Elsewhere("inverse_dynamics_gradient"),
    "generalizedgravity": Elsewhere("gravity_torque"),
    "gravitycompensation": Elsewhere("gravity_torque"),
    "computestatictorque": Elsewhere("gravity_torque", "it has no external forces"),
    "computetotalenergy": Elsewhere("kinetic_energy", _ENERGY),
    "computemechanicalenergy": Elsewhere("kinetic_energy", _ENERGY),
    "energy": Elsewhere("kinetic_energy", _ENERGY),
    "computekineticenergy": Elsewhere("kinetic_energy"),
    "computepotentialenergy": Elsewhere("potential_energy"),
    "centerofmassposition": Elsewhere("center_of_mass"),
    "jacobiancenterofmass": Elsewhere("center_of_mass_jacobian"),
    "computecentroidalmomentum": Elsewhere("centroidal_momentum"),
    "constraintdynamics": Elsewhere("constrained_forward_dynamics", "the constraints are part of the robot"),
    "forwardkinematics": Elsewhere("frame_pose", _FRAME),
    "framesforwardkinematics": Elsewhere("frame_pose", _FRAME),
    "updateframeplacements": Elsewhere("frame_pose", _FRAME),
    "updateframeplacement": Elsewhere("frame_pose", _FRAME),
    "computejointjacobians": Elsewhere("link_jacobians", "it has the Jacobians of all links, in their frames"),
    "getjointjacobian": Elsewhere("link_jacobians", "it has the Jacobians of all links, in their frames"),
    "computeframejacobian": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "getframejacobian": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "getframevelocity": Elsewhere("frame_velocity", _FRAME_ROWS),
    "getframeacceleration": Elsewhere("frame_acceleration", _FRAME_ROWS),
    "getframeclassicalacceleration": Elsewhere("frame_acceleration", _FRAME_ROWS),
    "frameplacement": Elsewhere("frame_pose", _FRAME),
    "placement": Elsewhere("frame_pose", _FRAME),
    "pose": Elsewhere("frame_pose", _FRAME),
    "omf": Elsewhere("frame_pose", _FRAME),
    "velocity": Elsewhere("frame_velocity", _FRAME),
    "acceleration": Elsewhere("frame_acceleration", _FRAME),
    # MuJoCo
    "mjinverse": Elsewhere("inverse_dynamics", _MUJOCO),
    "mjforward": Elsewhere("forward_dynamics", _MUJOCO),
    "mjstep": Elsewhere("step", _MUJOCO),
    "mjfullm": Elsewhere("mass_matrix"),
    "mjcrb": Elsewhere("mass_matrix"),
    "mjrne": Elsewhere("inverse_dynamics", "without accelerations it is 'bias_torque'"),
    "mjkinematics": Elsewhere("frame_pose", _FRAME),
    "mjfwdposition": Elsewhere("frame_pose", _FRAME),
    "mjjac": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "mjjacbody": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "mjjacsite": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "bodyjacobian": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "sitejacobian": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "jacp": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "jacr": Elsewhere("frame_jacobian", _FRAME_ROWS),
    "sitexpos": Elsewhere("frame_pose", _FRAME),
    "sitexmat": Elsewhere("frame_pose", _FRAME),
    "xpos": Elsewhere("frame_pose", _FRAME),
    "xmat": Elsewhere("frame_pose", _FRAME),
    "qfrcbias": Elsewhere("bias_torque"),
    "qm": Elsewhere("mass_matrix", "it is dense"),
    "mjjacsubtreecom": Elsewhere("center_of_mass_jacobian", "it is of the whole robot"),
}
"""Functions of other software: name in lower case without signs -> the function here."""

ALIASES = {name: row.function for name, row in ELSEWHERE.items() if not row.differs}
"""The accepted names of other software, as the command line accepts them -> the function here."""

WITH_FRAME = {name: row.function for name, row in ELSEWHERE.items() if row.differs == _FRAME}
"""Names of other software that are accepted together with a frame -> the function here."""


def plain(name: str) -> str:
    """Return a name in lower case, without signs other than letters and digits."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def accepted(name: str) -> str:
    """Return the name of the function here for a name of other software with the same meaning, else the name itself."""
    known = ELSEWHERE.get(plain(name))
    return name if known is None or known.differs else known.function


class ResultElsewhere(NamedTuple):
    """A result that has another name in other software."""

    outputs: tuple[str, ...]
    """Names of outputs here. A function has at most one of them."""
    differs: str = ""
    """How the other result differs. Empty if it is the same, so that its name is accepted."""


_ANGULAR_FIRST = "[angular; linear], where Pinocchio has [linear; angular]"

RESULTS = {
    # textbooks and Pinocchio
    "g": ResultElsewhere(("gravity_torque",)),
    "gravity": ResultElsewhere(("gravity_torque",)),
    "nle": ResultElsewhere(("bias_torque",)),
    "bias": ResultElsewhere(("bias_torque",)),
    "c": ResultElsewhere(("coriolis_torque",), "it is the torque, not the matrix"),
    "ddq": ResultElsewhere(("qdd",)),
    "ddqdq": ResultElsewhere(("dqdd_dq",)),
    "ddqdv": ResultElsewhere(("dqdd_dqd",)),
    "ddqdtau": ResultElsewhere(("dqdd_dtau", "minv")),
    "dqdddv": ResultElsewhere(("dqdd_dqd",)),
    "dqdddtau": ResultElsewhere(("dqdd_dtau", "minv")),
    "dtaudv": ResultElsewhere(("dtau_dqd",)),
    "com": ResultElsewhere(("center_of_mass",)),
    "vcom": ResultElsewhere(("center_of_mass_velocity",)),
    "jcom": ResultElsewhere(("center_of_mass_jacobian",)),
    "hg": ResultElsewhere(("centroidal_momentum",), _ANGULAR_FIRST),
    "ag": ResultElsewhere(("centroidal_momentum_matrix",), _ANGULAR_FIRST),
    "j": ResultElsewhere(("frame_jacobian", "center_of_mass_jacobian")),
    "jacobian": ResultElsewhere(("frame_jacobian", "center_of_mass_jacobian")),
    "position": ResultElsewhere(("frame_position",)),
    "translation": ResultElsewhere(("frame_position",)),
    "rotation": ResultElsewhere(("frame_rotation",)),
    "omf": ResultElsewhere(("frame_position",), "its rotation is 'frame_rotation'"),
    "pose": ResultElsewhere(("frame_position",), "its rotation is 'frame_rotation'"),
    "placement": ResultElsewhere(("frame_position",), "its rotation is 'frame_rotation'"),
    "velocity": ResultElsewhere(("frame_velocity",)),
    "acceleration": ResultElsewhere(("frame_acceleration",)),
    "lambdac": ResultElsewhere(("force",), _ANGULAR_FIRST),
    # MuJoCo
    "qacc": ResultElsewhere(("qdd",)),
    "qfrcbias": ResultElsewhere(("bias_torque",)),
    "qfrcinverse": ResultElsewhere(("tau",), "MuJoCo subtracts the forces of contacts and constraints"),
    "xpos": ResultElsewhere(("frame_position",)),
    "sitexpos": ResultElsewhere(("frame_position",)),
    "xmat": ResultElsewhere(("frame_rotation",), "its shape is (3, 3)"),
    "sitexmat": ResultElsewhere(("frame_rotation",), "its shape is (3, 3)"),
    "jacp": ResultElsewhere(("frame_jacobian",), "its rows 3 to 5"),
    "jacr": ResultElsewhere(("frame_jacobian",), "its rows 0 to 2"),
    "qpos": ResultElsewhere(("q_next",), "its quaternions are (x, y, z, w)"),
    "qvel": ResultElsewhere(("qd_next",), "a floating base moves along its own axes"),
}
"""Results of other software: name in lower case without signs -> the outputs here."""


def held(name: str, outputs: Iterable[str]) -> tuple[str, str]:
    """Find the output that a name from other software refers to.

    Args:
        name: The name, which is not an output here.
        outputs: Names of the available outputs. An output of a frame's function may end with the frame's name.

    Returns:
        The output with the same meaning, else ""; and the hint for an error message if there is no such output.
    """
    own = list(outputs)
    same = [each for each in own if plain(each) == plain(name)]
    row = ResultElsewhere(tuple(same) or (name,)) if same else RESULTS.get(plain(name), ResultElsewhere((name,)))
    there = [each for each in own if each in row.outputs or each.startswith(_framed(row.outputs))]
    if len(there) == 1 and not row.differs:
        return there[0], ""
    if not there:
        return "", ""
    called = " or ".join(map(repr, there))
    return "", f"; it is called {called} here" + (f": {row.differs}" if row.differs else "")


def _framed(outputs: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of outputs that end with the name of a frame."""
    return tuple(f"{each}_" for each in outputs if each.startswith("frame_"))
