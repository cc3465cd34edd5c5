"""`dynagate.check` and `dynagate check`: what is wrong with a robot's file, with place, number and likely slip."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Robot, RobotError, evaluate, robots, trace
from dynagate.base.errors import ArgumentTypeError
from dynagate.checks.bodies import ORDERS, UNITS
from dynagate.checks.finding import Finding
from dynagate.checks.joints import mirrored
from dynagate.checks.motion import configurations
from dynagate.cli import main

INERTIA = (0.02, 0.001, 0.002, 0.03, 0.003, 0.04)
ENTRIES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def link(
    name: str = "arm", mass: float = 2.0, inertia: Any = INERTIA, com: str = "0.1 0 0", shape: str = "", more: str = ""
) -> str:
    entries = " ".join(f'{key}="{value!r}"' for key, value in zip(ENTRIES, inertia, strict=True))
    return (
        f'<link name="{name}">\n<inertial>\n<origin xyz="{com}"/><mass value="{mass}"/>\n<inertia {entries}/>'
        f"</inertial>{shape}{more}</link>\n"
    )


def joint(
    name: str = "turn",
    kind: str = "revolute",
    limit: str = 'lower="-1" upper="1" effort="50" velocity="3"',
    axis: str = "0 1 0",
    ends: tuple[str, str] = ("base", "arm"),
    origin: str = "0 0 0.5",
) -> str:
    return (
        f'<joint name="{name}" type="{kind}">\n<parent link="{ends[0]}"/><child link="{ends[1]}"/>\n'
        f'<axis xyz="{axis}"/><origin xyz="{origin}"/><limit {limit}/></joint>\n'
    )


BOX = '<collision><origin xyz="0.1 0 0"/><geometry><box size="0.5 0.5 0.5"/></geometry></collision>'


def written(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "r.urdf"
    path.write_text(f'<robot name="r">\n<link name="base"/>\n{body}</robot>')
    return path


def found(tmp_path: Path, body: str, check: str) -> Finding:
    """Return the only finding of a check that is no note."""
    findings = [each for each in dynagate.check(written(tmp_path, body)) if each.check == check]
    (one,) = [each for each in findings if each.level != "note"]
    return one


def test_a_right_file_has_no_errors(tmp_path: Path) -> None:
    findings = dynagate.check(written(tmp_path, link(shape=BOX) + joint()))
    assert [(each.level, each.check) for each in findings] == [("note", "mass matrix")]


@pytest.mark.parametrize("order", ORDERS)
def test_entries_in_another_order(order: str, tmp_path: Path) -> None:
    """The numbers of a body, written in the order of another program, are put back."""
    places = ORDERS[order]
    inertia = (0.02, 0.001, 0.0, 0.03, 0.0, 0.04)
    shuffled = [0.0] * 6
    for entry, place in enumerate(places):
        shuffled[place] = inertia[entry]
    one = found(tmp_path, link(inertia=shuffled) + joint(), "inertia")
    assert (one.level, one.place, one.line) == ("error", "link 'arm'", 4)
    assert "are those of no body" in one.text
    assert 'ixx="0.02"' in one.advice
    assert 'izz="0.04"' in one.advice
    assert one.advice.startswith("if the numbers are in the order ")


def test_products_of_the_other_sign(tmp_path: Path) -> None:
    one = found(tmp_path, link(inertia=(1.0, 0.4, 0.4, 1.0, 0.4, 1.0)) + joint(), "inertia")
    assert "if the products have the other sign" in one.advice
    assert 'ixy="-0.4"' in one.advice


@pytest.mark.parametrize("unit", UNITS)
def test_another_unit(unit: str, tmp_path: Path) -> None:
    inertia = np.array(INERTIA) / UNITS[unit]
    one = found(tmp_path, link(inertia=inertia.tolist(), shape=BOX) + joint(), "inertia")
    assert one.level == "warning"
    # units may fit both; the first that fits is named
    assert re.match(r"if it is in (kg|g) .m²: <inertia |if it is in g m²", one.advice)
    scaled = float(re.findall(r'ixx="([^"]*)"', one.advice)[0])
    assert np.sqrt(np.array(scaled) / 0.02) < 6.0


def test_moments_that_are_negative_and_centers_without_a_guess(tmp_path: Path) -> None:
    one = found(tmp_path, link(inertia=(0.02, 0.05, 0.0, 0.03, 0.0, 0.04)) + joint(), "inertia")
    assert "all must be above 0" in one.text
    outside = found(tmp_path, link(com="1 0 0", shape=BOX) + joint(), "center")
    assert (outside.advice, outside.value) == ("", pytest.approx(1.0 - 0.35))
    near = dynagate.check(written(tmp_path, link(com="0.36 0 0", shape=BOX) + joint()))
    assert "center" not in [each.check for each in near]


def test_an_order_that_does_not_fit_the_shapes_is_no_guess(tmp_path: Path) -> None:
    """A box of 1 cm cannot have this inertia in any order of its entries."""
    small = BOX.replace("0.5", "0.01")
    findings = dynagate.check(written(tmp_path, link(inertia=(0.02, 0.03, 0.04, 0.0, 0.0, 0.0), shape=small) + joint()))
    (one,) = [each for each in findings if each.check == "inertia"]
    assert "order" not in one.advice


def test_a_center_in_millimetres(tmp_path: Path) -> None:
    one = found(tmp_path, link(com="100 20 0", shape=BOX) + joint(limit='lower="-1" upper="1"'), "center")
    assert one.advice == 'if it is in millimetres: <origin xyz="0.1 0.02 0"/>'
    assert one.value == pytest.approx(100.0 - 0.35)


def test_a_mass_in_grams(tmp_path: Path) -> None:
    inertia = [1e3 * x for x in INERTIA]
    one = found(tmp_path, link(mass=20000.0, inertia=inertia, shape=BOX.replace("0.5", "0.3")) + joint(), "density")
    assert one.value == pytest.approx(20000.0 / 0.3**3)
    assert one.advice == 'if the mass is in grams: <mass value="20"/>'


def test_masses_that_no_body_has(tmp_path: Path) -> None:
    second = link("fore") + joint("other", ends=("arm", "fore"))
    assert found(tmp_path, link(mass=0.0) + joint() + second, "mass").text == "mass 0 with an inertia"
    assert found(tmp_path, link(mass=-1.0) + joint() + second, "mass").text == "mass -1 kg"
    assert "kinematics only" in found(tmp_path, '<link name="arm"/>' + joint(), "mass").text


@pytest.mark.parametrize(
    ("kind", "limit", "text", "advice"),
    [
        ("revolute", 'lower="-180" upper="90"', "-180 to 90 rad", 'lower="-3.14159" upper="1.5708"'),
        ("prismatic", 'lower="0" upper="250"', "0 to 250 m", 'lower="0" upper="0.25"'),
        ("revolute", 'lower="-1" upper="1" effort="0" velocity="1"', "effort limit is 0", "unlimited=True"),
        ("revolute", 'lower="-1" upper="1" velocity="1e4"', "velocity limit of 10000 rad/s", ""),
    ],
)
def test_limits(kind: str, limit: str, text: str, advice: str, tmp_path: Path) -> None:
    one = found(tmp_path, link() + joint(kind=kind, limit=limit), "limits")
    assert (one.line, one.place) == (7, "joint 'turn'")
    assert text in one.text
    assert advice in one.advice


def test_an_axis_that_is_no_unit_vector(tmp_path: Path) -> None:
    one = found(tmp_path, link() + joint(axis="0 2 0"), "axis")
    assert (one.value, one.advice, one.line) == (2.0, '<axis xyz="0 1 0"/>', 9)


def test_a_joint_that_cannot_hold_gravity(tmp_path: Path) -> None:
    """The torque of a pendulum is m g l at most, here in the middle of its range."""
    one = found(tmp_path, link() + joint(limit='lower="-1" upper="1" effort="1.5" velocity="1"'), "gravity")
    assert one.value == pytest.approx(2.0 * 9.81 * 0.1, rel=1e-3)
    assert one.value is not None
    assert one.value <= 2.0 * 9.81 * 0.1 + 1e-12


def test_twins_that_differ(tmp_path: Path) -> None:
    sides = [
        link(f"{side}_arm", mass) + joint(f"{side}_turn", ends=("base", f"{side}_arm"))
        for side, mass in (("left", 2.0), ("right", 2.2))
    ]
    one = found(tmp_path, "".join(sides), "twins")
    assert one.text == "mass 2 kg, but that of its twin 'right_arm' is 2.2 kg"
    assert found(
        tmp_path, "".join(sides).replace("2.2", "2.0").replace('effort="50"', 'effort="60"', 1), "twins"
    ).text == ("effort 60, but that of its twin 'right_turn' is 50")


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("left_arm", "right_arm"),
        ("LF_HAA", "RF_HAA"),
        ("l_foot", "r_foot"),
        ("arm_L", "arm_R"),
        ("Left-Knee", "Right-Knee"),
    ],
)
def test_names_of_twins(name: str, twin: str) -> None:
    assert mirrored(name) == twin
    assert mirrored(twin) is None
    assert mirrored("pelvis") is None


def test_copies_and_ratios_of_masses(tmp_path: Path) -> None:
    second = link("fore", 2e-6) + joint("other", ends=("arm", "fore"))
    body = link() + joint() + second
    assert "links 'arm', 'fore' have one inertia, but masses from 2e-06 to 2 kg" in found(tmp_path, body, "copy").text
    assert found(tmp_path, body, "mass ratio").value == pytest.approx(1e6)


def test_the_condition_of_the_mass_matrix_is_that_of_numpy() -> None:
    robot = robots.load("iiwa14")
    (one,) = [each for each in dynagate.check(robot) if each.check == "mass matrix"]
    matrices = evaluate(trace(robot, "mass_matrix"), {"q": configurations(robot)})["m"]
    assert one.value == pytest.approx(np.linalg.cond(matrices).max(), rel=1e-6)
    assert one.place == "joint 'joint_7'"


def test_a_joint_that_moves_nothing(tmp_path: Path) -> None:
    point = link(inertia=(0.0,) * 6, com="0 0 0")
    findings = dynagate.check(written(tmp_path, point + joint()))
    assert ("error", "mass matrix") in [(each.level, each.check) for each in findings]


def test_lengths_in_millimetres(tmp_path: Path) -> None:
    one = found(tmp_path, link() + joint(origin="0 0 500"), "lengths")
    assert (one.value, one.advice) == (500.0, 'if it is in millimetres: xyz="0 0 0.5"')


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (link(), "has 2 root links"),
        (link("a") + link("b") + joint(ends=("a", "b")) + joint("k", ends=("b", "a")), "form a loop"),
        (link(mass=float("nan")) + joint(), "expected 1 finite number"),
        (link(inertia=(1e308, 0.0, 0.0, 1.0, 0.0, 1.0)) + joint(), "which no body has"),
        (link() + joint(kind="gear"), "has type 'gear'"),
        (link() + joint(limit=""), "has no <limit lower= upper=>"),
        ("<xacro:property/>", "is a macro"),
        ("<link", "not well-formed XML"),
    ],
)
def test_a_file_that_is_refused_is_an_error(body: str, text: str, tmp_path: Path) -> None:
    body = body.replace("<xacro:property/>", '<xacro:property xmlns:xacro="x"/>')
    findings = dynagate.check(written(tmp_path, body))
    assert any(each.level == "error" and text in each.text for each in findings), findings


def test_entities_and_large_files_are_errors(tmp_path: Path) -> None:
    path = written(tmp_path, link() + joint())
    path.write_text('<!DOCTYPE robot [<!ENTITY a "b">]>' + path.read_text())
    assert "document type" in dynagate.check(path)[0].text
    path.write_bytes(b" " * (16 * 2**20 + 1))
    assert "is refused" in dynagate.check(path)[0].text


def test_arguments_that_are_refused(tmp_path: Path) -> None:
    for wrong in (3, None, [robots.load("two_joint_arm")]):
        with pytest.raises(ArgumentTypeError, match="expected a Robot"):
            dynagate.check(wrong)  # type: ignore[arg-type]
    with pytest.raises(RobotError, match="no such file"):
        dynagate.check(tmp_path / "none.urdf")
    (tmp_path / "m.xml").write_text("<mujoco/>")
    with pytest.raises(RobotError, match="trust=True"):
        dynagate.check(tmp_path / "m.xml")


def test_the_command_is_for_continuous_integration(tmp_path: Path) -> None:
    path = written(tmp_path, link() + joint(limit='lower="-180" upper="90" effort="50" velocity="1"'))
    call = CliRunner().invoke
    done = call(main, ["check", str(path)])
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == f"{path}: 0 errors, 1 warning, 1 note"
    assert done.output.startswith("warning  line 7, joint 'turn': position limits -180 to 90 rad\n         if they are")
    assert call(main, ["check", str(path), "--strict"]).exit_code == 1
    done = call(main, ["check", str(path), "--json"])
    assert [each["level"] for each in json.loads(done.stdout)] == ["warning", "note"]
    path.write_text(path.read_text().replace('iyy="0.03"', 'iyy="3"'))
    assert call(main, ["check", str(path)]).exit_code == 1


def test_a_floating_robot_and_a_name_are_checked() -> None:
    floating = Robot.from_urdf(robots.path("hyq"), floating_base=True)
    assert not [each for each in dynagate.check(floating) if each.level != "note"]
    assert dynagate.check("two_joint_arm")[0].line is not None


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (link() + joint(axis="0 0 0"), "joint 'turn': has axis"),
        (link(mass=float("nan")) + joint(), "link 'arm': <mass value='nan'>"),
        (link() + link() + joint(), "robot: a second <link> is named 'arm'"),
    ],
)
def test_an_error_of_the_parser_names_its_place_once(body: str, shown: str, tmp_path: Path) -> None:
    (error,) = [
        each for each in dynagate.check(written(tmp_path, body)) if each.check == "file" and each.level == "error"
    ]
    assert shown in str(error)


def test_an_inertia_may_miss_the_triangle_inequality_by_rounding(tmp_path: Path) -> None:
    """A thin rod has moments of 0, a and a, which files round to a few digits."""
    rod = (0.0001, 0.0, 0.0, 0.1, 0.0, 0.10011)
    assert "inertia" not in [each.check for each in dynagate.check(written(tmp_path, link(inertia=rod) + joint()))]
    wrong = (0.0001, 0.0, 0.0, 0.1, 0.0, 0.1004)
    assert found(tmp_path, link(inertia=wrong) + joint(), "inertia").level == "error"


def test_the_largest_mass_in_grams(tmp_path: Path) -> None:
    """Shapes of 0.125 m³ hold at most 2824 kg; a mass above is in grams, unless that is too dense too."""
    one = found(tmp_path, link(mass=3000.0, inertia=[x * 1500 for x in INERTIA], shape=BOX) + joint(), "density")
    assert one.advice == 'if the mass is in grams: <mass value="3"/>'
    too_much = found(tmp_path, link(mass=4e6, inertia=[x * 2e6 for x in INERTIA], shape=BOX) + joint(), "density")
    assert too_much.advice == ""


def test_a_center_may_lie_a_tenth_of_the_size_outside(tmp_path: Path) -> None:
    """The box is 0.87 m across and ends at x = 0.35 m."""
    for x, beyond in ((0.43, False), (0.45, True)):
        findings = dynagate.check(written(tmp_path, link(com=f"{x} 0 0", shape=BOX) + joint()))
        assert ("center" in [each.check for each in findings]) == beyond
