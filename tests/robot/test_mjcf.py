"""MJCF through MuJoCo's compiler: the robot has MuJoCo's mass matrix, torques and accelerations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Region, Robot, RobotError, RobotWarning, evaluate, trace

from tests.mjcf_robots import ARM_MJCF, TREE_MJCF, in_mujoco, read_mjcf
from tests.samples import inputs_of

mujoco = pytest.importorskip("mujoco")


CART = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/>
  <geom type="box" size="0.2 0.1 0.1" mass="1"/>
  <body name="pole"><joint name="hinge" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.02" mass="0.1"/>
  </body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("text", [ARM_MJCF, TREE_MJCF, CART], ids=["arm", "tree", "cart"])
def test_dynamics_are_mujocos(text: str, tmp_path: Path) -> None:
    robot = read_mjcf(text, tmp_path)
    without_mesh = re.sub(r"<asset>.*?</asset>|<geom type=\"mesh\"[^>]*>", "", text, flags=re.DOTALL)
    model = mujoco.MjModel.from_xml_string(without_mesh)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data = mujoco.MjData(model)
    assert (robot.nq, robot.nv) == (model.nq, model.nv)
    random = np.random.default_rng(4)
    q, v, a = random.uniform(-1.5, 1.5, robot.nq), random.uniform(-3, 3, robot.nv), random.uniform(-9, 9, robot.nv)
    for part in robot.quaternions():
        q[part] /= np.linalg.norm(q[part])
    qpos, b, c = in_mujoco(robot, q, v)
    state = {"q": q[None], "qd": v[None], "qdd": a[None]}
    data.qpos[:], data.qvel[:], data.qacc[:] = qpos, b @ v, b @ a + c
    mujoco.mj_inverse(model, data)
    # MuJoCo's inverse dynamics has damping as a passive force, which the torques must overcome
    torque = b.T @ data.qfrc_inverse
    m = np.zeros((robot.nv, robot.nv))
    mujoco.mj_fullM(model, data, m)
    ours = {name: evaluate(trace(robot, name), inputs_of(name, state)) for name in ("inverse_dynamics", "mass_matrix")}
    np.testing.assert_allclose(ours["mass_matrix"]["m"][0], b.T @ m @ b, atol=1e-12 * np.abs(m).max())
    np.testing.assert_allclose(ours["inverse_dynamics"]["tau"][0], torque, atol=1e-11 * np.abs(torque).max())
    data.qfrc_applied[:] = np.linalg.solve(b.T, random.uniform(-20, 20, robot.nv))
    mujoco.mj_forward(model, data)
    state["tau"] = (b.T @ data.qfrc_applied)[None]
    qdd = evaluate(trace(robot, "forward_dynamics"), inputs_of("forward_dynamics", state))["qdd"][0]
    expected = np.linalg.solve(b, data.qacc - c)
    np.testing.assert_allclose(qdd, expected, atol=1e-9 * np.abs(expected).max())


def test_what_the_file_says_of_joints(tmp_path: Path) -> None:
    robot = read_mjcf(ARM_MJCF, tmp_path)
    assert (robot.name, robot.gravity) == ("arm", (0.5, 0.0, -9.7))
    assert [link.name for link in robot.links] == ["upper", "sledge.slide", "sledge"]
    shoulder, slide, roll = (link.joint for link in robot.links)
    assert (shoulder.type, slide.type, roll.type) == ("revolute", "prismatic", "continuous")
    np.testing.assert_allclose([shoulder.lower, shoulder.upper], np.radians([-90, 120]))
    assert (shoulder.effort, shoulder.damping, shoulder.armature) == (30.0, 0.4, 0.05)
    assert (slide.lower, slide.upper, roll.damping, roll.lower) == (-0.3, 0.2, 0.0, None)
    # the tool, which has no joint, is part of what carries it
    assert robot.links[2].mass == pytest.approx(1.8)
    names = [(link.name, link.joint.name, link.joint.type) for link in read_mjcf(TREE_MJCF, tmp_path).links]
    assert names[:3] == [
        ("trunk", "root", "floating"),
        ("leg", "hip", "spherical"),
        ("body_3", "joint_2", "continuous"),
    ]


def test_held_joints_are_where_they_are_held(tmp_path: Path) -> None:
    free, held = (
        read_mjcf(ARM_MJCF, tmp_path),
        read_mjcf(ARM_MJCF, tmp_path, lock={"slide": 0.15, "shoulder": 0.3}, gravity=(0, 0, -1)),
    )
    assert (held.nv, held.gravity) == (1, (0.0, 0.0, -1.0))
    m = evaluate(trace(free, "mass_matrix"), {"q": np.array([[0.3, 0.15, 0.7]])})["m"][0, 2, 2]
    np.testing.assert_allclose(evaluate(trace(held, "mass_matrix"), {"q": np.array([[0.7]])})["m"], [[[m]]], rtol=1e-12)


EXTRAS = """<equality><joint joint1="x" joint2="hinge"/></equality><tendon><fixed name="t"><joint joint="x" coef="1"/>
  </fixed></tendon><actuator><motor joint="x"/></actuator></mujoco>"""


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cart.xml"
    path.write_text(CART.replace("</mujoco>", EXTRAS).replace('name="x"', 'name="x" stiffness="3"'))
    message = (
        "cart.xml: left out, being no dynamics of a free tree: tendons 't'; "
        "actuators 'actuator_0' (torques are the joints' own); springs of joints 'x'; contacts"
    )
    with pytest.warns(RobotWarning, match=re.escape(message) + r" \[DG-"):
        assert Robot.from_mjcf(path).nv == 2


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "not XML": ("<mujoco", {}, "robot.xml: MuJoCo refuses it: "),
    "no mass": (
        CART.replace('mass="1"', 'mass="0"'),
        {},
        "MuJoCo refuses it: Error: mass and inertia of moving bodies",
    ),
    "nan": (CART.replace('mass="1"', 'mass="nan"'), {}, "has a NaN among its numbers"),
    "infinite": (
        CART.replace('axis="1 0 0"', 'axis="1e300 0 0"'),
        {},
        "joint 'x' has axis [0.0, 0.0, 0.0]; expected a direction",
    ),
    "negative damping": (CART.replace('axis="1 0 0"', 'axis="1 0 0" damping="-1"'), {}, "joint 'x' has damping -1"),
    "negative": (CART.replace('mass="1"', 'mass="-1"'), {}, "MuJoCo refuses it: "),
    "huge": (CART.replace('mass="1"', 'mass="1e999"'), {}, "MuJoCo refuses it: "),
    "nothing moves": ("<mujoco><worldbody/></mujoco>", {}, "has no moving joint; expected at least one"),
    "negative friction": (CART.replace('name="x"', 'name="x" frictionloss="-2"'), {}, "joint 'x' has friction -2"),
    "lock": (CART, {"lock": {"y": 0.0}}, "lock names joint 'y', which the file does not define"),
    "lock nan": (CART, {"lock": {"x": np.nan}}, "lock of joint 'x' is nan; expected a finite position"),
    "lock free": (
        TREE_MJCF,
        {"lock": {"root": 0.0}},
        "joint 'root' is floating and has no single position to lock it at",
    ),
    "floating base": (CART, {"floating_base": True}, "floating_base= is for URDF; expected a <freejoint/> in the file"),
    "gravity": (CART, {"gravity": (0, 0)}, "gravity=(0, 0); expected three finite numbers"),
    "mesh without masses": (
        CART.replace('type="box" size="0.2 0.1 0.1"', 'type="mesh" mesh="a"').replace(
            "<worldbody>", '<asset><mesh name="a" file="a.obj"/></asset><worldbody>'
        ),
        {},
        "a.obj",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refused(case: str, tmp_path: Path) -> None:
    text, options, message = REFUSED[case]
    with pytest.raises(RobotError, match=re.escape(message)):
        read_mjcf(text, tmp_path, **options)


def test_friction_loss_is_friction(tmp_path: Path) -> None:
    text = CART.replace('name="x"', 'name="x" frictionloss="2"')
    assert read_mjcf(text, tmp_path).links[0].joint.friction == 2.0
    with pytest.warns(RobotWarning) as caught:
        Robot.from_mjcf(tmp_path / "robot.xml")
    assert any("friction of joint 'x' acts with forces=[dynagate.forces.Friction()]" in str(w.message) for w in caught)
    assert read_mjcf(text, tmp_path, ignore_friction=True).links[0].joint.friction == 0.0


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="expected an MJCF file"):
        Robot.from_mjcf(tmp_path / "none.xml")
    with pytest.raises(TypeError, match="unexpected keyword argument 'mass'"):
        read_mjcf(CART, tmp_path, mass=1)


CLOSED = """<mujoco model="closed"><compiler angle="radian"/><option {option}/>
  <worldbody>
    <body name="crank"><joint name="crank" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
      <body name="coupler" pos="0.3 0 0"><joint name="coupler" axis="0 1 0" range="-2 2"/>
        <geom type="capsule" fromto="0 0 0 0.8 0 0" size="0.02" mass="1"/><site name="tip" pos="0.8 0 0"/></body></body>
    <body name="rocker" pos="0.9 0 0"><joint name="rocker" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.02" mass="0.8"/><site name="eye" pos="0.5 0 0"/></body>
    <body name="bob" pos="0 1 0"><joint name="swing" axis="1 0 0"/><joint name="twist" axis="0 0 1"/>
      <geom type="box" size="0.05 0.1 0.2" pos="0 0 -0.3" mass="0.7"/>
      <body name="tail" pos="0 0 -0.5"><joint name="ball" type="ball"/>
        <geom type="box" size="0.1 0.05 0.2" pos="0.1 0 -0.2" mass="0.4"/></body></body>
    <body name="other" pos="0 2 0"><joint name="a" axis="1 0 0"/><joint name="b" axis="0 1 0"/>
      <geom type="box" size="0.1 0.05 0.2" pos="0 0 -0.2" mass="0.6"/></body>
    <body name="arm" pos="0 3 0"><joint name="cam" axis="1 0 0" ref="0.3"/><joint name="shaft" axis="0 1 0" ref="-0.2"/>
      <joint name="stuck" type="slide" axis="0 0 1" ref="0.3"/>
      <geom type="box" size="0.1 0.05 0.2" pos="0 0 -0.2" mass="0.6"/></body>
  </worldbody>
  <equality>{loop}
    <weld name="stay" body1="tail" body2="other" anchor="0 0 -0.3" solref="0.1 0.7" solimp="0.9999 0.9999 0.1"/>
    <joint name="geared" joint1="cam" joint2="shaft" polycoef="0.1 1.4 0.3 -0.2 0.05" solref="0.05 1" {geared}/>
    <joint name="held" joint1="stuck" polycoef="0.2 3 4 5 6" solref="-400 -30"/>
    <connect name="spare" body1="crank" body2="bob" anchor="0 0 0" active="false"/>
  </equality></mujoco>"""
SITES = '<connect name="pin" site1="tip" site2="eye" solref="0.05 1"/>'
FORWARD = "constrained_forward_dynamics"


def closed_model(folder: Path, loop: str = SITES, option: str = 'solver="Newton" tolerance="0"') -> tuple[Robot, Any]:
    text = CLOSED.format(loop=loop, option=option, geared="")
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return read_mjcf(text, folder), model


def test_equality_is_loops(tmp_path: Path) -> None:
    """At rest and closed: MuJoCo leaves the change of J out."""
    robot, model = closed_model(tmp_path)
    assert [own.text for own in robot.constraints] == [
        "loop from 'pin_1' to 'pin_2'",
        "loop from 'stay_1' to 'stay_2'",
        "equality of joint 'cam' with 'shaft'",
        "equality of joint 'stuck'",
    ]
    assert [own.kind for own in robot.constraints] == ["point", "fixed", "joints", "joints"]
    assert (robot.constraints[3].polynomial, robot.constraints[3].rows) == ((0.2 + 0.3,), 1)
    state = Region.of(robot, velocity=1.0).sample(FORWARD, 4, 1)
    state["qd"][:] = 0.0
    state["active"][:] = 1.0
    result = evaluate(trace(robot, FORWARD), state)
    free = evaluate(trace(robot, "forward_dynamics"), {name: state[name] for name in ("q", "qd", "tau")})["qdd"]
    data = mujoco.MjData(model)
    for q, tau, qdd, without in zip(state["q"], state["tau"], result["qdd"], free, strict=True):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = in_mujoco(robot, q, np.zeros(robot.nv))[0], 0.0, tau
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(data.efc_pos, 0.0, atol=1e-6)
        np.testing.assert_allclose(qdd, data.qacc, atol=1e-3 * np.abs(data.qacc).max())
        assert np.abs(qdd - without).max() > 0.1 * np.abs(qdd).max()


def test_equality_that_is_no_loop_is_named(tmp_path: Path) -> None:
    path = tmp_path / "closed.xml"
    text = CLOSED.format(loop=SITES, option="", geared='active="false"')
    path.write_text(text)
    with pytest.warns(RobotWarning, match=re.escape("equality constraints 'geared' (not active), 'spare' (not act")):
        Robot.from_mjcf(path)
    with pytest.warns(RobotWarning, match=re.escape("equality constraint 'held' (its first joint is held)")):
        robot = Robot.from_mjcf(path, lock={"stuck": 0.5})
    with pytest.warns(RobotWarning, match=re.escape("equality constraint 'pin' (between places of one link)")):
        robot = Robot.from_mjcf(path, lock={"rocker": 0.0, "crank": 0.0, "coupler": 0.0})
    assert [own.frame for own in robot.constraints] == ["stay_1", "stuck"]
    path.write_text(text.replace('site name="eye"', 'site name="pin_1"').replace("eye", "pin_1"))
    with pytest.raises(RobotError, match="equality constraint 'pin' needs frames 'pin_1' and 'pin_2', a name of which"):
        Robot.from_mjcf(path)
    path.write_text(text.replace("<option />", '<option><flag equality="disable"/></option>'))
    assert read_mjcf(path.read_text(), tmp_path).constraints == ()
