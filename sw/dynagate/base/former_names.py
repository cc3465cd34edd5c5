"""Former names of functions and classes, and what to write now, for error messages."""

from __future__ import annotations

CALLS = {"open": "a robot is compiled: write dynagate.compile(robot, function)"}
"""Calls whose arguments changed -> what to write."""

NAMES = {
    "Accelerator": "dynagate.Function",
    "Opened": "dynagate.Function",
    "ChipRollout": "dynagate.Device",
    "Build": "dynagate.Design",
    "ProcessorBuild": "dynagate.Design",
}
"""Former names in the package -> current names."""

LOAD = "dynagate.Robot.from_file(path), or dynagate.robots.load(name)"
ANSWERS = {
    **dict.fromkeys(("load", "loadrobot", "loadurdf", "fromurdf", "buildmodelfromurdf", "model", "mjmodel"), LOAD),
    **dict.fromkeys(("jit", "function"), "dynagate.compile(robot, function)"),
    **dict.fromkeys(("rnea", "aba", "crba", "forwarddynamics", "massmatrix"), "dynagate.compile(robot, function)"),
    **dict.fromkeys(("inversedynamics", "forwardkinematics"), "dynagate.compile(robot, function)"),
    **dict.fromkeys(("simulate", "step", "rollouts"), "dynagate.Rollout(robot, steps=..., dt=...)"),
    "randomconfiguration": "dynagate.Region.of(robot).sample('mass_matrix', count, seed)['q']",
    **dict.fromkeys(("ik", "solveik", "clik"), "dynagate.inverse_kinematics(robot, frames)"),
    "cost": "dynagate.control.Cost",
    "contact": "dynagate.forces.Contact",
    "grad": "dynagate.jax.function(robot, function) under jax.grad",
}
"""Names that users guess, spelled as in `base.foreign_names` -> what to write."""
