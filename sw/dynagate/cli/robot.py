"""The options that name a robot and its operating region, and commands that get them as a Robot and a Region."""

from __future__ import annotations

import functools
import shlex
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import click
from click.core import ParameterSource

from dynagate import robots
from dynagate.base.nearest import nearest
from dynagate.base.option import option
from dynagate.cli import parameters
from dynagate.cli.errors import as_options
from dynagate.cli.fields import Command, options_of, with_options
from dynagate.cli.parameters import NamedNumber, NumberType, mapping, one_or_named
from dynagate.cli.refusals import BadParameter, ParamType, UsageError
from dynagate.graph.region import LimitError, Region
from dynagate.robot import Robot, RobotWarning
from dynagate.robot.constraint import CONTACTS, LOOPS

USUAL_VELOCITY = 1.0
"""rad/s or m/s, of joints without a velocity limit where no design depends on it."""

EXAMPLES = {"velocity": "1", "effort": "10"}
TYPED = {"velocity": "rad/s or m/s", "effort": "N m or N"}


def robot_options(
    command: Command, *, source: click.ParamType | None = None, metavar: str | None = None, required: bool = True
) -> Command:
    """ROBOT and how it is read. The command gets a Robot first. source, metavar: type and name of the argument, in
    place of `RobotName` and ROBOT. required: it cannot be left out."""

    @options_of(CarriedOptions, "carried")
    @options_of(ReadOptions, "reading")
    @functools.wraps(command)
    def loaded(robot: str, reading: ReadOptions, carried: CarriedOptions, **rest: Any) -> Any:
        return command(carried.on(reading.read(robot)), **rest)

    argument = click.argument("robot", type=source or parameters.RobotName(), metavar=metavar, required=required)
    return with_options(loaded, argument)


class Contacts(ParamType):
    """FRAME or FRAME=KIND, several with commas between -> (frame, kind) each."""

    name = "contact"
    kinds = tuple(CONTACTS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[tuple[str, str]]:
        if not isinstance(value, str):
            return list(value)
        contacts = []
        for text in value.split(","):
            frame, equals, kind = text.partition("=")
            if not frame or (equals and kind not in self.kinds):
                kinds = " or ".join(f"FRAME={kind}" for kind in self.kinds)
                self.fail(
                    f"'{text}'; expected FRAME, {kinds}, several with commas and no blanks between",
                    param,
                    ctx,
                    code="DG-CLI-064",
                )
            contacts.append((frame, kind or self.kinds[0]))
        return contacts


class LoopOption(Contacts):
    """FRAME,FRAME or FRAME,FRAME=KIND -> (frame, frame, kind)."""

    name = "loop"
    kinds = tuple(kind for kind in LOOPS if kind != "distance")  # which needs a length

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        ends = super().convert(value, param, ctx)
        if len(ends) != 2 or "=" in value.partition(",")[0]:
            self.fail(f"'{value}'; expected FRAME,FRAME or FRAME,FRAME=fixed or =hinge", param, ctx, code="DG-CLI-065")
        (frame, _), (to, kind) = ends
        return frame, to, kind


@dataclass(frozen=True)
class ReadOptions:
    """How the file of a robot is read."""

    floating_base: bool = option("Let the root link move freely, instead of fixing it to the world.", False)
    lock: dict[str, float] = option(
        "Hold this joint at a position, rad or m (repeatable).",
        (),
        unit="JOINT=POSITION",
        type=NamedNumber(parameters.finite, "JOINT=POSITION with a finite number, rad or m"),
        callback=mapping,
    )
    ignore_friction: bool = option("Leave out the Coulomb friction of the file.", False)
    allow_unphysical: bool = option("Accept inertias that no body has.", False)
    round_rotations: float | None = option(
        "Round rotations that are within this angle of a right angle, such as 1e-5 for a file with 1.5708.",
        None,
        unit="RAD",
        type=NumberType(parameters.real(lambda x: 0.0 < x < 0.1), "an angle above 0 and below 0.1 rad"),
    )
    unlimited: bool = option(
        "Drop unusable limits of joints. Revolute joints without position limits rotate from -π to π.", False
    )
    lax: bool = option("Accept small errors of the XML, such as an undeclared prefix.", False)
    trust_robot: bool = option("Trust this xacro or MJCF file, which can run code and open other files.", False)

    def read(self, name: str) -> Robot:
        """Return the robot of a name or a file. Warnings of the reader are lines of their own."""
        reader: Callable[..., Robot] = robots.load_trusted if self.trust_robot else robots.load
        # options that are not set keep the reader's defaults
        changed = {each.name: value for each in fields(self) if (value := getattr(self, each.name))}
        changed.pop("trust_robot", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RobotWarning)
            robot = reader(name, **changed)
        for warning in caught:
            click.echo(f"  {as_options(str(warning.message))}", err=True)
        if self.round_rotations:
            click.echo(f"  rotations turned to right angles: by {robot.rounding:.1e} rad at most", err=True)
        return robot


@dataclass(frozen=True)
class CarriedOptions:
    """Contacts and loops of a robot."""

    contact: tuple[list[tuple[str, str]], ...] = option(
        "Hold these frames or links in the constrained functions, as points unless fixed.",
        (),
        unit="FRAME[=fixed],...",
        type=Contacts(),
    )
    loop: tuple[tuple[str, str, str], ...] = option(
        "Tie two frames or links to each other in the constrained functions (repeatable).",
        (),
        unit="FRAME,FRAME[=fixed|hinge]",
        type=LoopOption(),
    )
    compliance: float | None = option(
        "Let contacts and loops give way by this much, 1/kg, if they hold a direction twice.",
        None,
        unit="NUMBER",
        type=NumberType(parameters.positive, "a number above 0"),
    )

    def __post_init__(self) -> None:
        if self.compliance and not (self.contact or self.loop):
            raise UsageError("--compliance needs --contact or --loop, whose compliance it is", code="DG-CLI-066")

    def on(self, robot: Robot) -> Robot:
        """Return the robot with these contacts and loops."""
        for contact in (contact for some in self.contact for contact in some):
            robot = robot.with_contact(*contact, compliance=self.compliance or 0.0)
        for loop in self.loop:
            robot = robot.with_loop(*loop, compliance=self.compliance or 0.0)
        return robot


def _limit() -> NamedNumber:
    return NamedNumber(parameters.positive, "LIMIT or JOINT=LIMIT with a number above 0", unnamed=True)


class _Effort(NamedNumber):
    """A limit, or "limits" for the effort limits of the file."""

    def __init__(self) -> None:
        super().__init__(parameters.positive, "limits, LIMIT or JOINT=LIMIT with a number above 0", unnamed=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        return ("", value) if value == "limits" else super().convert(value, param, ctx)


@dataclass(frozen=True)
class LimitOptions:
    """Limits of a region by joint, "" for all joints."""

    velocity: dict[str, float] = option(
        "Design for this speed of all joints, or JOINT= of one (repeatable), not both, rad/s or m/s.  [default: the "
        "limits in the file]",
        (),
        unit="[JOINT=]LIMIT",
        type=_limit(),
        callback=mapping,
    )
    acceleration: dict[str, float] = option(
        "Design for this acceleration of all joints, or JOINT= of one (repeatable), not both, rad/s² or m/s², and the "
        "torques that it needs.  [default: 10]",
        (),
        unit="[JOINT=]LIMIT",
        type=_limit(),
        callback=mapping,
    )
    effort: dict[str, Any] = option(
        "Design for this torque of all joints, or JOINT= of one (repeatable), not both, N m or N, instead of "
        "accelerations; `limits` takes the limits in the file.",
        (),
        unit="limits | [JOINT=]LIMIT",
        type=_Effort(),
        callback=mapping,
    )


def region_options(*, usual: bool = False, only_with: str = "") -> Callable[[Command], Command]:
    """The states that count. The command gets a Region after its Robot. usual: where joints lack a velocity limit, take
    USUAL_VELOCITY and say so, instead of asking for it. only_with: a flag without which there is no region; the command
    then gets None."""

    def decorated(command: Command) -> Command:
        @options_of(LimitOptions, "limits")
        @functools.wraps(command)
        def with_region(robot: Robot, limits: LimitOptions, **rest: Any) -> Any:
            if only_with and not rest[only_with]:
                refuse_without(only_with, vars(limits))
                return command(robot, None, **rest)
            return command(robot, _region(robot, vars(limits), usual=usual), **rest)

        return with_region

    return decorated


def first_given(names: Container[str]) -> str | None:
    """The first option of these parameters that the command line gives, as people type it."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name, is_option = parameter.name or "", isinstance(parameter, click.Option)
        if is_option and name in names and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            return parameter.opts[-1]
    return None


def refuse_without(flag: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError: one of these options is given, by name, and the flag is not."""
    for name, value in options.items():
        if value or isinstance(value, float):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} without --{flag}; expected both: it concerns only formats", code="DG-CLI-067")


def _region(robot: Robot, limits: dict[str, dict[str, Any]], *, usual: bool) -> Region:
    joints = [link.joint.name for link in robot.links if link.joint.nv]
    for limit, numbers in limits.items():
        check_joints(limit, numbers, joints)
    if limits["acceleration"] and limits["effort"]:
        raise UsageError(
            "--acceleration and --effort are both given; expected one: the other follows from it", code="DG-CLI-068"
        )
    chosen = {limit: one_or_named(numbers) for limit, numbers in limits.items()}
    try:
        return Region.of(robot, **chosen)
    except LimitError as error:
        if not usual or error.limit != "velocity":
            raise UsageError(_missing_limits(error), code=error.code) from None
        click.echo(
            f"  {USUAL_VELOCITY:g} rad/s or m/s taken for joints without a velocity limit (--velocity): "
            f"{', '.join(error.joints)}",
            err=True,
        )
        speeds = {**limits["velocity"], **dict.fromkeys(error.joints, USUAL_VELOCITY)}
        return Region.of(robot, **{**chosen, "velocity": speeds})


def check_joints(option: str, names: dict[str, Any] | Sequence[str], joints: Sequence[str]) -> None:
    """Raises BadParameter: an option names a joint that is not there."""
    for name in names:
        if name and name not in joints:
            raise BadParameter(
                f"no joint '{name}'{nearest(name, joints)}; expected one of {', '.join(joints)}",
                param_hint=f"'--{option}'",
                code="DG-CLI-069",
            )


def _missing_limits(error: LimitError) -> str:
    """Return the options to add for joints that lack a limit."""
    options = " ".join(f"--{error.limit} {shlex.quote(f'{name}={EXAMPLES[error.limit]}')}" for name in error.joints)
    return (
        f"the file has no {error.limit} limit for {', '.join(error.joints)}; add, with what the robot reaches "
        f"({TYPED[error.limit]}):\n  {options}"
    )
