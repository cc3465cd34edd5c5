"""Right angles that a file writes with few decimals: told of, and made exact without ceasing to be rotations."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, robots, trace
from dynagate.robot.rotations import NEAR, Rounding

ARM = robots.path("two_joint_arm").read_text()
SHORT = ["1.5708", "1.57", "-1.571", "3.1416", "3.14", "4.712"]


def tilted(folder: Path, rpy: str = "0 0 0", axis: str = "0 1 0") -> Path:
    """The arm with its elbow turned."""
    head, tail = ARM.rsplit('<origin xyz="0 0 0.5"/>', 1)
    tail = tail.replace('<axis xyz="0 1 0"/>', f'<axis xyz="{axis}"/>')
    path = folder / "arm.urdf"
    path.write_text(f'{head}<origin xyz="0 0 0.5" rpy="{rpy}"/>{tail}')
    return path


def is_rotation(matrix: np.ndarray) -> bool:
    return bool(np.abs(matrix @ matrix.T - np.eye(3)).max() <= 1e-15 and abs(np.linalg.det(matrix) - 1.0) <= 1e-15)


def angle_between(a: np.ndarray, b: np.ndarray) -> float:
    return 2.0 * math.asin(min(1.0, float(np.linalg.norm(a - b)) / math.sqrt(8.0)))


@pytest.mark.parametrize("angle", SHORT)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_short_right_angle_is_told_of_once_with_what_mends_it(angle: str, place: int, tmp_path: Path) -> None:
    off = abs(math.remainder(float(angle), math.pi / 2))
    rpy = ["0", "0", "0"]
    rpy[place] = angle
    path = tilted(tmp_path, " ".join(rpy))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Robot.from_urdf(path).rounding < 1e-9
    (warning,) = caught
    assert warning.category is RobotWarning
    text = str(warning.message)
    assert text.startswith(f"arm.urdf: rotations of 1 joint are up to {off:.1e} rad from right angles")
    value = text.split("round_rotations=")[1].split()[0]
    assert f"(--round-rotations {value})" in text
    robot = Robot.from_urdf(path, round_rotations=float(value))  # without a warning, which would be an error here
    assert robot.rounding == pytest.approx(off, rel=1e-6)
    rotation = np.array(robot.links[1].joint.rotation)
    assert set(np.abs(rotation).ravel()) == {0.0, 1.0}
    assert is_rotation(rotation)


def test_a_file_is_taken_at_its_word_on_request(tmp_path: Path) -> None:
    robot = Robot.from_urdf(tilted(tmp_path, "1.5708 0 0"), round_rotations=0.0)
    assert robot.links[1].joint.rotation[1][1] == math.cos(1.5708)
    assert robot.rounding == 0.0


def test_inertias_and_joints_are_counted(tmp_path: Path) -> None:
    path = tilted(tmp_path, "1.5708 0 0")
    path.write_text(path.read_text().replace('<origin xyz="0 0 0.25"/>', '<origin xyz="0 0 0.25" rpy="0 0 1e-4"/>'))
    with pytest.warns(RobotWarning, match="rotations of 1 joint and 1 link are up to 1.0e-04 rad from right angles"):
        Robot.from_urdf(path)


def test_what_is_no_right_angle_is_left_without_a_word(tmp_path: Path) -> None:
    robot = Robot.from_urdf(tilted(tmp_path, "0.5 0.01 -0.7", "0.3 0.4 0.5"))
    assert robot.rounding == 0.0


@pytest.mark.parametrize("axis", ["0 0.00001 1", "-0.001 0 1", "0 1 3e-6"])
def test_axes_too(axis: str, tmp_path: Path) -> None:
    path = tilted(tmp_path, axis=axis)
    with pytest.warns(RobotWarning, match="rotations of 1 joint are up to"):
        off = Robot.from_urdf(path).links[1].joint.axis
    assert all(x != 0.0 for x, word in zip(off, axis.split(), strict=True) if word != "0")
    robot = Robot.from_urdf(path, round_rotations=2e-3)
    assert sorted(map(abs, robot.links[1].joint.axis)) == [0.0, 0.0, 1.0]
    assert 0.0 < robot.rounding <= 1.01e-3


def test_an_axis_in_a_plane_stays_a_unit_vector(tmp_path: Path) -> None:
    axis = np.array(Robot.from_urdf(tilted(tmp_path, axis="3 4 0.005"), round_rotations=1.5e-3).links[1].joint.axis)
    np.testing.assert_allclose(axis, [0.6, 0.8, 0.0], atol=1e-15)
    assert axis[2] == 0.0


def test_locked_angles_too(tmp_path: Path) -> None:
    path = tilted(tmp_path)
    with pytest.warns(RobotWarning, match="rotations of 2 joints are up to 3.7e-06 rad"):  # and the one that it carries
        Robot.from_urdf(path, lock={"shoulder": 1.5708})
    held = Robot.from_urdf(path, lock={"shoulder": 1.5708}, round_rotations=1e-5)
    assert held.links == Robot.from_urdf(path, lock={"shoulder": math.pi / 2}).links
    assert set(np.abs(np.array(held.links[0].joint.rotation)).ravel()) == {0.0, 1.0}


@pytest.mark.parametrize("within", [1e-9, 1e-6, 1e-3, NEAR])
@pytest.mark.parametrize("turn", ["cube", "axis", "any"])
def test_rounding_gives_rotations_turned_by_little(within: float, turn: str) -> None:
    """A right angle, an angle about one coordinate axis or any rotation, turned a little about any axis."""
    random = np.random.default_rng(1)
    for _ in range(200):
        quarters = (math.pi / 2) * random.integers(-4, 5, 3)
        if turn == "axis":
            quarters[random.integers(3)] += random.uniform(0.1, 1.4)
        if turn == "any":
            quarters = random.uniform(0.3, 1.2, 3)
        exact = Rounding(0.0).from_rpy(quarters, "exact")
        axis = random.normal(size=3)
        tilt = random.uniform(0.0, 2.0) * within
        file = exact @ Rounding(0.0).about_axis(axis / np.linalg.norm(axis), tilt, "tilt")
        rounding = Rounding(within)
        rounded = rounding.rotation(file, "joint 'j'")
        assert is_rotation(rounded)
        turned = angle_between(file, rounded)
        assert turned <= 1.001 * within + 1e-15
        assert abs(rounding.largest_correction - turned) <= 1e-15
        if turn != "any" and tilt <= 0.999 * within:
            assert np.count_nonzero(rounded == 0.0) == np.count_nonzero(exact == 0.0)
        elif turn == "cube" and 1.001 * within <= tilt <= NEAR:
            assert rounding.uncorrected["joint 'j'"] == pytest.approx(tilt, rel=1e-6, abs=1e-14)


def test_an_entry_is_not_rounded_by_itself() -> None:
    """cos 0.01 is within 1e-4 of 1 while sin 0.01 is not of 0: the turn stays as it is."""
    rounding = Rounding(1e-4)
    turn = rounding.from_rpy([0.0, 0.01, 0.0], "joint 'j'")
    assert (turn[0, 0], turn[0, 2]) == (math.cos(0.01), math.sin(0.01))
    assert rounding.largest_correction == 0.0
    assert not rounding.uncorrected


def test_right_angles_of_several_turns_are_found(tmp_path: Path) -> None:
    """Twice 45° with ten digits, by a fixed joint between."""
    text = ARM.replace('<parent link="upper_arm"/>', '<parent link="bend"/>').replace(
        "</robot>",
        '<link name="bend"/><joint name="half" type="fixed"><parent link="upper_arm"/><child link="bend"/>'
        '<origin rpy="0.7853981634 0 0"/></joint></robot>',
    )
    head, tail = text.rsplit('<origin xyz="0 0 0.5"/>', 1)
    path = tmp_path / "bent.urdf"
    path.write_text(f'{head}<origin xyz="0 0 0.5" rpy="0.7853981634 0 0"/>{tail}')
    robot = Robot.from_urdf(path)
    assert set(np.abs(np.array(robot.links[1].joint.rotation)).ravel()) == {0.0, 1.0}
    assert 0.0 < robot.rounding < 1e-9


def test_rounding_takes_the_products_away_that_decimals_cost(tmp_path: Path) -> None:
    path = tilted(tmp_path, "1.5708 0 0")
    with pytest.warns(RobotWarning):
        plain = trace(Robot.from_urdf(path), "forward_dynamics_gradient").counts()
    rounded = trace(Robot.from_urdf(path, round_rotations=1e-5), "forward_dynamics_gradient").counts()
    exact = trace(Robot.from_urdf(tilted(tmp_path, "1.5707963267948966 0 0")), "forward_dynamics_gradient").counts()
    assert rounded == exact
    assert rounded.products < 0.9 * plain.products


def test_rounding_is_no_part_of_what_a_robot_is(tmp_path: Path) -> None:
    rounded = Robot.from_urdf(tilted(tmp_path, "1.5708 0 0"), round_rotations=1e-5)
    exact = Robot.from_urdf(tilted(tmp_path, "1.5707963267948966 0 0"))
    assert rounded == exact
    assert hash(rounded) == hash(exact)
    assert rounded.rounding > exact.rounding == 0.0


def test_errors_come_before_warnings(tmp_path: Path) -> None:
    path = tilted(tmp_path, "1.5708 0 0")
    path.write_text(path.read_text().replace('value="1.2"', 'value="heavy"'))
    with pytest.raises(RobotError, match="heavy"):
        Robot.from_urdf(path)
