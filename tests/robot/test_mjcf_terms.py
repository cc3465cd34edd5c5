"""What an MJCF's flags, actuators, tendons and free joints do to the dynamics: as MuJoCo has it, or named."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, evaluate, trace
from dynagate.robot.mjcf_model import compiled
from dynagate.robot.mjcf_terms import Terms

mujoco = pytest.importorskip("mujoco")

CRANE = """<mujoco><option density="0" gravity="0.3 0 -9.6">{flag}</option><default><geom contype="0"/></default>
  <worldbody><body name="tower" euler="0 20 0"><joint name="turn" axis="0.1 0.2 1" damping="0.7" {turn}/>
    <geom type="capsule" fromto="0 0 0 0.3 0 .8" size=".05" mass="3"/><site name="low" pos="0.1 0 0.3"/>
    <body name="boom" pos="0.3 0 .8"><joint name="reach" type="slide" axis="1 0 0.4" {reach}/>
      <geom type="box" size="0.4 0.05 0.1" mass="1.3"/><site name="high" pos="0.2 0.1 0"/>
      <body name="hook" pos="0.4 0 0" {hook}><joint name="swing" axis="0 1 0" damping="0.2"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.5" size=".02" mass="0.4"/></body></body></body></worldbody>
  {after}</mujoco>"""


def crane(**parts: str) -> str:
    return CRANE.format(**{"flag": "", "turn": "", "reach": "", "hook": "", "after": "", **parts})


def actuators(text: str) -> str:
    return crane(after=f"<actuator>{text}</actuator>")


def read(text: str, folder: Path) -> tuple[Robot, list[str]]:
    """The robot, and the warnings of what is left out."""
    path = folder / "crane.xml"
    path.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = Robot.from_mjcf(path)
    return robot, [str(warning.message) for warning in caught]


def state_of(robot: Robot, seed: int = 7) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"q": random.uniform(-1, 1, (1, robot.nq)), "qd": random.normal(size=(1, robot.nv))}


READ = {
    "no gravity": crane(flag='<flag gravity="disable"/>'),
    "no dampers": crane(flag='<flag damper="disable"/>'),
    "no springs": crane(flag='<flag spring="disable"/>', turn='stiffness="3" springref="20"'),
    "no gravity to compensate": crane(flag='<flag gravity="disable"/>', hook='gravcomp="1"'),
    "rotor behind a gear": actuators('<motor joint="turn" gear="50" armature="0.02"/>'),
    "two rotors": crane(
        turn='armature="0.3"',
        after='<actuator><motor joint="turn" gear="-5" armature=".02"/><motor joint="turn" armature=".1"/></actuator>',
    ),
    "rotor of a slide": actuators('<general joint="reach" gear="7" armature="0.03"/>'),
    "rotor and damper in the parent": actuators('<motor jointinparent="swing" gear="2" armature=".1" damping=".4"/>'),
    "damper behind a gear": actuators('<motor joint="swing" gear="3" damping="0.5"/>'),
    "no damper behind a gear": crane(
        flag='<flag damper="disable"/>', after='<actuator><motor joint="swing" gear="3" damping="0.5"/></actuator>'
    ),
}


@pytest.mark.parametrize("case", READ)
def test_read_as_mujoco_does(case: str, tmp_path: Path) -> None:
    robot, said = read(READ[case], tmp_path)
    assert not [text for text in said if "actuators" not in text]
    model = mujoco.MjModel.from_xml_string(READ[case])
    data = mujoco.MjData(model)
    state = state_of(robot)
    data.qpos[:], data.qvel[:] = state["q"][0], state["qd"][0]
    data.qfrc_applied[:] = tau = np.array([0.4, -0.7, 0.2])
    mujoco.mj_forward(model, data)
    m = np.zeros((3, 3))
    mujoco.mj_fullM(model, data, m)
    ours = evaluate(trace(robot, "mass_matrix"), {"q": state["q"]})["m"][0]
    np.testing.assert_allclose(ours, m, atol=1e-12 * np.abs(m).max())
    qdd = evaluate(trace(robot, "forward_dynamics"), {**state, "tau": tau[None]})["qdd"][0]
    np.testing.assert_allclose(qdd, data.qacc, atol=1e-10 * np.abs(data.qacc).max())


def test_friction_that_is_disabled(tmp_path: Path) -> None:
    for flag in ("frictionloss", "constraint"):
        robot, said = read(crane(flag=f'<flag {flag}="disable"/>', turn='frictionloss="2"'), tmp_path)
        assert (robot.links[0].joint.friction, said) == (0.0, [])


TENDON = '<tendon><spatial name="rope" {}><site site="low"/><site site="high"/></spatial></tendon>'
NAMED = {
    "armature of a tendon": (crane(after=TENDON.format('armature="2"')), "tendons 'rope' (armature)"),
    "forces of a tendon": (
        crane(after=TENDON.format('stiffness="5" damping="2" frictionloss="1"')),
        "tendons 'rope' (stiffness, damping, frictionloss)",
    ),
    "rotor of a tendon": (
        crane(after=TENDON.format("") + '<actuator><motor name="winch" tendon="rope" armature="1"/></actuator>'),
        "armature and damping of actuators 'winch' that drive no hinge or slide; tendons 'rope'; actuators 'winch'",
    ),
    "growing damping": (
        crane(turn='damping="1 2"').replace('damping="0.7" ', ""),
        "grows with speed, of joints 'turn'",
    ),
    "growing damping of an actuator": (
        actuators('<motor name="m" joint="turn" damping="1 2"/>'),
        "damping that grows with speed, of actuators 'm'",
    ),
    "springs": (crane(turn='stiffness="3"', reach='stiffness="4"'), "springs of joints 'turn', 'reach'"),
    "compensated gravity": (crane(hook='gravcomp="1"'), "compensated gravity of bodies 'hook'"),
    "many": (
        actuators("".join(f'<motor name="m{k}" joint="turn"/>' for k in range(7))),
        "actuators 'm0', 'm1', 'm2', 'm3' and 3 more (torques are the joints' own)",
    ),
}


@pytest.mark.parametrize("case", NAMED)
def test_left_out_by_name(case: str, tmp_path: Path) -> None:
    text, message = NAMED[case]
    (warning,) = read(text, tmp_path)[1]
    assert warning.startswith("crane.xml: left out, being no dynamics of a free tree: ")
    assert message in warning


FREE = """<mujoco><option gravity="0 0 -9"/><worldbody><body name="block">
  <joint name="base" type="free" armature="1" frictionloss="2" damping="0.5"/>
  <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/></body></worldbody></mujoco>"""


def test_a_free_joint_has_no_rotor(tmp_path: Path) -> None:
    """Its armature would be a mass without weight, along the world's axes."""
    robot, (warning,) = read(FREE.replace('damping="0.5"', ""), tmp_path)
    assert "armature of free joints 'base' (a mass without weight); friction of free joints 'base'" in warning
    assert (robot.links[0].joint.armature, robot.links[0].joint.friction) == (0.0, 0.0)
    moving = {"q": np.array([[0, 0, 0, 0, 0, 0, 1.0]]), "qd": np.array([[1.0, 0, 0, 0, 0, 2]]), "tau": np.zeros((1, 6))}
    qdd = evaluate(trace(robot, "forward_dynamics"), moving)["qdd"]
    np.testing.assert_allclose(qdd, [[0, -2, -9, 0, 0, 0]], atol=1e-14)


def test_the_callers_gravity_counts_whatever_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "crane.xml"
    path.write_text(crane(flag='<flag gravity="disable"/>'))
    assert Robot.from_mjcf(path).gravity == (0.0, 0.0, 0.0)
    assert Robot.from_mjcf(path, gravity=(0, 0, -1)).gravity == (0.0, 0.0, -1.0)


def test_a_lock_keeps_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "crane.xml"
    path.write_text(
        actuators('<motor joint="turn" gear="2" armature="1"/><motor joint="swing" gear="3" armature="1"/>')
    )
    with pytest.warns(RobotWarning, match=re.escape("actuators 'actuator_0', 'actuator_1' (torques")):
        held = Robot.from_mjcf(path, lock={"turn": 0.2})
    assert [link.joint.armature for link in held.links] == [0.0, 9.0]


ON_ACTUATORS = """<mujoco model="m"><worldbody><body name="hand" mocap="true"/>
<body name="a"><joint name="j" axis="0 1 0" actuatorfrcrange="-5 10"/>
<inertial pos="0.1 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
<actuator><position name="servo" joint="j" kp="100" dampratio="1"/></actuator>
<equality><weld name="hold" body1="a" body2="hand" solref="{}"/></equality></mujoco>"""


def test_servos_uneven_forces_and_mocap_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_text(ON_ACTUATORS.format("0.02 1"))
    with pytest.warns(RobotWarning) as caught:
        robot = Robot.from_mjcf(path)
    text = " ".join(str(each.message) for each in caught)
    kv = 2.0 * np.sqrt(100.0 * 1.01)  # dampratio 1 with the inertia about the joint
    assert f"stiffness and damping of actuators 'servo' (kp 100, kv {kv:g})" in text
    assert "the larger bound of the force of joints 'j' (-5 to 10, read as effort 5)" in text
    assert "the motion of mocap bodies in 'hold'" in text
    assert robot.effort.tolist() == [5.0]
    path.write_text(ON_ACTUATORS.format("0.02 0"))
    with pytest.raises(RobotError, match="equality 'hold' has solref 0.02 0; expected a damping ratio above 0"):
        Robot.from_mjcf(path)


def test_a_plugin_of_a_body_is_named(tmp_path: Path) -> None:
    """MuJoCo's own plugins of bodies, such as the cable, are not in its later releases, so the number is set here."""
    path = tmp_path / "crane.xml"
    path.write_text(crane())
    model = compiled(path)
    assert not any("plugins" in text for text in Terms(model).left_out)
    model.body_plugin[-1] = 0
    assert f"plugins of bodies '{model.body(model.nbody - 1).name}'" in Terms(model).left_out
