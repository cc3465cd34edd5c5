"""Check the physics of a robot before use: `dynagate.check`."""

from __future__ import annotations

import re
import warnings
from os import PathLike
from pathlib import Path

from dynagate.base.arguments import check_flags
from dynagate.base.errors import ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.checks.bodies import check_bodies
from dynagate.checks.finding import Finding, ordered
from dynagate.checks.joints import check_joints, check_twins
from dynagate.checks.motion import check_motion
from dynagate.checks.source import RobotSource, bodies_of
from dynagate.robot import robots
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.model import Robot
from dynagate.robot.robot_xml import is_mjcf


@explained
def check(robot: Robot | str | PathLike[str], *, trust: bool = False) -> list[Finding]:
    """Check the physics of a robot or of its file.

    The checks look for impossible inertias and the likely mistake behind them; centers of mass outside the shapes;
    densities and mass ratios; limits of 0, in degrees or in millimetres; axes that are not unit vectors; joints that
    cannot hold gravity; differences between left and right twins; and the condition of the mass matrix over the range.
    Warnings of the file's parser are included.

    Args:
        robot: A robot, the name of one that ships, or the path of a file.
        trust: Accept MJCF and xacro, as in `Robot.from_file`.

    Returns:
        The findings, errors first. Each has its level, place, text, value, line of the file and advice.

    Raises:
        ArgumentTypeError: The robot has another type.
        RobotError: There is no such file, or it is MJCF or xacro without `trust=True`.

    Example:
        >>> [finding.level for finding in dynagate.check("two_joint_arm")]
        ['note']
    """
    check_flags(trust=trust)
    if isinstance(robot, Robot):
        return ordered(_of_robot(robot, None))
    if not isinstance(robot, str | PathLike):
        raise ArgumentTypeError(
            f"robot={robot!r:.60}; expected a Robot, the name of one that ships, or a file's path", code="DG-ROBOT-001"
        )
    path = Path(robots.file_of(robot))
    if not path.is_file():
        raise RobotError(f"{path}: no such file; expected the path of a robot's file", code="DG-ROBOT-002")
    if path.suffix == ".xacro" or is_mjcf(path):
        return ordered(_of_other(path, trust=trust))
    return ordered(_of_urdf(path))


def _of_robot(robot: Robot, source: RobotSource | None) -> list[Finding]:
    """Return the findings on a robot that was read."""
    bodies = source.bodies if source else bodies_of(robot.links)
    return [
        *check_bodies(bodies),
        *check_joints(robot, source),
        *check_twins(robot, bodies, source),
        *check_motion(robot, source),
    ]


def _of_other(path: Path, *, trust: bool) -> list[Finding]:
    """Return the findings on a file that another program parses."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RobotWarning)
        robot = Robot.from_file(path, trust=trust, allow_unphysical=True)
    return [*_of_robot(robot, None), *_warned(path, caught)]


def _of_urdf(path: Path) -> list[Finding]:
    """Return the findings on a URDF file. An error of its parser is a finding."""
    refused: list[Finding] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RobotWarning)
        try:
            robot = Robot.from_urdf(path)
        except RobotError as error:
            refused = [_refused(line) for line in _lines(error, path)]
            robot = None
    if robot is None:
        robot = _with_options(path)
    try:
        source = RobotSource(path)
    except RobotError:
        return refused
    findings = list(check_bodies(source.bodies)) if robot is None else _of_robot(robot, source)
    explained = {finding.place for finding in findings if finding.check in ("inertia", "mass")}
    rest = [each for each in refused if not (each.place in explained and _is_repeated(each.text))]
    return [*rest, *findings, *_warned(path, caught)]


def _with_options(path: Path) -> Robot | None:
    """Return the robot in a file that the parser rejects, read with the options that accept it; None if no option
    does.
    """
    for floating in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Robot.from_urdf(path, allow_unphysical=True, unlimited=True, lax=True, floating_base=floating)
            except RobotError:
                continue
    return None


def _lines(error: RobotError, path: Path) -> list[str]:
    """Return the reasons for which a parser rejects a file, one text each."""
    text = str(error).removeprefix(f"{path.name}: ")
    return [line.strip() for line in text.split("\n") if line.startswith("  ")] or [text]


def _is_repeated(text: str) -> bool:
    """Return whether another check reports the same error, with the likely mistake."""
    return "moments of inertia" in text or "which no body has" in text


def _refused(text: str) -> Finding:
    """Return the finding for an error of the parser, whose text may begin with its line and its link or joint."""
    line = re.search(r"\bline (\d+)", text)
    text = re.sub(r"^line \d+: ", "", text)
    place = re.match(r"((?:link|joint) '[^']*'):? ", text)
    if place:
        text = text[place.end() :]
    return Finding("error", "file", place[1] if place else "robot", text, None, int(line[1]) if line else None)


def _warned(path: Path, caught: list[warnings.WarningMessage]) -> list[Finding]:
    """Return the warnings of a parser as notes."""
    texts = [str(each.message).removeprefix(f"{path.name}: ") for each in caught]
    # `check_joints` reports each joint whose limit is 0
    return [Finding("note", "file", "robot", text) for text in texts if "limit 0 of joint" not in text]
