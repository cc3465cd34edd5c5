"""Implicit damping of joints in steps: MuJoCo's Euler, Pinocchio's M with it on the diagonal, and exact derivatives."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import mujoco
import numpy as np
import pinocchio
import pytest
from dynagate import Policy, Region, Robot, Rollout, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.bench.mujoco_peer import MujocoRollout
from dynagate.cli.errors import as_options
from dynagate.forces import Plane, Point
from dynagate.forces.options import StepOptions
from dynagate.integrators import RigidContact
from dynagate.integrators.implicit.contact_pairs import axes_of
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.step import step_graph

from tests.jointed_bodies import pendulum
from tests.mimic_hand import hand, ratios
from tests.mimic_hand import read_hand as read
from tests.mjcf_robots import ARM_MJCF as MJCF_ARM
from tests.mjcf_robots import TREE_MJCF as TREE
from tests.mjcf_robots import in_mujoco, read_mjcf
from tests.oracle import pinocchio_of
from tests.robots import DATA, floating
from tests.rollout_gradients import check_gradient
from tests.samples import states
from tests.small_loops import check_linearization

DT = 0.02
BAXTER = "baxter_description/urdf/baxter.urdf"
HEAVILY = {"z1": "z1_description/urdf/z1.urdf", "allegro": "allegro_hand_description/urdf/allegro_left_hand.urdf"}
"""Much damping on light links: 1 N m s/rad on wrists, 3 to 10 on fingers of some grams."""


def damped(robot: Robot, most: float = 3.0) -> Robot:
    """With damping of another size at each joint that is not a floating one."""
    sizes = iter(np.linspace(0.1, most, len(robot.links)))
    links = [
        replace(x, joint=replace(x.joint, damping=0.0 if x.joint.type == "floating" else float(next(sizes))))
        for x in robot.links
    ]
    return replace(robot, links=tuple(links))


def heavily(name: str) -> Robot:
    return Robot.from_urdf(DATA / HEAVILY[name], ignore_friction=True)


def held() -> Robot:
    """Its tip is held."""
    arm = damped(robots.load("two_joint_arm")).with_frame("tip", "forearm", (0.0, 0.0, 0.3))
    return arm.with_contact("tip", compliance=1e-3, damping=2.0)


@pytest.mark.parametrize("name", HEAVILY)
@pytest.mark.filterwarnings("ignore:joint:dynagate.RobotWarning")
def test_steps_are_mujocos(name: str) -> None:
    """Where explicit damping lets every speed grow until nothing is finite."""
    robot = heavily(name)
    random = np.random.default_rng(3)
    q0, qd0 = random.uniform(-0.5, 0.5, (2, 4, robot.nv))
    tau = 0.1 * random.normal(size=(4, 50, robot.nv))
    ours = Rollout(robot, steps=50, dt=DT, implicit_damping=True, device="numpy")(q0, qd0, tau)
    q, qd = MujocoRollout(robot, DT, implicit_damping=True)(q0, qd0, tau)
    np.testing.assert_allclose(ours.q[:, 1:], q, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(ours.qd[:, 1:], qd, rtol=0.0, atol=1e-9)
    assert (Rollout(robot, steps=50, dt=DT, device="numpy")(q0, qd0, tau).diverged > 0).all()


@pytest.mark.parametrize("text", [MJCF_ARM, TREE], ids=["arm", "tree"])
def test_accelerations_of_floating_and_ball_joints_are_mujocos(text: str, tmp_path: Path) -> None:
    robot = read_mjcf(text, tmp_path)
    model = mujoco.MjModel.from_xml_string(re.sub(r"<asset>.*?</asset>|<geom type=\"mesh\"[^>]*>", "", text))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.opt.timestep = DT
    data = mujoco.MjData(model)
    random = np.random.default_rng(4)
    q, v, tau = (random.uniform(-1.5, 1.5, n) for n in (robot.nq, robot.nv, robot.nv))
    for part in robot.quaternions():
        q[part] /= np.linalg.norm(q[part])
    data.qpos[:], b, c = in_mujoco(robot, q, v)
    data.qvel[:], data.qfrc_applied[:] = b @ v, np.linalg.solve(b.T, tau)
    mujoco.mj_step(model, data)
    expected = np.linalg.solve(b, (data.qvel - b @ v) / DT - c)
    for damping, near in ((True, True), (False, False)):
        after = Rollout(robot, steps=1, dt=DT, implicit_damping=damping, device="numpy")(q, v, tau[None])
        moved = after.qd[1].copy()
        for link, iq, iv in robot.slices():
            if (
                link.joint.type == "floating"
            ):  # the step has turned the linear velocity, exactly; here it is turned back
                speed, rate = slice(iv.start, iv.start + 3), slice(iv.start + 3, iv.stop)
                before, then = (pinocchio.Quaternion(x[iq][3:]).toRotationMatrix() for x in (q, after.q[1]))
                moved[speed] = before.T @ then @ moved[speed] - DT * np.cross(v[rate], v[speed])
        away = np.abs((moved - v) / DT - expected).max() / np.abs(expected).max()
        assert (away < 1e-9) == near, f"{damping}: {away:.1e}"


def of_mimics(tmp_path: Path) -> Robot:
    return read(hand(), tmp_path)


def test_joints_that_mimic_others_damp_through_their_ratio(tmp_path: Path) -> None:
    """(Gᵀ (M + dt D) G) q̈ = τ - Gᵀ (c + D q̇), with M and c from Pinocchio's robot of free joints."""
    for robot in (of_mimics(tmp_path), Robot.from_urdf(DATA / BAXTER, round_rotations=1e-4)):
        (g, offset), free = ratios(robot), robot.uncoupled()
        model, d = pinocchio_of(free), np.diag([link.joint.damping for link in free.links])
        data, state = model.createData(), states(robot, 3, seed=5)
        options = {"steps": 1, "dt": DT, "implicit_damping": True, "device": "numpy"}
        got = Rollout(robot, **options)(state["q"], state["qd"], state["tau"][:, None])
        for k in range(3):
            q, v = g @ state["q"][k] + offset, g @ state["qd"][k]
            position = pinocchio.neutral(model)
            for joint, iq, _ in free.moving():
                own = model.joints[model.getJointId(joint.name)]
                position[own.idx_q : own.idx_q + own.nq] = q[iq]
            m, c = pinocchio.crba(model, data, position), pinocchio.nonLinearEffects(model, data, position, v)
            m = np.triu(m) + np.triu(m, 1).T
            load = state["tau"][k] - g.T @ (c + d @ v)
            expected = state["qd"][k] + DT * np.linalg.solve(g.T @ (m + DT * d) @ g, load)
            np.testing.assert_allclose(got.qd[k, 1], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


ROBOTS: dict[str, Any] = {
    "arm": lambda path: damped(robots.load("two_joint_arm")),
    "z1": lambda path: heavily("z1"),
    "ball": lambda path: pendulum(),
    "floating": lambda path: damped(floating(path), 0.5),
    "mimic": of_mimics,
    "constrained": lambda path: held(),
}


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("integrator", ["euler", "semi_implicit_euler"])
def test_derivatives_are_exact(name: str, integrator: str, tmp_path: Path) -> None:
    robot, constrained = ROBOTS[name](tmp_path), name == "constrained"
    options: dict[str, Any] = {"integrator": integrator, "implicit_damping": True, "constrained": constrained}
    if integrator == "euler":
        check_gradient(robot, **options)
    else:
        check_linearization(robot, StepOptions(DT, **options))


def test_every_form_and_the_function_step(tmp_path: Path) -> None:
    """Also where a payload is an input, and with the forces of a stance."""
    for robot in (heavily("z1"), of_mimics(tmp_path)):
        state = {name: x for name, x in states(robot, 2, seed=7).items() if name in ("q", "qd", "tau")}
        expected = evaluate(step_graph(robot, StepOptions(DT, implicit_damping=True)), state)
        for form in ("mass_matrix_solve", "aba") if not robot.followers else (None,):
            other = evaluate(step_graph(robot, StepOptions(DT, form=form, implicit_damping=True)), state)
            graph = trace(robot.with_variable(robot.links[-1].name), "step", form=form, dt=DT, implicit_damping=True)
            nominal = np.array([robot.links[-1].parameters()] * 2)
            one = evaluate(graph, {**state, robot.links[-1].name: nominal})
            for name, values in expected.items():
                np.testing.assert_allclose(other[name], values, rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(one[name], values, rtol=1e-9, atol=1e-9)


def test_a_step_takes_hardly_more_operations() -> None:
    robot = heavily("z1")
    for graph in (step_graph, linearized_step_graph):
        explicit, implicit = (graph(robot, StepOptions(DT, implicit_damping=each)) for each in (False, True))
        assert len(implicit) <= len(explicit) + 2 * robot.nv


def test_compiled_steps_and_integers_are_those_of_numpy(tmp_path: Path) -> None:
    arm, random = damped(robots.load("two_joint_arm")), np.random.default_rng(8)
    q0, qd0 = random.uniform(-0.5, 0.5, (2, 6, 2))
    tau = random.uniform(-1.0, 1.0, (6, 20, 2))
    options: dict[str, Any] = {"steps": 20, "dt": DT, "implicit_damping": True}
    exact = Rollout(arm, device="numpy", **options)(q0, qd0, tau)
    np.testing.assert_allclose(Rollout(arm, **options)(q0, qd0, tau).qd, exact.qd, rtol=0.0, atol=1e-11)
    region = Region.of(arm, velocity=8.0, acceleration=80.0)
    chip = Rollout(arm, device="fixed", policy=Policy(30), region=region, **options)(q0, qd0, tau)
    assert np.abs(chip.qd - exact.qd).max() < 1e-4
    built = dynagate.build(arm, "rollout", ii=4, region=region, dt=DT, implicit_damping=True, folder=tmp_path / "ring")
    with dynagate.open(built.folder, device="fixed") as ring:
        assert np.abs(ring(q0, qd0, tau).qd - exact.qd).max() < 1e-3


def test_rigid_contact_solves_the_damped_equations() -> None:
    """(M + dt D) (v⁺ - v) = dt (τ - c - D v) + Jᵀ r, of a tip that hits a plane."""
    arm = damped(robots.load("two_joint_arm"), 0.4).with_frame("tip", "forearm", (0.0, 0.0, 0.3))
    plane = Plane((0.0, 0.0, -1.0), -0.75)
    contact = RigidContact([Point("forearm", (0.0, 0.0, 0.3))], [plane], friction=0.0)
    rollout = Rollout(arm, steps=40, dt=5e-3, implicit_damping=True, contacts=contact)
    q0, qd0, tau = np.array([1.2, 0.1]), np.array([-8.0, -2.0]), np.zeros((40, 2))
    motion = rollout(q0, qd0, tau)
    q, v, after = motion.q[:-1], motion.qd[:-1], motion.qd[1:]
    m = evaluate(trace(arm, "mass_matrix"), {"q": q})["m"]
    c = evaluate(trace(arm, "inverse_dynamics"), {"q": q, "qd": v, "qdd": 0.0 * v})["tau"]
    jacobian = axes_of(plane) @ evaluate(trace(arm, "frame_jacobian_tip"), {"q": q})["frame_jacobian"][:, 3:]
    d = np.diag([link.joint.damping for link in arm.links])
    left = np.einsum("kij,kj->ki", m + 5e-3 * d, after - v) + 5e-3 * c
    right = np.einsum("kji,kj->ki", jacobian, motion.impulse[:, 0])
    assert motion.converged.all()
    assert motion.impulse[:, 0, 0].max() > 0.1
    np.testing.assert_allclose(left, right, atol=1e-9)
    by_position, random = np.random.default_rng(9).normal(size=motion.q.shape), np.random.default_rng(10)
    gradient = rollout.vjp(motion, tau, by_position, 0.0 * motion.qd)["tau"]
    along = random.normal(size=tau.shape)
    ends = [(rollout(q0, qd0, tau + sign * 1e-5 * along).q * by_position).sum() for sign in (-1, 1)]
    np.testing.assert_allclose((gradient * along).sum(), (ends[1] - ends[0]) / 2e-5, rtol=1e-4)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"implicit_damping": "implicit"}, "implicit_damping='implicit'; expected True or False"),
    ({"implicit_damping": 1.0}, "implicit_damping=1.0; expected True or False"),
    (
        {"implicit_damping": True, "integrator": "rk4"},
        "implicit_damping=True with integrator 'rk4'; expected euler or semi_implicit_euler, whose steps have one",
    ),
    (
        {"implicit_damping": True, "dt": None},
        "implicit_damping=True with a time step that is an input; expected a constant dt",
    ),
    *(
        (
            {"implicit_damping": True, "integrator": method},
            f"integrator '{method}' takes no implicit_damping=True; expected none: damping is in the equations",
        )
        for method in ("variational", "position_based")
    ),
]


@pytest.mark.parametrize(("options", "text"), REFUSED, ids=str)
def test_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(text)):
        Rollout("two_joint_arm", **{"steps": 2, "dt": DT, **options})


def test_functions_without_a_step_refuse_it() -> None:
    with pytest.raises(ArgumentError, match="forward_dynamics.*'?damping"):
        dynagate.compile("two_joint_arm", "forward_dynamics", implicit_damping=True)
    with pytest.raises(ArgumentError, match="integrator 'variational' takes no implicit_damping=True"):
        dynagate.build("two_joint_arm", "rollout", units=2, integrator="variational", implicit_damping=True)
    with pytest.raises(ArgumentError, match="with a time step that is an input; expected a constant dt"):
        dynagate.build("two_joint_arm", "rollout", ii=4, dt=DT, variable_dt=True, implicit_damping=True)
    assert as_options("found: implicit_damping=True, a dt below 1 s") == "found: --implicit-damping, a dt below 1 s"
