"""dynagate: URDF in, verified dynamics accelerator out.

The names below are in the order in which data passes them. Importing the package needs only numpy; what needs
Amaranth or Verilator is imported when it is first used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from dynagate.base.errors import Error, MissingExtraError, MissingNameError
from dynagate.base.foreign_names import spelled
from dynagate.base.former_names import ANSWERS, NAMES
from dynagate.base.nearest import nearest
from dynagate.dynamics import TABLE as FUNCTIONS
from dynagate.dynamics.configuration import difference, integrate, neutral
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import jacobian
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.robot import Joint, Link, Mimic, Robot, RobotError, RobotWarning, robots

if TYPE_CHECKING:
    from dynagate import control as control
    from dynagate import envs as envs
    from dynagate import forces as forces
    from dynagate import hw as hw
    from dynagate import jax as jax
    from dynagate import mpc as mpc
    from dynagate import torch as torch
    from dynagate.checks.check import check as check
    from dynagate.fixedpoint.assign import Policy
    from dynagate.fixedpoint.wordlength.goal import Goal
    from dynagate.host import BoundCall, Device, Function, OverflowWarning, Results
    from dynagate.host import compile as compile
    from dynagate.host import open as open
    from dynagate.host.ilqr import Ilqr as ilqr
    from dynagate.host.inverse_kinematics import IkSolution
    from dynagate.host.inverse_kinematics import InverseKinematics as inverse_kinematics
    from dynagate.host.mppi import Mppi as mppi
    from dynagate.host.mppi import Sampled
    from dynagate.host.rollouts import Rollout, Trajectories
    from dynagate.host.solution import Solution
    from dynagate.hw.build import build, build_request
    from dynagate.hw.designs import Design, Resources
    from dynagate.hw.format_warnings import FormatsWarning
    from dynagate.hw.plan.cost import Budget
    from dynagate.hw.plan.plan import Stages
    from dynagate.hw.processor.isa.shape import Core
    from dynagate.hw.request import DesignRequest
    from dynagate.hw.rtl.axi import Axi
    from dynagate.identification import Identification, base_parameters, excitation, identify
    from dynagate.identification import PayloadEstimator as payload_estimator
    from dynagate.integrators import JointPD, RigidContact
    from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
    from dynagate.integrators.implicit.variational_method import VariationalIntegrator
    from dynagate.integrators.motion import Integrator
    from dynagate.views.scene.browser import View, ViewError, view
    from dynagate.views.scene.pictures import Picture, Shapes, draw

__all__ = [
    "FUNCTIONS",
    "AlgorithmOptions",
    "Axi",
    "BoundCall",
    "Budget",
    "Core",
    "Design",
    "DesignRequest",
    "Device",
    "Error",
    "FormatsWarning",
    "Function",
    "Goal",
    "Graph",
    "Identification",
    "IkSolution",
    "Integrator",
    "Joint",
    "JointPD",
    "Link",
    "Mimic",
    "OverflowWarning",
    "Picture",
    "Policy",
    "PositionBasedIntegrator",
    "Region",
    "Resources",
    "Results",
    "RigidContact",
    "Robot",
    "RobotError",
    "RobotWarning",
    "Rollout",
    "Sampled",
    "Shapes",
    "Solution",
    "Stages",
    "Trajectories",
    "VariationalIntegrator",
    "View",
    "ViewError",
    "base_parameters",
    "build",
    "build_request",
    "check",
    "difference",
    "draw",
    "evaluate",
    "excitation",
    "identify",
    "ilqr",
    "integrate",
    "inverse_kinematics",
    "jacobian",
    "mppi",
    "neutral",
    "payload_estimator",
    "robots",
    "trace",
    "view",
    "whole_body_torque",
]

_LAZY = {
    "payload_estimator": "dynagate.identification",
    "identify": "dynagate.identification",
    "excitation": "dynagate.identification",
    "base_parameters": "dynagate.identification",
    "Identification": "dynagate.identification",
    "check": "dynagate.checks.check",
    "Integrator": "dynagate.integrators.motion",
    "PositionBasedIntegrator": "dynagate.integrators.implicit.position_based_method",
    "JointPD": "dynagate.integrators",
    "RigidContact": "dynagate.integrators",
    "VariationalIntegrator": "dynagate.integrators.implicit.variational_method",
    "Solution": "dynagate.host.solution",
    "Sampled": "dynagate.host.mppi",
    "Policy": "dynagate.fixedpoint.assign",
    "Goal": "dynagate.fixedpoint.wordlength.goal",
    "Axi": "dynagate.hw.rtl.axi",
    "Budget": "dynagate.hw.plan.cost",
    "Design": "dynagate.hw.designs",
    "FormatsWarning": "dynagate.hw.format_warnings",
    "Resources": "dynagate.hw.designs",
    "Core": "dynagate.hw.processor.isa.shape",
    "DesignRequest": "dynagate.hw.request",
    "Rollout": "dynagate.host.rollouts",
    "Trajectories": "dynagate.host.rollouts",
    "Stages": "dynagate.hw.plan.plan",
    "build": "dynagate.hw.build",
    "build_request": "dynagate.hw.build",
    "View": "dynagate.views.scene.browser",
    "ViewError": "dynagate.views.scene.browser",
    "Picture": "dynagate.views.scene.pictures",
    "Shapes": "dynagate.views.scene.pictures",
    "draw": "dynagate.views.scene.pictures",
    "view": "dynagate.views.scene.browser",
    "Device": "dynagate.host",
    "Function": "dynagate.host",
    "compile": "dynagate.host",
    "BoundCall": "dynagate.host",
    "OverflowWarning": "dynagate.host",
    "Results": "dynagate.host",
    "ilqr": "dynagate.host.ilqr",
    "inverse_kinematics": "dynagate.host.inverse_kinematics",
    "IkSolution": "dynagate.host.inverse_kinematics",
    "mppi": "dynagate.host.mppi",
    "whole_body_torque": "dynagate.host.whole_body",
    "open": "dynagate.host",
}
_NAMED = {
    "ilqr": "Ilqr",
    "inverse_kinematics": "InverseKinematics",
    "mppi": "Mppi",
    "payload_estimator": "PayloadEstimator",
    "whole_body_torque": "WholeBodyTorque",
}
"""Names here -> other names in their modules."""

_MODULES = ("control", "envs", "forces", "hw", "jax", "mpc", "torch")
"""The public modules, which are attributes after `import dynagate`."""


if find_spec("amaranth") is None:  # a star import takes what can be had
    __all__ = [name for name in __all__ if not _LAZY.get(name, "").startswith("dynagate.hw")]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        try:
            return import_module(f"dynagate.{name}")
        except MissingExtraError as error:
            raise MissingNameError(str(error), code="DG-SYSTEM-001") from None
    if name in _LAZY:
        from dynagate.base.extras import brought_by

        try:
            with brought_by("hw", f"dynagate.{name}"):
                return getattr(import_module(_LAZY[name]), _NAMED.get(name, name))
        except MissingExtraError as error:  # hasattr, dir and help must go on
            raise MissingNameError(str(error), code="DG-SYSTEM-002") from None
    now = NAMES.get(name) or ANSWERS.get(spelled(name))
    hint = f"; write {now}" if now else nearest(name, {*__all__, *_LAZY, *_MODULES})
    raise AttributeError(f"module 'dynagate' has no attribute '{name}'{hint}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY, *_MODULES, "__version__"})
