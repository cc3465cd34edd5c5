"""The options of several commands: what to compute, by which algorithm, in which formats and pipeline."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.base.option import option
from dynagate.cli import parameters
from dynagate.cli.fields import Command, field_option, with_options
from dynagate.cli.parameters import BoardOrFile, NamedNumber, NumberType, count, mapping, one_or_named
from dynagate.cli.refusals import BadParameter, ParamType, UsageError
from dynagate.cli.robot import refuse_without
from dynagate.dynamics import (
    ALIASES,
    ALL,
    FRAME_FUNCTIONS,
    LISTED,
    ROLLOUT,
    TOGETHER,
    FunctionRow,
    function,
)
from dynagate.fixedpoint.assign import LARGEST_WORD, SMALLEST_WORD
from dynagate.fixedpoint.wordlength.goal import MULTIPLIERS
from dynagate.forces import FORCES, Force, ForceError, Friction, as_text, of_text
from dynagate.forces.force import check_forces
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.expression_frames import FRAMES
from dynagate.hw import boards
from dynagate.hw.options import DesignOptions
from dynagate.hw.plan.schedule import MOST_STAGES
from dynagate.robot import Robot, RobotError
from dynagate.robot.variable import check_inputs

DEFAULT_WORD = 24
MOST_STATES = 10_000_000
FEWEST_UNITS, MOST_UNITS = 2, 8
"""Smallest and largest number of units, as in `hw.processor`, which needs Amaranth."""
SOLVERS = ("ilqr", "mppi")
POSING = "inverse_kinematics"
"""A function of commands that have --knots."""
WORDS = parameters.Words(SMALLEST_WORD, LARGEST_WORD)

ii_option = field_option(DesignOptions, "ii")


def units_option(command: Command) -> Command:
    """--units and --board, which pipeline options do not go with, and options of programs."""

    @functools.wraps(command)
    def checked(*robot: Any, **rest: Any) -> Any:
        board = rest.pop("core_of")
        if board is not None:
            if rest["units"] is not None:
                raise UsageError(
                    "--units with --board; expected one of them: the board's cores have their units", code="DG-CLI-025"
                )
            from dynagate.hw.processor.board import cores_of

            rest["units"] = own = cores_of(boards.load(board))
            core = own.core
            if click.get_current_context().params.get("word") is None:
                rest["word"] = core.word
            if rest["words"] not in (None, core.stream_words):
                raise UsageError(
                    f"--words {rest['words']} with --board {board}; expected --words {core.stream_words}, which its "
                    "cores have, or neither",
                    code="DG-CLI-026",
                )
        source = click.get_current_context().get_parameter_source("ii")
        if rest["units"] is not None and source is ParameterSource.COMMANDLINE:
            raise UsageError("--units with --ii; expected one of them: a program has no --ii", code="DG-CLI-027")
        return command(*robot, **rest)

    return with_options(
        checked,
        click.option(
            "--units",
            type=count(MOST_UNITS, FEWEST_UNITS),
            metavar="UNITS",
            help="Make a program for a processor with this many multiply-add units, instead of a pipelined datapath.",
        ),
        click.option(
            "--board",
            "core_of",
            type=BoardOrFile(),
            help="Make a program for the processor cores of this board (see bitstream --core).",
        ),
        field_option(DesignOptions, "samples_per_run"),
        field_option(DesignOptions, "words"),
    )


seed_option = click.option(
    "--seed", default=1, show_default=True, type=count(2**63 - 1, 0), help="Draw the random states from this seed."
)


def posed_frame(value: str) -> str:
    """Return the frame of a name such as inverse_kinematics_tool, else an empty string."""
    return value.removeprefix(f"{POSING}_") if value.startswith(f"{POSING}_") else ""


def is_solver(value: str) -> bool:
    """Return whether a value of --function names a solver."""
    return value in SOLVERS or bool(posed_frame(value))


def _no_solver(value: str) -> str:
    """Return an error text if a solver is listed among functions, else an empty string."""
    name = next((each for each in value.split(",") if is_solver(each) or each == POSING), None)
    called = POSING if name is not None and name.startswith(POSING) else name
    named = f"{POSING}_FRAME" if name == POSING else name
    expected = f"`dynagate run ROBOT --function {named} --units 8`, or dynagate.{called}(robot, ...) in Python"
    return "" if name is None else f"'{name}' is a solver and no function; expected only its name: {expected}"


class FunctionNames(ParamType):
    """A function's name, several with commas between them, or all."""

    name = "function"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if is_solver(value) and ctx is not None and any(each.name == "knots" for each in ctx.command.params):
            return value
        if wrong := _no_solver(value):
            self.fail(wrong, param, ctx, code="DG-CLI-028")
        for name in value.split(",") if value != ALL else ():
            if not name.strip():
                self.fail(
                    f"'{value}' has an empty name; expected names with commas and no blanks between",
                    param,
                    ctx,
                    code="DG-CLI-029",
                )
            if name not in (*LISTED, *ALIASES, ROLLOUT) and not name.startswith(tuple(FRAME_FUNCTIONS)):
                self.fail(
                    f"no function '{name}'{nearest(name, [*LISTED, ROLLOUT])}; expected one or more of "
                    f"{', '.join(LISTED)}, or {ALL}, or {ROLLOUT}",
                    param,
                    ctx,
                    code="DG-CLI-030",
                )
        try:
            return function(value).name
        except ArgumentError as error:
            self.fail(error.text, param, ctx, code=error.code)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return parameters.several([*LISTED, ALL], incomplete)


def _functions_before(ctx: click.Context) -> list[FunctionRow]:
    """Return the functions that an incomplete command line names; all functions if it names none."""
    name = ctx.params.get("name")
    return [function(name)] if name else list(LISTED.values())


def _complete_form(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return parameters.completions(_forms(_functions_before(ctx)), incomplete)


def _complete_outputs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    outputs = [output.name for row in _functions_before(ctx) for output in row.outputs]
    return parameters.several(dict.fromkeys(outputs), incomplete)


def _outputs(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Return the names in a list of outputs; none if the option is not passed."""
    if text is None:
        return ()
    names = tuple(text.split(","))
    if not all(names):
        raise BadParameter(
            f"'{text}' has an empty name; expected names with commas between, such as qdd,minv", code="DG-CLI-031"
        )
    return names


def _complete_link(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return parameters.completions([link.name for link in parameters.links_before(ctx)], incomplete)


class FunctionName(ParamType, click.Choice[str]):
    """A listed function's name, or that of a function of one frame."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (value in ALIASES or value.startswith(tuple(FRAME_FUNCTIONS))):
            return FunctionNames().convert(value, param, ctx)
        if isinstance(value, str) and (wrong := _no_solver(value)):
            self.fail(wrong, param, ctx, code="DG-CLI-032")
        if isinstance(value, str) and value not in self.choices and (near := nearest(value, [*LISTED, *ALIASES])):
            self.fail(
                f"no function '{value}'{near}; expected one of {', '.join(LISTED)}", param, ctx, code="DG-CLI-033"
            )
        return super().convert(value, param, ctx)


DEFAULT_FUNCTION = "forward_dynamics_gradient"
"""The function of commands that are called without one."""


def function_option(
    text: str, *, several: bool = False, motions: bool = False, default: str | None = DEFAULT_FUNCTION
) -> Command:
    """Return the option --function.

    Args:
        text: Begin of the help.
        several: Accept several functions, and a rollout.
        motions: Accept a rollout.
        default: The function unless another is given; None for an option that may be left out.
    """
    more = f"; several with commas, or {ALL} for {', '.join(TOGETHER)}" if several else ""
    more += f"; or {ROLLOUT}" if several or motions else ""
    more += f"; or, with _ and the name of a frame, {', '.join(FRAME_FUNCTIONS)}"
    return click.option(
        "--function",
        "name",
        default=default,
        type=FunctionNames() if several else FunctionName([*LISTED, *([ROLLOUT] if motions else [])]),
        metavar="FUNCTION",
        show_default=default is not None,
        help=f"{text}: {', '.join(LISTED)}{more}.",
    )


def states_option(default: int, text: str) -> Command:
    return click.option("--states", default=default, show_default=True, type=count(MOST_STATES), help=text)


def folder_option(text: str, **settings: Any) -> Command:
    return click.option("--folder", type=parameters.Folder(), metavar="FOLDER", help=text, **settings)


@dataclass(frozen=True)
class FormatOptions:
    """Source of formats, unless a file of them is passed."""

    word: int | None = option(
        f"Give every value this many bits.  [default: {DEFAULT_WORD}]",
        None,
        unit="BITS",
        least=SMALLEST_WORD,
        most=LARGEST_WORD,
    )
    errors: dict[str, float] = option(
        "Find word lengths with this relative L2 error in 99.9 % of the states for all outputs, or BLOCK= for one "
        "output such as dqdd_dq (repeatable), not both.",
        (),
        name="--error",
        unit="[BLOCK=]ERROR",
        type=NamedNumber(parameters.error_limit, "ERROR or BLOCK=ERROR with a number between 0 and 1", unnamed=True),
        callback=mapping,
    )
    target: str | None = option(
        f"Choose word lengths that fill this multiplier, with --error.  [default: {next(iter(MULTIPLIERS))}]",
        None,
        choices=tuple(MULTIPLIERS),
    )
    floor: float | None = option(
        "Measure the error of a small block relative to this part of its root mean square, with --error.  "
        "[default: 0.1]",
        None,
        unit="PART",
        type=NumberType(parameters.real(lambda x: 0.0 <= x <= 1.0), "a number from 0 to 1"),
    )
    near_rest: bool = option("Meet the error for states near rest too, with --error.", False)

    def check(self, formats: Path | None, function: FunctionRow) -> None:
        """Raise an error if formats come from two places, or an error is that of a block that there is not."""
        places = (("--word", self.word), ("--error", self.errors), ("--formats", formats))
        named = [name for name, value in places if value]
        if len(named) > 1:
            raise UsageError(
                f"{' and '.join(named)} are both given; expected one: each decides the formats", code="DG-CLI-034"
            )
        for name in ("target", "floor", "near_rest"):
            if getattr(self, name) is not None and getattr(self, name) is not False and not self.errors:
                text = f"--{name.replace('_', '-')} without --error; expected both: it refines an error"
                raise UsageError(text, code="DG-CLI-035")
        blocks = [output.name for output in function.outputs]
        for block in self.errors:
            if block and block not in blocks:
                raise BadParameter(
                    f"no output block '{block}'{nearest(block, blocks)}; {function.name} has {', '.join(blocks)}",
                    param_hint="'--error'",
                    code="DG-CLI-036",
                )

    def goal(self) -> Any:
        """Return the `Goal` that --error and the options that refine it describe, or None."""
        from dynagate.fixedpoint.wordlength.goal import DSP48E2, FLOOR, Goal

        if not self.errors:
            return None
        return Goal(
            one_or_named(self.errors),
            floor=FLOOR if self.floor is None else self.floor,
            kinds=("uniform", "rest") if self.near_rest else ("uniform",),
            dsp=MULTIPLIERS[self.target] if self.target else DSP48E2,
        )


@dataclass(frozen=True)
class PlanOptions:
    """Register stages of a datapath, and the proof of its ranges."""

    stages: dict[str, int] = option(
        "Add this many pipeline registers after each product or sum.",
        (),
        unit="multiply=N | add=N",
        type=NamedNumber(
            parameters.whole(0, MOST_STAGES),
            f"multiply=N or add=N, N a whole number from 0 to {MOST_STAGES}",
            names=("multiply", "add"),
        ),
        callback=mapping,
    )
    proved: bool = option(
        "Prove that no state of the region overflows, and how large an error can be; not together with --error.", False
    )


FORMAT_OPTIONS = (
    *(field_option(FormatOptions, each.name) for each in fields(FormatOptions)),
    field_option(DesignOptions, "formats", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
)
"""Options for the source of formats."""

STAGES, PROVED = (field_option(PlanOptions, each.name) for each in fields(PlanOptions))


CERTIFICATE = field_option(DesignOptions, "certificate")


def _check_proofs(rest: dict[str, Any]) -> None:
    """Raises UsageError: --proved does not go with other options."""
    if rest["proved"] and rest["errors"]:
        raise UsageError(
            "--proved and --error are both given; expected one: an error holds for samples, a proof for all states",
            code="DG-CLI-037",
        )


def design_options(command: Command, *, interval: Command = ii_option) -> Command:
    """Function, interval, formats, stages and folder. The command gets a `Goal` or None as `goal`, and `Stages`.
    interval: the option --ii."""

    @functools.wraps(command)
    def checked(*robot: Any, **rest: Any) -> Any:
        from dynagate.hw.plan.plan import Stages

        _check_proofs(rest)
        rest["stages"] = Stages(**rest["stages"]) if rest["stages"] else None
        return command(*robot, **_formats(rest))

    return with_options(
        checked,
        function_option("Build this function", several=True),
        interval,
        *FORMAT_OPTIONS,
        PROVED,
        CERTIFICATE,
        STAGES,
        folder_option("Write designs into this folder.", default="build/designs", show_default=True),
    )


def integer_options(command: Command) -> Command:
    """The options of the formats of --integers, which is a field of the command's `options`.

    The command gets a `Goal` or None as `goal`, `word`, `formats`, a file or None, `proved` and `certificate`.
    """

    @functools.wraps(command)
    def checked(*robot: Any, **rest: Any) -> Any:
        if not rest["options"].integers:
            refuse_without(
                "integers",
                {name: rest[name] for name in ("word", "target", "floor", "near_rest", "formats")}
                | {name: rest[name] or None for name in ("proved", "certificate")},
            )
            refuse_without("integers", {"error": rest["errors"]})
        _check_proofs(rest)
        return command(*robot, **_formats(rest))

    return with_options(
        checked,
        *FORMAT_OPTIONS,
        PROVED,
        CERTIFICATE,
    )


def _formats(rest: dict[str, Any]) -> dict[str, Any]:
    """The options of a command, those of formats as `word`, `goal` and `formats`."""
    chosen = FormatOptions(**{each.name: rest.pop(each.name) for each in fields(FormatOptions)})
    chosen.check(rest["formats"], function(rest["name"]))
    return {**rest, "goal": chosen.goal(), "word": chosen.word or DEFAULT_WORD}


class _Frame(ParamType):
    """A frame's name, or the index of a link."""

    name = "frame"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        index = parameters.whole(0, 10**6)(value)
        if index is None and value not in FRAMES:
            self.fail(
                f"{value}; expected {', '.join(FRAMES)}, or a link's index, 0 or more", param, ctx, code="DG-CLI-038"
            )
        return value if index is None else index

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return parameters.completions(FRAMES, incomplete)


class _Force(ParamType):
    """A force as text, stored in the form that designs keep."""

    name = "force"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return as_text(of_text(value))
        except (ForceError, ArgumentError) as error:
            self.fail(error.text, param, ctx, code=error.code)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return parameters.completions(FORCES, incomplete)


_FRAME_HELP = f"Express the gradients in this frame: {', '.join(FRAMES)}, or a link's index."


def algorithm_options(command: Command) -> Command:
    """The command gets them as one object, `algorithm`, checked for its function; for any where it has none."""

    @functools.wraps(command)
    def gathered(robot: Robot, *region: Any, form: str | None, prefix: bool, **rest: Any) -> Any:
        chosen = {"form": form, "frame": rest.pop("frame"), "mass": rest.pop("mass"), "prefix": prefix or None}
        chosen["forces"] = rest.pop("forces") or None
        chosen = {option: value for option, value in chosen.items() if value is not None}
        functions = [function(rest["name"])] if rest.get("name") else list(LISTED.values())
        _check_algorithm(robot, functions, chosen)
        return command(robot, *region, algorithm=AlgorithmOptions(**chosen), **rest)

    return with_options(
        gathered,
        field_option(AlgorithmOptions, "form", shell_complete=_complete_form),
        field_option(AlgorithmOptions, "frame", type=_Frame(), help=_FRAME_HELP),
        field_option(AlgorithmOptions, "mass"),
        field_option(AlgorithmOptions, "prefix"),
        field_option(AlgorithmOptions, "forces", type=_Force(), multiple=True, default=None, show_default=False),
    )


def outputs_option(command: Command) -> Command:
    """Below `algorithm_options`: chosen outputs are those of the object `algorithm`, variable parameters are the
    robot's."""

    @functools.wraps(command)
    def checked(
        robot: Robot,
        *region: Any,
        outputs: tuple[str, ...],
        variable: tuple[str, ...],
        algorithm: AlgorithmOptions,
        **rest: Any,
    ) -> Any:
        if variable:
            try:
                robot = robot.with_variable(*variable)
                check_inputs(robot, [argument.name for argument in function(rest["name"]).inputs])
            except RobotError as error:
                raise BadParameter(error.text, param_hint="'--variable'", code=error.code) from None
            region = tuple(each if each is None else each.of_robot(robot) for each in region)
        if outputs:
            algorithm = replace(algorithm, outputs=outputs)
            _check_outputs(function(rest["name"]), outputs)
        return command(robot, *region, algorithm=algorithm, **rest)

    return with_options(
        checked,
        click.option(
            "--variable",
            multiple=True,
            metavar="NAME",
            shell_complete=_complete_link,
            help="Make this parameter of the robot an input, such as forearm.mass or gravity (repeatable).",
        ),
        field_option(AlgorithmOptions, "outputs", shell_complete=_complete_outputs, callback=_outputs),
    )


def _check_outputs(row: FunctionRow, outputs: Sequence[str]) -> None:
    if row.parts:
        raise UsageError(
            f"--outputs of several functions ({row.name}); expected --function with fewer of them", code="DG-CLI-039"
        )
    known = [argument.name for argument in row.outputs]
    for name in outputs:
        if name not in known:
            raise BadParameter(
                f"no output '{name}'{nearest(name, known)}; {row.name} has {', '.join(known)}",
                param_hint="'--outputs'",
                code="DG-CLI-040",
            )


def _forms(functions: Sequence[FunctionRow]) -> list[str]:
    """The names of the forms of some functions, each once, loops over links the last."""
    from dynagate.dynamics.functions.record import SCAN, SCANS

    forms = list(dict.fromkeys(form for row in functions for form in row.forms))
    return [*forms, SCAN] if any(row.name in SCANS for row in functions) else forms


def _check_algorithm(robot: Robot, functions: Sequence[FunctionRow], algorithm: dict[str, Any]) -> None:
    """Raises BadParameter: none of the functions has this form or option, or the robot no such link."""
    forms = _forms(functions)
    form = algorithm.get("form")
    if form is not None and form not in forms:
        known = f"{functions[0].name} has {', '.join(forms)}" if len(functions) == 1 else f"expected {', '.join(forms)}"
        raise BadParameter(f"no form '{form}'{nearest(form, forms)}; {known}", param_hint="'--form'", code="DG-CLI-041")
    frame = algorithm.get("frame")
    if isinstance(frame, int) and frame >= len(robot.links):
        raise BadParameter(
            f"no link {frame}; expected a link's index from 0 to {len(robot.links) - 1}, or {', '.join(FRAMES)}",
            param_hint="'--frame'",
            code="DG-CLI-042",
        )
    taken: set[str] = set()
    for row in functions:
        # a single function is traced in its first form unless another is requested, all functions in all forms
        used = [form] if form else list(row.forms)[: 1 if len(functions) == 1 else None]
        taken.update(name for each in used for name in row.options.get(each, ()))
    for name in sorted(algorithm.keys() - {"form", "forces"} - taken):
        what = f"form {form}" if form else functions[0].name
        raise UsageError(
            f"{what} has no option --{name.replace('_', '-')}; expected it left out, or another form or function",
            code="DG-CLI-043",
        )
    _check_forces(robot, functions, [of_text(force) for force in algorithm.get("forces", ())])


def _check_forces(robot: Robot, functions: Sequence[FunctionRow], forces: Sequence[Force]) -> None:
    """Raise BadParameter if no function has one of the forces, or the robot's file lacks the friction to read."""
    try:
        check_forces(forces)
    except ArgumentError as error:
        raise BadParameter(error.text, param_hint="'--force'", code=error.code) from None
    if functions[0].name == ROLLOUT:
        return
    for force in forces:
        if not (isinstance(force, Friction) and any(row.takes_friction for row in functions)):
            raise UsageError(
                f"{functions[0].name} has no force {force.name}; expected "
                + ("Friction" if functions[0].takes_friction else "no --force")
                + f", or --function {ROLLOUT}",
                code="DG-CLI-044",
            )
        if force.force is True and not any(link.joint.friction for link in robot.links):
            raise BadParameter(
                f"no joint of {robot.name} has friction in its file; expected a number in N m or N, 'Friction(0.3)'",
                param_hint="'--force'",
                code="DG-CLI-045",
            )


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\n".join(["\b", "Examples:", *(f"  dynagate {line}" for line in lines)])
