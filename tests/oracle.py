"""Pinocchio as the oracle of every rigid-body function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pinocchio
from dynagate import Robot, evaluate, trace
from dynagate.dynamics import FUNCTIONS, FunctionRow
from dynagate.dynamics.configuration import integrate
from dynagate.dynamics.steps.step import DEFAULT_STEP
from dynagate.graph.reference_gradient import relative_errors

from tests import tolerances
from tests.samples import State, inputs_of, states

GRADIENT_FRAMES = ("base", "middle", 0)


def pinocchio_model(
    path: Path, lock: Mapping[str, float] | None = None, *, floating_base: bool = False
) -> pinocchio.Model:
    """Pinocchio's reading of the file, with joints held where told."""
    root = [pinocchio.JointModelFreeFlyer()] if floating_base else []
    model = pinocchio.buildModelFromUrdf(str(path), *root)
    held = [model.getJointId(name) for name in lock or {}]
    position = pinocchio.neutral(model)
    for name, joint in zip(lock or {}, held, strict=True):
        position[model.joints[joint].idx_q] = (lock or {})[name]
    return pinocchio.buildReducedModel(model, held, position) if held else model


JOINTS: dict[str, Callable[[np.ndarray], pinocchio.JointModel]] = {
    "revolute": lambda axis: pinocchio.JointModelRevoluteUnaligned(axis),
    "continuous": lambda axis: pinocchio.JointModelRevoluteUnaligned(axis),
    "prismatic": lambda axis: pinocchio.JointModelPrismaticUnaligned(axis),
    "spherical": lambda axis: pinocchio.JointModelSpherical(),
    "floating": lambda axis: pinocchio.JointModelFreeFlyer(),
}


def pinocchio_of(robot: Robot) -> pinocchio.Model:
    """The same robot in Pinocchio, joint by joint: URDF has no spherical joints."""
    model = pinocchio.Model()
    model.gravity = pinocchio.Motion(np.array(robot.gravity), np.zeros(3))
    ids: list[int] = []
    for link in robot.links:
        joint = link.joint
        placement = pinocchio.SE3(np.array(joint.rotation), np.array(joint.translation))
        parent = ids[link.parent] if link.parent >= 0 else 0
        ids.append(model.addJoint(parent, JOINTS[joint.type](np.array(joint.axis)), placement, joint.name))
        body = pinocchio.Inertia(link.mass, np.array(link.com), np.array(link.inertia))
        model.appendBodyToJoint(ids[-1], body, pinocchio.SE3.Identity())
        at = model.joints[ids[-1]].idx_v
        model.armature[at : at + joint.nv] = joint.armature
    return model


def pushed_by(model: pinocchio.Model, robot: Robot, f_ext: np.ndarray) -> pinocchio.StdVec_Force:
    """Our rows [moment; force], in the order of Pinocchio's joints."""
    forces = pinocchio.StdVec_Force()
    for _ in range(model.njoints):
        forces.append(pinocchio.Force.Zero())
    for link, row in zip(robot.links, f_ext, strict=True):
        forces[model.getJointId(link.joint.name)] = pinocchio.Force(row[3:], row[:3])
    return forces


def reference(robot: Robot, model: pinocchio.Model, state: State) -> State:
    """All outputs of all functions, by Pinocchio, in our order of joints."""
    data = model.createData()
    joints = [model.joints[model.getJointId(link.joint.name)] for link in robot.links]
    rows = [k for joint in joints for k in range(joint.idx_v, joint.idx_v + joint.nv)]
    grid = np.ix_(rows, rows)
    results: dict[str, list[np.ndarray]] = {}
    f_ext = state.get("f_ext", np.zeros((len(state["q"]), len(robot.links), 6)))
    for q, qd, qdd, tau, push in zip(*(state[k] for k in ("q", "qd", "qdd", "tau")), f_ext, strict=True):
        forces = pushed_by(model, robot, push)
        position = pinocchio.neutral(model)
        velocity, acceleration, torque = (np.zeros(model.nv) for _ in range(3))
        for joint, (link, part, _) in zip(joints, robot.slices(), strict=True):
            # Pinocchio keeps a continuous joint as its cosine and sine
            turns = link.joint.nq == 1 and joint.nq == 2
            own = np.array([np.cos(q[part][0]), np.sin(q[part][0])]) if turns else q[part]
            position[joint.idx_q : joint.idx_q + joint.nq] = own
        velocity[rows], acceleration[rows], torque[rows] = qd, qdd, tau
        pinocchio.computeRNEADerivatives(model, data, position, velocity, acceleration, forces)
        one = {"tau": data.tau[rows].copy(), "dtau_dq": data.dtau_dq[grid], "dtau_dqd": data.dtau_dv[grid]}
        m = pinocchio.crba(model, data, position)
        one["m"] = (np.triu(m) + np.triu(m, 1).T)[grid]
        pinocchio.computeABADerivatives(model, data, position, velocity, torque, forces)
        minv = np.triu(data.Minv) + np.triu(data.Minv, 1).T
        one |= {"qdd": data.ddq[rows].copy(), "dqdd_dq": data.ddq_dq[grid], "dqdd_dqd": data.ddq_dv[grid]}
        one["minv"] = minv[grid]
        # by M, which has the rotors: computeKineticEnergy of Pinocchio 4.1 counts only part of the armature
        one["kinetic_energy"] = 0.5 * qd @ one["m"] @ qd
        one["potential_energy"] = pinocchio.computePotentialEnergy(model, data, position)
        one["center_of_mass"] = pinocchio.centerOfMass(model, data, position).copy()
        pinocchio.computeJointJacobians(model, data, position)
        names = [model.getJointId(link.joint.name) for link in robot.links]
        one["link_positions"] = np.array([data.oMi[joint].translation for joint in names])
        aligned = pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
        jacobians = [pinocchio.getJointJacobian(model, data, joint, aligned).reshape(6, -1) for joint in names]
        one["link_jacobians"] = np.array(jacobians)[:, [3, 4, 5, 0, 1, 2]][..., rows]  # ours has the angular rows first
        for name, value in one.items():
            results.setdefault(name, []).append(np.array(value))
    return {name: np.array(values) for name, values in results.items()}


def products(function: str, robot: Robot, state: State, expected: State) -> State:
    """The outputs of a step, and of products with derivatives, from Pinocchio's; those of others as they are."""
    if function == "step":
        velocity = state["qd"] + DEFAULT_STEP * expected["qdd"]
        return expected | {"qd_next": velocity, "q_next": integrate(robot, state["q"], DEFAULT_STEP * velocity)}
    output, by = ("tau", "qdd") if function.startswith("inverse_dynamics") else ("qdd", "tau")
    if function.endswith("_vjp"):
        weight = state[f"lam_{output}"]
        rows = {f"vjp_{x}": m for x, m in _derivatives(output, by, expected).items()}
        return expected | {name: np.einsum("bi,bij->bj", weight, matrix) for name, matrix in rows.items()}
    if function.endswith("_jvp"):
        terms = _derivatives(output, by, expected).items()
        return expected | {f"jvp_{output}": sum(np.einsum("bij,bj->bi", m, state[f"delta_{x}"]) for x, m in terms)}
    return expected


def _derivatives(output: str, by: str, expected: State) -> State:
    matrix = expected["m" if output == "tau" else "minv"]
    return {"q": expected[f"d{output}_dq"], "qd": expected[f"d{output}_dqd"], by: matrix}


def choices(
    function: FunctionRow, robot: Robot, frames: Sequence[str | int], every_form: bool
) -> list[dict[str, str | int]]:
    """The default form of a function or all of them, the closed form in several frames and with prefix sums."""
    result: list[dict[str, str | int]] = []
    for form in function.forms_for(robot)[: None if every_form else 1]:
        options = function.options.get(form, ())
        result += [{"form": form, "frame": frame} for frame in frames] if "frame" in options else [{"form": form}]
        if "mass" in options:
            result.append({"form": form, "mass": "shared"})
        if "prefix" in options:
            result.append({"form": form, "frame": frames[-1], "prefix": True})
    return result


def compare(
    robot: Robot,
    model: pinocchio.Model | Path,
    count: int,
    frames: Sequence[str | int] = GRADIENT_FRAMES,
    every_form: bool = True,
    external_forces: bool = False,
) -> None:
    """All functions of the robot against Pinocchio, on states of high speed, pushed from outside on request."""
    state = states(robot, count, seed=robot.nv, external_forces=external_forces)
    model = pinocchio_model(model) if isinstance(model, Path) else model
    expected = reference(robot, model, state)
    state["minv"] = expected["minv"]
    weightless = pinocchio.Model(model)
    weightless.gravity = pinocchio.Motion.Zero()
    alone = {name: value for name, value in state.items() if name != "f_ext"}
    of_torques = reference(robot, weightless, {**alone, "qd": np.zeros_like(state["qd"])})  # M⁻¹ τ
    for name, function in FUNCTIONS.items():
        if name.endswith("_second_order"):  # which Pinocchio does not have
            continue
        if name == "step" and any(link.joint.type == "floating" for link in robot.links):
            continue  # Pinocchio has no step that keeps momentum: tests/fuzz/reference.py has it
        right = products(name, robot, state, of_torques if name.startswith("inverse_mass_product") else expected)
        pushed = external_forces and function.takes_external_forces
        for options in choices(function, robot, frames, every_form and not function.derivative_of):
            outputs = evaluate(
                trace(robot, name, external_forces=pushed, **options), inputs_of(name, state, external_forces=pushed)
            )
            for output, got in outputs.items():
                where = f"{robot.name} {name} {options} {output}"
                if np.abs(right[output]).max() < tolerances.ZERO:  # one joint about the vertical, say
                    assert np.abs(got).max() < tolerances.ZERO, where
                    continue
                error = relative_errors(got, right[output]).max()
                assert error <= tolerances.PINOCCHIO, f"{where}: {error:.1e}"
