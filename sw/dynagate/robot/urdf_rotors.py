"""Rotor inertias from the transmissions of a URDF file.

Drake's files have <drake:rotor_inertia> and <drake:gear_ratio> in the <actuator> of a <transmission>. Other files have
<motorInertia> and <mechanicalReduction>, as in ROS. A joint resists acceleration with gear² times the inertia.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from dynagate.robot.errors import RobotError
from dynagate.robot.robot_xml import local_name, number_in

ROTORS = ("rotor_inertia", "rotorInertia", "motorInertia")
"""Elements of a rotor's inertia in kg m², without their prefix."""

GEARS = ("gear_ratio", "mechanicalReduction")
"""Elements of the rotor's rotations per rotation of the joint, without their prefix. The first one found counts."""


def armatures(root: Any, joints: Container[str]) -> tuple[dict[str, float], list[str]]:
    """Return the armatures by joint, and the names of the transmissions whose rotors are not read.

    Args:
        root: The file's <robot> element.
        joints: Names of the file's joints.

    Raises:
        RobotError: An inertia is negative, a gear ratio is 0, or one of them is not a number.
    """
    total: dict[str, float] = {}
    unread: list[str] = []
    for transmission in root.iterfind("transmission"):
        rotors = [part for part in transmission.iter("*") if local_name(part.tag) in ROTORS]
        if not rotors:
            continue
        name = str(transmission.get("name"))
        driven = [joint.get("name") for joint in transmission.findall("joint")]
        if len(driven) != 1 or driven[0] not in joints:
            unread.append(f"'{name}'")
            continue
        for rotor in rotors:
            where = f"transmission '{name}'"
            inertia, gear = number_in(rotor, where), _gear(rotor, transmission, where)
            if inertia < 0.0 or gear == 0.0:
                raise RobotError(
                    f"{where} has rotor inertia {inertia:g} kg m² and gear ratio {gear:g}; expected an inertia of 0 or "
                    "more and a ratio other than 0",
                    code="DG-URDF-064",
                )
            total[driven[0]] = total.get(driven[0], 0.0) + gear * gear * inertia
    return total, unread


def _gear(rotor: Any, transmission: Any, where: str) -> float:
    """Return the gear ratio of a rotor, from its actuator or else from its transmission; 1 without a gear."""
    for tag in GEARS:
        for place in (rotor.getparent(), *transmission.findall("joint"), transmission):
            for part in place.iterchildren("*"):
                if local_name(part.tag) == tag:
                    return number_in(part, where)
    return 1.0
