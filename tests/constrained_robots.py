"""Robots with contacts and loops, and their motion by Pinocchio, by dense algebra and by complex steps."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
from dynagate import Robot, evaluate, robots, trace
from dynagate.dynamics.configuration import integrate
from dynagate.graph.reference_gradient import STEP
from dynagate.robot import Constraint, Frame, Joint, Link

from tests.oracle import pinocchio_of
from tests.robots import floating_robot, hopper
from tests.samples import State, states

FORWARD = "constrained_forward_dynamics"
FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")
KINDS = {"point": pinocchio.ContactType.CONTACT_3D, "fixed": pinocchio.ContactType.CONTACT_6D}
TURN = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


def quadruped() -> Robot:
    robot = robots.load("hyq", floating_base=True)
    for foot in FEET:
        robot = robot.with_contact(foot)
    return robot


def branched(seed: int, folder: Path) -> Robot:
    """A random tree on a free body, whose last two leaves end in contacts of both kinds."""
    robot = floating_robot(seed, folder)
    leaves = [k for k in range(len(robot.links)) if k not in robot.parents]
    robot = robot.with_frame("sole", robot.links[leaves[-1]].name, (0.1, -0.2, 0.3), TURN).with_contact("sole", "fixed")
    return robot.with_contact(robot.links[leaves[-2]].name)


def one_foot(folder: Path, **contact: Any) -> Robot:
    return hopper(folder).with_frame("toe", "leg", (0.0, 0.02, -0.4)).with_contact("toe", **contact)


def with_stances(robot: Robot, state: State) -> State:
    """All stances by turns, and weights and directions of derivatives."""
    stances = np.array([*itertools.product((1.0, 0.0), repeat=len(robot.constraints))])
    count = len(state["q"])
    weights = np.random.default_rng(5).normal(size=(count, robot.constraint_rows))
    return {**state, "active": np.resize(stances, (count, len(robot.constraints))), "lam_force": weights}


def run(robot: Robot, name: str, state: State, **options: Any) -> State:
    graph = trace(robot, name, **options)
    return evaluate(graph, {port.name: state[port.name] for port in graph.inputs})


def entries_of(model: Any, ids: list[int]) -> tuple[list[int], list[int]]:
    """Where Pinocchio's q and q̇ have those of joints, one joint after the other."""
    joints = [model.joints[i] for i in ids]
    q = [k for joint in joints for k in range(joint.idx_q, joint.idx_q + joint.nq)]
    return q, [k for joint in joints for k in range(joint.idx_v, joint.idx_v + joint.nv)]


def place(robot: Robot, ids: list[int], name: str) -> tuple[int, Any]:
    """Pinocchio's joint that a frame moves with, and its pose there. ids: of joints by link."""
    frame = robot.frame(name)
    pose = pinocchio.SE3(np.array(frame.rotation), np.array(frame.translation))
    return ids[frame.link] if frame.link >= 0 else 0, pose


def by_pinocchio(robot: Robot, state: State, proximal: tuple[float, float, int] = (1e-14, 0.0, 1)) -> State:
    """q̈ and the contacts' forces in base axes by `constraintDynamics`. proximal: accuracy, μ and number of its steps,
    which constraints that hold the same twice need."""
    model = pinocchio_of(robot)
    data = model.createData()
    still = pinocchio.SE3.Identity()
    ids = [model.getJointId(link.joint.name) for link in robot.links]
    _, columns = entries_of(model, ids)
    result: dict[str, list[np.ndarray]] = {"qdd": [], "force": []}
    for q, qd, tau, active in zip(*(state[name] for name in ("q", "qd", "tau", "active")), strict=True):
        position, velocity, torque = pinocchio.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for i, (_, part, _) in zip(ids, robot.slices(), strict=True):
            position[model.joints[i].idx_q : model.joints[i].idx_q + model.joints[i].nq] = q[part]
        velocity[columns], torque[columns] = qd, tau
        places = {c: place(robot, ids, c.frame) for c in robot.constraints}
        other = {c: place(robot, ids, c.to) if c.to else (0, still) for c in robot.constraints}
        held = [contact for contact, on in zip(robot.constraints, active, strict=True) if on]
        local = pinocchio.ReferenceFrame.LOCAL
        models = [pinocchio.RigidConstraintModel(KINDS[c.kind], model, *places[c], *other[c], local) for c in held]
        for contact, own in zip(held, models, strict=True):
            own.setBaumgarteCorrectorParameters(pinocchio.BaumgarteCorrectorParameters(0.0, contact.damping))
        datas = [own.createData() for own in models]
        pinocchio.initConstraintDynamics(model, data, models, datas)
        settings = pinocchio.ProximalSettings(*proximal)
        qdd = pinocchio.constraintDynamics(model, data, position, velocity, torque, models, datas, settings)
        result["qdd"].append(qdd[columns])
        found = list(data.lambda_c)
        pinocchio.forwardKinematics(model, data, position)
        rows: list[np.ndarray] = []
        for contact in robot.constraints:
            own, found = (found[: contact.rows], found[contact.rows :]) if contact in held else ([], found)
            turn = (data.oMi[places[contact][0]] * places[contact][1]).rotation
            threes = [turn @ own[k : k + 3] for k in range(0, len(own), 3)] or [np.zeros(contact.rows)]
            rows += threes[::-1]  # Pinocchio has the linear part first
        result["force"].append(np.concatenate(rows))
    return {name: np.array(values) for name, values in result.items()}


def by_lcaba(robot: Robot, state: State, proximal: tuple[float, float, int]) -> np.ndarray:
    """q̈ (batch, nv) by `lcaba`, Pinocchio's articulated bodies with loops of points, all closed. proximal: accuracy, μ
    and number of its steps."""
    model = pinocchio_of(robot)
    data = model.createData()
    ids = [model.getJointId(link.joint.name) for link in robot.links]
    p, v = entries_of(model, ids)
    models, datas = pinocchio.StdVec_RigidConstraintModel(), pinocchio.StdVec_RigidConstraintData()
    for own in robot.constraints:
        ends = [*place(robot, ids, own.frame), *place(robot, ids, own.to)]
        models.append(pinocchio.RigidConstraintModel(KINDS["point"], model, *ends, LOCAL))
    datas.extend(own.createData() for own in models)
    pinocchio.computeJointMinimalOrdering(model, data, models)
    result: list[np.ndarray] = []
    for q, qd, tau in zip(state["q"], state["qd"], state["tau"], strict=True):
        position, velocity, torque = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
        position[p], velocity[v], torque[v] = q, qd, tau
        settings = pinocchio.ProximalSettings(*proximal)
        result.append(pinocchio.lcaba(model, data, position, velocity, torque, models, datas, settings)[v])
    return np.array(result)


def opening(robot: Robot, loop: Constraint, state: State) -> np.ndarray:
    """How far a loop is open, (batch, rows) in base axes: half the sines of the angle between its frames, and their
    distance; of joints, by how much the first is not what the polynomial says."""
    if loop.of_joints:
        first, second = (
            state["q"][:, next(part.start for link, part, _ in robot.slices() if link.joint.name == name)]
            for name in (loop.frame, loop.to)
        )
        return (first - np.polynomial.Polynomial(loop.polynomial)(second))[:, None]
    result = np.zeros((len(state["q"]), 6))
    if loop.to:
        (turn, at), (other, there) = (
            (pose["frame_rotation"], pose["frame_position"])
            for pose in (pose_of(robot, name, state) for name in (loop.frame, loop.to))
        )
        result[:, :3] = 0.5 * np.cross(other, turn, axis=1).sum(axis=2)
        result[:, 3:] = at - there
    return result[:, -loop.rows :]


def pose_of(robot: Robot, name: str, state: State) -> State:
    frame = robot.frame(name)
    if frame.link >= 0:
        return run(robot, f"frame_pose_{name}", state)
    return {"frame_rotation": np.array([frame.rotation]), "frame_position": np.array([frame.translation])}


def by_dense_algebra(robot: Robot, state: State) -> State:
    """q̈ and forces of the linear equations with M, h, J and J̇ q̇ of listed functions, J̇ by a complex step of J."""
    free = {**state, "qdd": np.zeros_like(state["qd"])}
    m, bias = run(robot, "mass_matrix", state)["m"], run(robot, "inverse_dynamics", free)["tau"]
    graph = trace(robot, "contact_jacobian")
    j = evaluate(graph, {"q": state["q"]})["contact_jacobian"]
    moved = integrate(robot, state["q"], 1j * STEP * state["qd"])
    rate = evaluate(graph, {"q": moved})["contact_jacobian"].imag / STEP
    stiffness, damping, compliance = (
        np.concatenate([[getattr(contact, name)] * contact.rows for contact in robot.constraints])
        for name in ("stiffness", "damping", "compliance")
    )
    open_by = np.concatenate([opening(robot, contact, state) for contact in robot.constraints], axis=1)
    nv, rows = robot.nv, robot.constraint_rows
    result = {"qdd": np.zeros((len(m), nv)), "force": np.zeros((len(m), rows))}
    for k in range(len(m)):
        on = np.flatnonzero(np.repeat(state["active"][k], [contact.rows for contact in robot.constraints]))
        own = j[k, on]
        drift = (rate[k, on] + damping[on, None] * own) @ state["qd"][k] + (stiffness * open_by[k])[on]
        equations = np.block([[m[k], -own.T], [own, np.diag(compliance[on])]])
        solution = np.linalg.solve(equations, np.concatenate([state["tau"][k] - bias[k], -drift]))
        result["qdd"][k], result["force"][k, on] = solution[:nv], solution[nv:]
    return result


def assert_close(got: State, expected: State, within: float) -> None:
    for name, values in expected.items():
        scale = np.abs(values).max() or 1.0
        assert np.abs(got[name] - values).max() <= within * scale, name


def closed(robot: Robot, name: str, on: str, state: State) -> Robot:
    """With a frame "there" on another link, where the frame of this name is in the state."""
    own, other = pose_of(robot, name, state), pose_of(robot, on, state)
    back = other["frame_rotation"][0].T
    offset = back @ (own["frame_position"][0] - other["frame_position"][0])
    return robot.with_frame("there", on, tuple(offset), back @ own["frame_rotation"][0])


def looped(kind: str, folder: Path) -> tuple[Robot, State]:
    """A branched robot with a contact, and a loop that is closed and still in one state."""
    robot = branched(25, folder)
    free = replace(robot, constraints=robot.constraints[1:])
    state = states(free, 1, seed=3)
    robot = closed(free, "sole", "link_3", state).with_loop("sole", "there", kind)
    return robot, with_stances(robot, state)


def settled(robot: Robot, state: State) -> State:
    """The state with velocities that keep all constraints."""
    j = run(robot, "contact_jacobian", state)["contact_jacobian"]
    return {**state, "qd": state["qd"] - np.einsum("bvr,brw,bw->bv", np.linalg.pinv(j), j, state["qd"])}


def differences(robot: Robot, state: State, **options: Any) -> dict[str, np.ndarray]:
    """∂q̈ and ∂λ by q, q̇ and τ, by complex steps of the function."""
    graph = trace(robot, FORWARD, **options)
    inputs: dict[str, Any] = {port.name: state[port.name] for port in graph.inputs}
    result = {}
    for name in ("q", "qd", "tau"):
        columns = []
        for unit in 1j * STEP * np.eye(robot.nv):
            moved = integrate(robot, state["q"], unit) if name == "q" else inputs[name] + unit
            columns.append({key: x.imag / STEP for key, x in evaluate(graph, {**inputs, name: moved}).items()})
        for output in ("qdd", "force"):
            result[f"d{output}_d{name}"] = np.stack([column[output] for column in columns], axis=-1)
    return result


def weighted(state: State, by: dict[str, np.ndarray]) -> State:
    """The products λᵀ ∂(q̈, force) with matrices by name."""
    result = {}
    for x in ("q", "qd", "tau"):
        terms = [np.einsum("bi,bij->bj", state[f"lam_{y}"], by[f"d{y}_d{x}"]) for y in ("qdd", "force")]
        result[f"vjp_{x}"] = np.sum(terms, axis=0)
    return result


INERTIA = ((0.1, 0.0, 0.0), (0.0, 0.12, 0.0), (0.0, 0.0, 0.15))


def body(name: str, parent: int, kind: str) -> Link:
    return Link(name, parent, Joint(f"{name}_joint", kind, translation=(0.0, 0.1, 0.4)), 2.0, (0.1, 0.0, 0.2), INERTIA)


RESTITUTION = "restitution"


def constraint_state(robot: Robot, count: int, seed: int) -> State:
    state = with_stances(robot, states(robot, count, seed=seed))
    random = np.random.default_rng(seed)
    state[RESTITUTION] = random.uniform(0.0, 1.0, (count, len(robot.constraints)))
    for name, size in (("qd_after", robot.nv), ("impulse", robot.constraint_rows)):
        state[f"lam_{name}"] = random.normal(size=(count, size))
    return state


LOCAL = pinocchio.ReferenceFrame.LOCAL


def four_bar(**gains: float) -> Robot:
    """Crank and rocker from the wall, and a coupler on the crank that a loop pins to the rocker. The joints turn about
    one direction, so that a loop in space holds one direction that they hold already: with a compliance."""
    along = ((0.01, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))
    upright = {"axis": (0.0, 1.0, 0.0)}
    links = (
        Link(
            "crank", -1, Joint("crank", "revolute", lower=-3.0, upper=3.0, velocity=3.0, **upright), 0.5, X_HALF, along
        ),
        Link(
            "coupler",
            0,
            Joint("coupler", "revolute", translation=(0.3, 0.0, 0.0), velocity=3.0, **upright),
            1.0,
            X_HALF,
            along,
        ),
        Link(
            "rocker",
            -1,
            Joint("rocker", "revolute", translation=(0.9, 0.0, 0.0), velocity=3.0, **upright),
            0.8,
            X_HALF,
            along,
        ),
    )
    robot = (
        Robot("four_bar", links)
        .with_frame("pin", "coupler", (0.8, 0.0, 0.0))
        .with_frame("eye", "rocker", (0.5, 0.0, 0.0))
    )
    return robot.with_loop("pin", "eye", **{"compliance": 1e-9, **gains})


X_HALF = (0.25, 0.0, 0.0)


def pair() -> Robot:
    """Two bodies on balls, the first of which floats, and frames on the last body and on the base."""
    first = Link("a", -1, Joint("free", "floating"), 2.0, (0.1, 0.0, 0.2), INERTIA)
    second = Link("b", 0, Joint("ball", "spherical", translation=(0.0, 0.1, 0.4)), 0.5, (0.0, 0.1, 0.1), INERTIA)
    robot = Robot("pair", (first, second))
    return replace(robot, frames=(Frame("wall", -1, translation=(0.3, 0.0, 0.5)), Frame("hook", 1)))
