"""Typical magnitudes of a robot's inputs in its own units, so that every term matters in random states."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.dynamics import Argument, Tree
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot
from dynagate.robot.variable import (
    ARMATURE,
    COM,
    DAMPING,
    FRICTION,
    GRAVITY,
    GROUND_FRICTION,
    GROUND_RESTITUTION,
    INERTIA,
    MASS,
    PLACEMENT,
    POSITION,
    ROTATION,
    Variable,
)

STEP = 0.01
"""Typical time step, relative to the time in which a body falls the robot's length."""


def parameter_inputs(recording: Recording, robot: Robot, sizes: Mapping[str, Floats]) -> dict[str, Floats]:
    """Add the inputs of a robot's variable parameters to a recording, and return them by name, as `Tree` takes them.

    Args:
        recording: The recording.
        robot: The robot.
        sizes: The result of `typical_sizes`.
    """
    return {
        variable.input: recording.input(
            variable.input,
            variable.shape,
            variable_size(robot, variable, sizes),
            unit_vectors=variable.unit_vectors,
            parameter=variable.checked_kind(robot),
        )
        for variable in robot.variables
    }


def variable_size(robot: Robot, variable: Variable, sizes: Mapping[str, Floats]) -> Floats:
    """Return the typical magnitude of each entry of a variable parameter, in the shape of its input.

    Args:
        robot: The robot.
        variable: The parameter.
        sizes: The result of `typical_sizes`.
    """
    length, kind = float(sizes["place"]), variable.kind
    if kind == GRAVITY:
        return np.full(3, np.linalg.norm(robot.gravity) or 1.0)
    if kind in (GROUND_FRICTION, GROUND_RESTITUTION):
        return np.ones(())
    if kind in (PLACEMENT, POSITION, ROTATION):
        pose = np.repeat([length, 1.0], [3, 4])
        parts = {PLACEMENT: pose, POSITION: pose[:3], ROTATION: pose[3:]}
        return np.broadcast_to(parts[kind], variable.shape)
    if kind in (ARMATURE, DAMPING, FRICTION):
        inertia = float(np.median(sizes["tau"] / sizes["qdd"]))
        torque = float(np.median(sizes["tau"]))
        damping = torque / float(np.median(sizes["qd"]))
        return np.full(variable.shape, {ARMATURE: inertia, DAMPING: damping, FRICTION: torque}[kind])
    masses = [robot.links[i].mass or max(link.mass for link in robot.links) or 1.0 for i in variable.owners]
    rows = np.stack([_parameter_sizes(mass, length) for mass in masses])
    parts = {MASS: rows[:, 0], COM: np.full((len(rows), 3), length), INERTIA: rows[:, 4:]}
    return parts.get(kind, rows).reshape(variable.shape)


def size_of(argument: Argument, sizes: Mapping[str, Floats]) -> Floats | float:
    """Return the typical sizes of an argument's entries, by its name or that of a similar argument; 1 for others."""
    return sizes.get(argument.like or argument.name, 1.0)


def typical_sizes(tree: Tree) -> dict[str, Floats]:
    """Return the typical sizes of the entries of inputs, by name; parameters of a link by its name. An arm in
    millimeters and milligrams has other numbers than one in meters and kilograms, and the same ratios of terms.

    The length is the largest in the robot, the time is that of a fall over this length, and a torque is the one that
    accelerates its joint in this time.
    """
    tree = tree.numeric
    robot, mimic = tree.robot, tree.mimic
    length = max(float(np.abs([link.joint.translation, link.com]).max()) for link in robot.links) or 1.0
    gravity = float(np.linalg.norm(robot.gravity))
    time = np.sqrt(length / gravity) if gravity > 0.0 else 1.0
    random = np.random.default_rng(0)
    q = normalized(robot, random.uniform(-1.0, 1.0, tree.nq))
    inertia = np.abs(np.diag(mass_matrix(tree, q.tolist()).astype(np.float64)))
    inertia[inertia == 0.0] = inertia.max() or 1.0
    slides = np.array([tree.slides(d) for d in range(tree.nv)])
    unit = np.where(slides, length, 1.0)
    position = np.ones(tree.nq)
    for link, q_part, _ in robot.slices():
        position[[q_part.start + k for k in link.joint.kind.lengths]] = length
    torque = inertia * unit / time**2
    force = float((torque / np.where(slides, 1.0, length)).max())
    moves = {"q": unit, "qd": unit / time, "qdd": unit / time**2, "tau": torque}
    held = tree.source.constraints
    rows = np.concatenate([np.ones(0), *([length] * c.turning_rows + [1.0] * (c.rows - c.turning_rows) for c in held)])
    moves = {name: size[mimic.leaders] for name, size in moves.items()}
    position, torque, inertia = position[mimic.leaders_q], moves["tau"], inertia[mimic.leaders]
    return {
        **{link.name: _parameter_sizes(link.mass or 1.0, length) for link in robot.links},
        **moves,
        "q": position,
        "increment": 0.3 * moves["q"],
        **{f"delta_{name}": size for name, size in moves.items()},
        **{f"lam_{name}": 1.0 / size for name, size in moves.items()},
        "minv": 1.0 / np.sqrt(np.outer(inertia, inertia)),
        "tau_or_qdd": torque,
        "function": np.ones(()),
        "f_ext": np.repeat([force * length, force], 3),
        "force": rows * force,
        "lam_force": 1.0 / (rows * force),
        "restitution": np.ones(()),
        "lam_qd_after": 1.0 / moves["qd"],
        "lam_impulse": 1.0 / (rows * force * time),
        "acceleration": length / time**2 / rows,
        "dt": np.array(STEP * time),
        "place": np.array(length),
    }


def _parameter_sizes(mass: float, length: float) -> Floats:
    """Return the typical sizes of a link's ten inertial parameters."""
    return mass * np.repeat([1.0, length, length**2], [1, 3, 6])
