"""Warnings of a build whose fixed-point formats are of little use: placeholder limits and large errors.

Formats hold every value that the operating region allows. A velocity limit of 1,000 rad/s, which exporters write if
they know none, makes Coriolis terms a million times larger than in use, and leaves no bits for the values in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dynagate.base.warned import warn
from dynagate.fixedpoint.wordlength.sampled_errors import STATES, SampledErrors
from dynagate.graph.region import Region

PLACEHOLDER_SPEED = {"rad": 200.0, "m": 100.0}
"""Smallest velocity limit that counts as a placeholder, in rad/s or m/s, by the unit of the joint's positions."""

PLACEHOLDER_POSITION = 100.0
"""Smallest magnitude of a position limit that counts as a placeholder, in rad or m: 16 revolutions, or 100 m."""

LARGEST_SHARE = 0.1
"""Largest error, as a share of the largest value of its output, that a build accepts without a warning."""

MOST_NAMED = 3
"""Largest number of joints that a warning names."""


class FormatsWarning(UserWarning):
    """The fixed-point formats of a design are of little use: its limits are placeholders, or its errors are large."""


def warn_of_placeholders(region: Region) -> None:
    """Warn if limits of the robot's file, which the region has taken over, look like placeholders.

    Limits that the caller passed to `Region.of` and that differ from the file's give no warning.
    """
    robot = region.robot
    speeds, positions = [], []
    for joint, q, v in robot.moving():
        unit, _ = joint.kind.units
        limit = float(robot.velocity[v].max())
        if limit >= PLACEHOLDER_SPEED[unit] and limit in region.velocity[v]:
            speeds.append((joint.name, f"{limit:g} {unit}/s"))
        if joint.kind.single:
            position = max(abs(region.lower[q.start]), abs(region.upper[q.start]))
            if position >= PLACEHOLDER_POSITION:
                positions.append((joint.name, f"{position:g} {unit}"))
    if speeds:
        _warn_of_limits(robot.name, "velocity", speeds, "pass region=Region.of(robot, velocity=10.0) (--velocity 10)")
    if positions:
        _warn_of_limits(robot.name, "position", positions, "set the limits in the robot's file")


def _warn_of_limits(robot: str, kind: str, joints: Sequence[tuple[str, str]], advice: str) -> None:
    listed = ", ".join(f"'{name}' {limit}" for name, limit in joints[:MOST_NAMED])
    more = f" and {len(joints) - MOST_NAMED} more" if len(joints) > MOST_NAMED else ""
    warn(
        f"{kind} limits of {robot} look like placeholders: {listed}{more}; formats that hold such values leave few "
        f"bits for the values in use: {advice}, with the largest values that occur",
        FormatsWarning,
        code="DG-HW-010",
    )


def warn_of_errors(title: str, errors: SampledErrors) -> None:
    """Warn if outputs have errors above LARGEST_SHARE of their largest value, or most states overflow.

    Args:
        title: Robot and function, for the text.
        errors: Errors in sampled states. Only those inside the region count.
    """
    if problems := list(_problems(errors)):
        warn(
            f"the formats of {title} are of little use: {'; '.join(problems)} (sampled in {STATES} states of the "
            "region); use a longer word (--word), an accuracy goal (--error), or a smaller region (--velocity, "
            "--acceleration)",
            FormatsWarning,
            code="DG-HW-011",
        )


def _problems(errors: SampledErrors) -> Iterator[str]:
    if 2 * (lost := errors.overflows["uniform"]) > STATES:
        yield f"{lost} states overflow"
        return
    for name, output in errors.outputs["uniform"].items():
        if output.share > LARGEST_SHARE:
            yield (
                f"'{name}' has errors up to {output.error:.2g}, {output.share:.0%} of its largest value "
                f"{output.largest:.3g}"
            )
