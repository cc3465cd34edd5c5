"""Mistakes in a robot's file, found and fixed before a controller meets them. For everyone who gets a URDF.

Four slips are planted in the file of an arm: an inertia with shifted entries, a mass in grams, a motor that cannot hold
its link, and an axis that is no unit vector. It prints the first finding before each slip is fixed, with its line in
the file, and whether the fixed file has the arm's torques.
"""

import dynagate as dg
import numpy as np

right = dg.robots.path("two_joint_arm").read_text()
SLIPS = {
    'ixx="0.017" iyy="0.017" izz="0.0008"': 'ixx="0.5" iyy="0.017" izz="0.0008"',
    '<origin xyz="0 0 0.5"/>\n    <axis xyz="0 1 0"/>': '<origin xyz="0 0 0.5"/>\n    <axis xyz="0 2 0"/>',
    '<mass value="2.0"/>': '<mass value="2000"/>',
    'velocity="5.0" effort="30"': 'velocity="5.0" effort="0.8"',
}
wrong = right
for line, slip in SLIPS.items():
    wrong = wrong.replace(line, slip)


def findings(text):
    """Write a file and return what is wrong with it."""
    with open("checked.urdf", "w") as file:
        file.write(text)
    return [each for each in dg.check("checked.urdf") if each.level != "note"]


print(f"planted {len(SLIPS)} slips")
for line, slip in SLIPS.items():
    before = findings(wrong)
    print(f"{len(before)} left, first: {before[0].level}, line {before[0].line}, {before[0].place}: {before[0].text}")
    wrong = wrong.replace(slip, line)
print(f"fixed: {len(findings(wrong))} findings")
robot, arm, q = dg.Robot.from_file("checked.urdf"), dg.robots.load("two_joint_arm"), [0.4, -0.8]
held, expected = (dg.compile(each, "gravity_torque", device="numpy")(q).gravity_torque for each in (robot, arm))
print(f"holding torques {np.round(held, 3)} N m, off by {np.abs(held - expected).max():.1e}")
