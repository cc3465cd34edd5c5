"""URDF reading: what a file means, and what each bad file is told."""

from __future__ import annotations

import contextlib
import inspect
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, robots
from dynagate.robot.options import ReadingOptions
from dynagate.robot.urdf import read_urdf
from hypothesis import given, settings
from hypothesis import strategies as st

ARM = robots.path("two_joint_arm").read_text()


def read(text: str, folder: Path, **options: Any) -> Robot:
    path = folder / "robot.urdf"
    path.write_text(text)
    return Robot.from_urdf(path, **options)


def changed(*pairs: tuple[str, str]) -> str:
    text = ARM
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def test_reads_the_arm() -> None:
    robot = robots.load("two_joint_arm")
    assert robot.name == "two_joint_arm"
    assert [link.name for link in robot.links] == ["upper_arm", "forearm"]
    assert robot.parents == (-1, 0)
    joint = robot.links[1].joint
    assert (joint.name, joint.type, joint.axis) == ("elbow", "revolute", (0.0, 1.0, 0.0))
    assert (joint.lower, joint.upper, joint.velocity, joint.effort) == (-2.6, 2.6, 5.0, 30.0)
    assert joint.translation == (0.0, 0.0, 0.5)
    assert robot.links[0].first_moment() == (0.0, 0.0, 0.5)


def test_links_of_a_branch_are_numbered_together() -> None:
    assert robots.load("hyq").parents == (-1, 0, 1, -1, 3, 4, -1, 6, 7, -1, 9, 10)


def test_options_are_those_of_the_reader() -> None:
    assert set(ReadingOptions.__annotations__) == set(inspect.signature(read_urdf).parameters) - {"path", "expanded"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'lock_joints'"):
        robots.load("iiwa14", lock_joints={})  # type: ignore[call-arg]


def test_robot_is_immutable_and_comparable() -> None:
    robot = robots.load("iiwa14")
    assert robot == robots.load("iiwa14")
    assert hash(robot) == hash(robots.load("iiwa14"))
    with pytest.raises(AttributeError):
        robot.name = "other"  # type: ignore[misc]


def test_fixed_link_is_merged_by_mass(tmp_path: Path) -> None:
    bolt = """<joint name="bolt" type="fixed"><parent link="forearm"/><child link="tool"/>
      <origin xyz="0 0 0.4"/></joint>
      <link name="tool"><inertial><origin xyz="0.1 0 0"/><mass value="0.8"/>
      <inertia ixx="0.001" iyy="0.002" izz="0.003" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    robot = read(changed(("</robot>", bolt)), tmp_path)
    link = robot.links[1]
    assert robot.nv == 2
    assert link.mass == pytest.approx(2.0)
    np.testing.assert_allclose(link.com, [0.04, 0.0, (1.2 * 0.18 + 0.8 * 0.4) / 2.0])
    # parallel axes, by hand: two points about their common center, plus both inertias
    offset = np.array([0.1, 0.0, 0.4 - 0.18])
    reduced = 1.2 * 0.8 / 2.0
    expected = reduced * (offset @ offset * np.eye(3) - np.outer(offset, offset)) + np.diag([0.018, 0.019, 0.0038])
    np.testing.assert_allclose(link.inertia, expected, atol=1e-12)


def test_continuous_joint_has_no_position_limits(tmp_path: Path) -> None:
    robot = read(changed(('name="elbow" type="revolute"', 'name="elbow" type="continuous"')), tmp_path)
    assert robot.links[1].joint.lower is None


def test_axis_is_normalized(tmp_path: Path) -> None:
    robot = read(changed(('<axis xyz="0 1 0"/>', '<axis xyz="0 3 4"/>')), tmp_path)
    assert robot.links[0].joint.axis == pytest.approx((0.0, 0.6, 0.8))


INERTIAL = """    <inertial>
      <origin xyz="0 0 0.18"/>
      <mass value="1.2"/>
      <inertia ixx="0.017" iyy="0.017" izz="0.0008" ixy="0" ixz="0" iyz="0"/>
    </inertial>
"""
BACK_TO_BASE = '<joint name="j" type="fixed"><parent link="forearm"/><child link="base"/></joint></robot>'
BAD = {
    "not xml": ("this is no XML", "not well-formed XML"),
    "truncated": (ARM[:-20], "not well-formed XML"),
    "other root": ("<model/>", "root element is <model>; expected <robot>"),
    "entities": ('<!DOCTYPE robot [<!ENTITY a "b">]><robot name="&a;"/>', "document type declaration"),
    "empty": ('<robot name="r"/>', "has no <link>; expected at least one"),
    "no joint": ('<robot name="r"><link name="a"/></robot>', "robot 'r' has no moving joint"),
    "loop": (
        changed(
            ("</robot>", '<joint name="j" type="fixed"><parent link="forearm"/><child link="base"/></joint></robot>')
        ),
        "'elbow', 'j', 'shoulder' form a loop; expected a tree with one root link",
    ),
    "closed chain": (
        changed(
            ("</robot>", '<joint name="j" type="fixed"><parent link="base"/><child link="forearm"/></joint></robot>')
        ),
        "link 'forearm' is the child of joints 'elbow' and 'j': a loop; expected a tree",
    ),
    "loop beside the tree": (
        changed(
            (
                "</robot>",
                '<link name="x"/><link name="y"/>'
                '<joint name="j" type="fixed"><parent link="x"/><child link="y"/></joint>'
                '<joint name="k" type="fixed"><parent link="y"/><child link="x"/></joint></robot>',
            )
        ),
        "links 'x', 'y' form a loop away from the root 'base'; expected a tree",
    ),
    "two roots": (changed(("</robot>", '<link name="x"/></robot>')), "has 2 root links ('base', 'x'); expected one"),
    "unknown type": (
        changed(('name="elbow" type="revolute"', 'name="elbow" type="hinge"')),
        "joint 'elbow' has type 'hinge'; supported: revolute, continuous, prismatic, spherical, floating, fixed",
    ),
    "no type": (
        changed(('name="elbow" type="revolute"', 'name="elbow"')),
        "joint 'elbow': <joint> has no attribute 'type'",
    ),
    "no inertial": (changed((INERTIAL, "")), "link 'forearm' moves but has no mass, nor has any link"),
    "no mass": (changed(('<mass value="1.2"/>', "")), "link 'forearm' has an <inertial> without <mass value=>"),
    "zero mass": (
        changed(('value="1.2"', 'value="0"')),
        "link 'forearm' has mass 0 kg; a moving link needs a positive",
    ),
    "negative mass": (changed(('value="1.2"', 'value="-1.2"')), "link 'forearm' has mass -1.2 kg"),
    "no inertia": (
        changed(('<inertia ixx="0.017" iyy="0.017" izz="0.0008" ixy="0" ixz="0" iyz="0"/>', "")),
        "link 'forearm' has an <inertial> without <inertia",
    ),
    "missing entry": (changed(('ixx="0.017" ', "")), "link 'forearm': <inertia> has no attribute 'ixx'"),
    "zero inertia": (changed(('izz="0.0008"', 'izz="0"')), "link 'forearm' has principal moments of inertia"),
    "negative inertia": (changed(('ixx="0.017"', 'ixx="-0.017"')), "all must be positive"),
    "zero axis": (changed(('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>')), "joint 'shoulder' has axis [0.0, 0.0, 0.0]"),
    "short axis": (changed(('<axis xyz="0 1 0"/>', '<axis xyz="0 1"/>')), "joint 'shoulder': <axis xyz='0 1'>"),
    "words": (changed(('value="1.2"', 'value="heavy"')), "<mass value='heavy'> is not made of numbers"),
    "nan": (changed(('value="1.2"', 'value="nan"')), "<mass value='nan'>; expected 1 finite number(s)"),
    "no limits": (
        changed(('<limit lower="-2.6" upper="2.6" velocity="5.0" effort="30"/>', "")),
        "joint 'elbow' is revolute but has no <limit lower= upper=>",
    ),
    "crossed limits": (changed(('lower="-2.6"', 'lower="2.7"')), "joint 'elbow' has limits [2.7, 2.6]"),
    "negative velocity": (changed(('velocity="5.0"', 'velocity="-5"')), "joint 'elbow' has a negative velocity limit"),
    "friction": (
        changed(("<axis", '<dynamics friction="-0.1"/><axis')),
        "joint 'shoulder' has friction -0.1; expected 0 or more",
    ),
    "negative damping": (changed(("<axis", '<dynamics damping="-1"/><axis')), "joint 'shoulder' has damping -1"),
    "mimic": (
        changed(("<axis", '<mimic joint="hip"/><axis')),
        "joint 'shoulder' mimics joint 'hip', which the file does",
    ),
    "unknown link": (
        changed(('<child link="forearm"/>', '<child link="hand"/>')),
        "joint 'elbow' has child link 'hand'",
    ),
    "no parent": (changed(('<parent link="upper_arm"/>', "")), "joint 'elbow' has no <parent link=>"),
    "same name": (changed(('<link name="forearm">', '<link name="base">')), "a second <link> is named 'base'"),
    "no name": (changed(('<link name="forearm">', "<link>")), "a <link> has no name"),
}


BAD |= {
    "asymmetric name": (
        changed(('<joint name="elbow"', '<joint name="shoulder"')),
        "a second <joint> is named 'shoulder'",
    ),
    "unknown joint": (
        changed(('name="elbow" type="revolute"', 'name="elbow" type="gear"')),
        "has type 'gear'; supported: revolute, continuous, prismatic, spherical, floating, fixed, planar, universal",
    ),
    "triangle": (changed(('ixx="0.017"', 'ixx="0.5"')), "which no body has: the largest exceeds the sum of the others"),
    "infinite mass": (changed(('value="1.2"', 'value="inf"')), "expected 1 finite number(s)"),
    "short origin": (changed(('<origin xyz="0 0 0.5"/>', '<origin xyz="0 0"/>')), "joint 'elbow': <origin xyz='0 0'>"),
    "worded origin": (changed(('<origin xyz="0 0 0.5"/>', '<origin xyz="0 0 up"/>')), "is not made of numbers"),
    "two masses": (changed(('value="1.2"', 'value="1 2"')), "<mass value='1 2'>; expected 1 finite number(s)"),
    "slide without limits": (
        changed(
            ('name="elbow" type="revolute"', 'name="elbow" type="prismatic"'),
            ('<limit lower="-2.6" upper="2.6" velocity="5.0" effort="30"/>', ""),
        ),
        "joint 'elbow' is prismatic but has no <limit lower= upper=> in m",
    ),
    "negative fixed mass": (
        changed(
            (
                "</robot>",
                '<joint name="j" type="fixed"><parent link="forearm"/><child link="t"/></joint>'
                '<link name="t"><inertial><mass value="-1"/>'
                '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link></robot>',
            )
        ),
        "link 't' has mass -1 kg; expected 0 or more",
    ),
}


TWICE = [
    "<parent link='base'/>",
    "<child link='forearm'/>",
    "<axis xyz='0 1 0'/>",
    "<origin/>",
    "<limit/>",
    "<dynamics/>",
]
BAD |= {
    f"two of {tag}": (
        changed(("<axis", f"{tag}{tag}<axis")),
        f"joint 'shoulder' has .* <{tag[1:].split()[0].strip('/>')}>",
    )
    for tag in TWICE
}
BAD |= {
    "two inertials": (changed((INERTIAL, INERTIAL * 2)), r"link 'forearm' has 2 <inertial> \(line \d+\); expected one"),
    "two masses named": (
        changed(('<mass value="1.2"/>', '<mass value="1"/><mass value="2"/>')),
        "'forearm' has 2 <mass>",
    ),
    "underscores": (changed(('value="1.2"', 'value="1_0"')), "<mass value='1_0'> is not made of numbers"),
    "Arabic digits": (changed(('value="1.2"', 'value="١٢"')), "<mass value='١٢'> is not made of numbers"),
    "full-width digits": (changed(('value="1.2"', 'value="１"')), "<mass value='１'> is not made of numbers"),
    "subnormal": (changed(('izz="0.0008"', 'izz="1e-320"')), "<inertia izz='1e-320'> is too small for a float"),
    "tiny": (
        changed(('ixx="0.017" iyy="0.017" izz="0.0008"', 'ixx="1e-200" iyy="1e-200" izz="1e-200"')),
        "link 'forearm' has mass 1.2 kg and moments of inertia up to 1e-200 kg m²; expected 1e-100 or more",
    ),
    "macro": (changed(('value="1.2"', 'value="${mass}"')), "is a macro; expected a file that xacro has expanded"),
}


def test_there_are_fifty_bad_files() -> None:
    assert len(BAD) >= 50


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_fuzzed_file_is_read_or_refused(data: st.DataObject) -> None:
    """Cut, doubled or swapped pieces of a good file: a robot or a RobotError, never anything else."""
    pieces = ARM.split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        k = data.draw(st.integers(0, len(pieces) - 1))
        change = data.draw(st.sampled_from(["cut", "double", "digit", "quote", "swap"]))
        if change == "cut":
            pieces[k] = ""
        elif change == "double":
            pieces[k] += pieces[k]
        elif change == "digit":
            pieces[k] = pieces[k].replace("0", data.draw(st.sampled_from(["-", "9e999", "x", "0 0", ""])), 1)
        elif change == "quote":
            pieces[k] = pieces[k].replace('"', "", 1)
        else:
            j = data.draw(st.integers(0, len(pieces) - 1))
            pieces[j], pieces[k] = pieces[k], pieces[j]
    with TemporaryDirectory() as folder, contextlib.suppress(RobotError):
        assert read("\n".join(pieces), Path(folder)).nv >= 1


@pytest.mark.parametrize("case", list(BAD))
def test_bad_file_is_refused_with_its_fault(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    with pytest.raises(RobotError) as caught:
        read(text, tmp_path)
    assert str(caught.value).startswith("robot.urdf: ")
    assert message in str(caught.value) or re.search(message, str(caught.value))


def test_floating_and_spherical_joints_are_read(tmp_path: Path) -> None:
    for kind, size in (("floating", (8, 7)), ("spherical", (5, 4))):
        robot = read(changed(('name="elbow" type="revolute"', f'name="elbow" type="{kind}"')), tmp_path)
        assert robot.links[1].joint.type == kind
        assert (robot.nq, robot.nv) == size
        with pytest.raises(RobotError, match=f"joint 'elbow' is {kind} and has no single position to lock it at"):
            Robot.from_urdf(tmp_path / "robot.urdf", lock={"elbow": 0.0})


def test_floating_base_is_the_root_link_on_a_floating_joint(tmp_path: Path) -> None:
    robot = robots.load("hyq", floating_base=True)
    assert (robot.links[0].name, robot.links[0].joint.name, robot.links[0].joint.type) == (
        "trunk",
        "root_joint",
        "floating",
    )
    assert robot.parents == (-1, 0, 1, 2, 0, 4, 5, 0, 7, 8, 0, 10, 11)
    assert (robot.nq, robot.nv) == (19, 18)
    renamed = read(ARM.replace("elbow", "root_joint").replace("shoulder", "root_joint_2"), tmp_path, floating_base=True)
    assert [link.joint.name for link in renamed.links] == ["root_joint_3", "root_joint_2", "root_joint"]


def test_a_frame_without_mass_takes_that_of_what_is_bolted_to_it(tmp_path: Path) -> None:
    """A root like base_link above a trunk, as many files have it."""
    bolt = '<joint name="bolt" type="fixed"><parent link="frame"/><child link="trunk"/></joint>'
    text = (
        robots.path("hyq").read_text().replace('<link name="trunk">', f'<link name="frame"/>{bolt}<link name="trunk">')
    )
    path = tmp_path / "robot.urdf"
    path.write_text(text)
    robot, plain = Robot.from_urdf(path, floating_base=True), robots.load("hyq", floating_base=True)
    assert (robot.links[0].name, robot.links[0].mass) == ("frame", plain.links[0].mass)
    assert robot.links[1:] == plain.links[1:]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match=f"arm.urdf: no such file in {tmp_path}; expected a URDF file"):
        Robot.from_urdf(tmp_path / "arm.urdf")


def test_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.urdf"
    with path.open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(RobotError, match="a URDF file of more than 16777216 bytes is refused"):
        Robot.from_urdf(path)


def test_unknown_shipped_robot_lists_the_names() -> None:
    with pytest.raises(RobotError, match="no shipped robot 'atlas'; expected one of hyq, iiwa14, two_joint_arm"):
        robots.load("atlas")


FINGER = """<joint name="finger_{k}" type="revolute"><parent link="forearm"/><child link="tip_{k}"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1"/>{inside}</joint>
  <link name="tip_{k}"><inertial><mass value="0.1"/>
  <inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


def with_fingers(*inside: str) -> str:
    fingers = [FINGER.format(k=k, inside=text) for k, text in enumerate(inside)]
    return ARM.replace("</robot>", "".join(fingers) + "</robot>")


LIMIT = '<limit lower="-2.6" upper="2.6" velocity="5.0" effort="30"/>'
ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "friction": (changed(("<axis", '<dynamics friction="-0.1"/><axis')), {"ignore_friction": True}),
    "mimic": (with_fingers('<mimic joint="hip" offset="0.2"/>'), {"lock": {"finger_0": 0.0}}),
    "unphysical": (changed(('ixx="0.017"', 'ixx="0.5"')), {"allow_unphysical": True}),
    "negative mass": (changed(('value="1.2"', 'value="-1.2"')), {"allow_unphysical": True}),
    "mass missing beyond": (changed((INERTIAL, "")), {"lock": {"elbow": 0.0}}),
    "no limits": (changed((LIMIT, "")), {"unlimited": True}),
    "crossed limits": (changed(('lower="-2.6"', 'lower="2.7"')), {"unlimited": True}),
    "one position": (changed(('lower="-2.6" upper="2.6"', 'lower="0.3" upper="0.3"')), {"lock": {"elbow": 0.3}}),
    "negative speed": (changed(('velocity="5.0"', 'velocity="-5"')), {"unlimited": True}),
    "slide without limits": (
        changed(('name="elbow" type="revolute"', 'name="elbow" type="prismatic"'), (LIMIT, "")),
        {"unlimited": True},
    ),
    "nothing moves": (
        '<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" '
        'iyz="0"/></inertial></link></robot>',
        {"floating_base": True},
    ),
}


@pytest.mark.parametrize("case", list(ACCEPTED))
def test_a_refusal_names_the_option_that_accepts_the_file(case: str, tmp_path: Path) -> None:
    text, options = ACCEPTED[case]
    with pytest.raises(RobotError) as caught:
        read(text, tmp_path)
    ((name, value),) = options.items()
    held = " ".join(f"--lock {joint}={position}" for joint, position in value.items()) if name == "lock" else ""
    assert caught.value.text.endswith(f"; to read it, add {name}={value} ({held or '--' + name.replace('_', '-')})")
    assert read(text, tmp_path, **options).nv >= 1


def test_all_faults_are_listed_with_what_accepts_them(tmp_path: Path) -> None:
    text = with_fingers('<mimic joint="hip"/>', '<mimic joint="finger_1"/>', '<dynamics friction="-2"/>')
    text = text.replace('ixx="0.017"', 'ixx="0.5"')
    with pytest.raises(RobotError) as caught:
        read(text, tmp_path, lock={"shoulder": 0.5})
    first, *lines = caught.value.text.split("\n")
    assert first == "robot.urdf: 4 errors:"
    for line, start in zip(
        lines,
        [
            "  joint 'finger_0' mimics joint 'hip', which the file does not define",
            "  joint 'finger_1' mimics a joint that mimics it in turn",
            "  joint 'finger_2' has friction -2",
            "  link 'forearm' has principal moments of inertia",
            "to read it, add lock={'shoulder': 0.5, 'finger_0': 0.0, 'finger_1': 0.0}, ignore_friction=True",
            "on the command line --lock shoulder=0.5 --lock finger_0=0.0 --lock finger_1=0.0 --ignore-friction",
        ],
        strict=True,
    ):
        assert line.startswith(start)
    options = eval(f"dict({lines[4].removeprefix('to read it, add ')})")
    assert [link.name for link in read(text, tmp_path, **options).links] == ["forearm", "tip_2"]


def test_a_world_that_is_not_defined_is_the_base(tmp_path: Path) -> None:
    text = ARM.replace('<link name="base"/>', "").replace('<parent link="base"/>', '<parent link="world"/>')
    with pytest.warns(RobotWarning, match="robot.urdf: link 'world' is not defined and taken for the base"):
        robot = read(text, tmp_path)
    assert robot.links == robots.load("two_joint_arm").links
    with pytest.raises(RobotError, match="which the file does not define, as the base that floating_base=True frees"):
        read(text, tmp_path, floating_base=True)


def test_limits_that_leave_nothing_to_move_are_none(tmp_path: Path) -> None:
    text = re.sub('lower="[^"]*" upper="[^"]*"', 'lower="0" upper="0"', ARM)
    with pytest.raises(RobotError, match=r"2 errors:(?s:.*)to read it, add unlimited=True\n"):
        read(text, tmp_path)
    assert read(text, tmp_path, unlimited=True).nv == 2


def test_no_more_than_ten_faults_are_shown(tmp_path: Path) -> None:
    with pytest.raises(RobotError) as caught:
        read(with_fingers(*['<dynamics friction="-1"/>'] * 12), tmp_path)
    assert len(re.findall("has friction -1", str(caught.value))) == 10
    assert "\n  and 2 more\nto read it, add ignore_friction=True\n" in str(caught.value)


def test_faults_without_an_option_are_told_apart(tmp_path: Path) -> None:
    text = changed(('value="1.2"', 'value="heavy"'), ("<axis", '<dynamics friction="-0.1"/><axis'))
    with pytest.raises(
        RobotError, match=r"heavy'> is not made of numbers.*\nto accept the others, add ignore_friction=True"
    ):
        read(text, tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gravity": (0.0, 0.0, float("nan"))}, "gravity=(0.0, 0.0, nan); expected three finite numbers in m/s²"),
        ({"gravity": (0.0, float("inf"), 0.0)}, "expected three finite numbers"),
        ({"gravity": 9.81}, "gravity=9.81; expected three finite numbers in m/s²"),
        ({"lock": {"elbow": float("inf")}}, "lock of joint 'elbow' is inf; expected a finite position in rad or m"),
        ({"lock": {"elbow": "up"}}, "lock of joint 'elbow' is 'up'; expected a finite position"),
        ({"round_rotations": -1e-9}, "round_rotations=-1e-09; expected 0 to 0.002 rad"),
        ({"round_rotations": 0.1}, "round_rotations=0.1; expected 0 to 0.002 rad"),
        ({"round_rotations": float("nan")}, "round_rotations=nan; expected 0 to 0.002 rad"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RobotError) as caught:
        robots.load("two_joint_arm", **options)
    assert message in str(caught.value)


BODY = ARM.removeprefix('<?xml version="1.0"?>\n')
LAX = {
    "version 0.0": ('<?xml version="0.0"?>' + BODY, "an XML declaration of an unknown version"),
    "no version": ("<?xml ?>" + BODY, "an XML declaration without a version"),
    "late declaration": ("\n" + ARM, "an XML declaration that is not at the start"),
    "prefix": (changed(("</robot>", "<sensor:camera/></robot>")), "names with an undeclared prefix"),
    "two roots": (ARM + "<robot name='other'/>", "what comes after the root element"),
}


@pytest.mark.parametrize("case", list(LAX))
def test_lax_overlooks_what_loses_nothing_of_the_robot(case: str, tmp_path: Path) -> None:
    text, overlooked = LAX[case]
    with pytest.raises(RobotError, match=r"robot.urdf: not well-formed XML: .*; lax=True \(--lax\) overlooks that"):
        read(text, tmp_path)
    with pytest.warns(RobotWarning, match=f"robot.urdf: lax overlooks {overlooked}"):
        assert read(text, tmp_path, lax=True) == robots.load("two_joint_arm")


ENTITY = '<!DOCTYPE robot [<!ENTITY a "two_joint_arm"><!ENTITY b SYSTEM "file:///etc/hostname">]>'
NOT_EVEN_LAX = {
    "truncated": (ARM[:-20], "not well-formed XML"),
    "unquoted": (changed(('value="1.2"', "value=1.2")), "not well-formed XML"),
    "empty": ("", "not well-formed XML"),
    "no XML": ("this is no XML", "not well-formed XML"),
    "entities": (f'<?xml version="0.0"?>{ENTITY}' + BODY.replace("two_joint_arm", "&a;"), "document type declaration"),
    "external": (f"{ENTITY}{BODY}".replace("<link", "&b;<link", 1), "document type declaration"),
    "undeclared entity": (changed(('<link name="base"/>', '&c;<link name="base"/>')), "not well-formed XML"),
    "deep": ('<?xml version="0.0"?><robot>' + "<a>" * 1000 + "</a>" * 1000 + "</robot>", "not well-formed XML"),
}


@pytest.mark.parametrize("case", list(NOT_EVEN_LAX))
def test_lax_refuses_what_could_lose_a_part(case: str, tmp_path: Path) -> None:
    text, message = NOT_EVEN_LAX[case]
    with pytest.raises(RobotError, match=message) as caught:
        read(text, tmp_path, lax=True)
    assert "lax=True" not in str(caught.value)


def test_lax_refuses_a_huge_file(tmp_path: Path) -> None:
    path = tmp_path / "huge.urdf"
    with path.open("wb") as file:
        file.truncate(17 * 2**20)
    with pytest.raises(RobotError, match="a URDF file of more than 16777216 bytes is refused"):
        Robot.from_urdf(path, lax=True)
