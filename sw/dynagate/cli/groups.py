"""Help in groups: the options of a command by what they concern, the commands by what they are for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from dynagate import robots
from dynagate.base.errors import OptionError
from dynagate.cli.refusals import UsageError

OPTIONS = {
    "Robot": "floating-base lock ignore-friction allow-unphysical round-rotations unlimited lax trust-robot",
    "Constraints": "contact loop compliance",
    "Region, the states that count": "velocity acceleration effort",
    "Function and algorithm": "function form frame mass prefix variable outputs force",
    "Steps and rollouts": "knots samples dt integrator implicit-damping constrained tolerance linearize variable-dt",
    "Formats": "word proved certificate error target floor near-rest formats policy global",
    "Hardware": "ii units samples-per-run core stages axi tlast words choice style budget family liberty board clock",
    "Measurement": "states samples steps seed batch threads no-pinocchio pinocchio-float32 all boards rtl from to "
    "seconds controller jobs backend cluster goal simulator mutants mutant-seed",
    "Output": "show folder output open turn theme meshes port project-folder only-project report json record figures "
    "cuda integers single pack cmake fmu platform strict mutant-folder",
    "What to remove": "dry-run designs days",
}
"""The options of each group, in the groups' order in a help text. A command's options keep their own order."""

TITLES = tuple(dict.fromkeys(("Robot", "Input", *OPTIONS, "Options")))
"""Titles of the groups in a help text, in order."""

SHIPPED = ", ".join(robots.names())
ARGUMENTS = {
    "ROBOT": f"The path of a URDF file, or a robot that ships: {SHIPPED}.",
    "FOLDER|ROBOT": f"The folder of a design, the path of a URDF file, or a robot that ships: {SHIPPED}.",
    "FOLDER": "The folder of a design, as 'dynagate build' names it.",
    "TRAJECTORY": "An .npz file with `q`.",
    "CODE": "The code at the end of an error, such as DG-URDF-001.",
}
"""Descriptions of the positional arguments."""

COMMANDS = {
    "Look": "info check view report bench explain",
    "Hardware": "build run verify synth bitstream package",
    "Software": "emit",
    "Studies": "sweep closed-loop",
    "Installation": "doctor clean",
}
"""The commands of each group, in the order of the overview."""

FORMER = {
    name: f"report --show {view}"
    for name, view in (("schedule", "schedule"), ("wave", "waves"), ("together", "together"))
}
"""Former commands: the old name -> what to write now."""

FORMER_OPTIONS = {
    "--friction": "--force friction",
    "--friction-speed": "--force 'Friction(speed=0.05)'",
    "--stops": "--force stops",
}
"""Former options that are values of another option now: the old name -> what to write now."""

NAMES = {"goal": "--error", "ranges='proved'": "--proved", "budget": "--budget", "axi": "--axi"}
"""Options of Python that have another name on the command line, or are made of several options there."""

_BOTH = re.compile(r"\b[a-z_]+=[^\n]*? \((--[^\n]*?)\)(?=[ ;:.,]|$)", re.MULTILINE)
"""Options as Python takes them, and in brackets as the command line does."""

_GROUP_OF = {f"--{option}": group for group, names in OPTIONS.items() for option in names.split()}


class Command(click.Command):
    """A command whose help lists its options in groups. Options of no group come last, with --help."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error of an option that Python checks has the option's name on the command line."""
        try:
            return super().invoke(ctx)
        except OptionError as error:
            name, text = error.args
            known = {option.name: option.opts[-1] for option in self.params if isinstance(option, click.Option)}
            option = NAMES.get(name) or known.get(name)
            if option is None:
                raise
            raise UsageError(in_options(f"{option} {text}"), ctx, code=error.code) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {group: [] for group in TITLES}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                name = parameter.make_metavar(ctx)
                rows["Robot" if "ROBOT" in name else "Input"].append((name, ARGUMENTS[name.strip("[]")]))
            elif record := parameter.get_help_record(ctx):
                rows[_GROUP_OF.get(parameter.opts[0], "Options")].append(record)
        _write(formatter, rows.items())


class Overview(click.Group):
    """A group of commands whose help lists them by what they are for. Commands of no group come last."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {title: names.split() for title, names in COMMANDS.items()}
        grouped = {name for names in listed.values() for name in names}
        listed["Commands"] = [name for name in self.commands if name not in grouped]
        _write(
            formatter,
            (
                (title, [(name, self.commands[name].get_short_help_str(limit=80)) for name in names])
                for title, names in listed.items()
            ),
        )


def _write(formatter: click.HelpFormatter, sections: Iterable[tuple[str, list[tuple[str, str]]]]) -> None:
    for title, rows in sections:
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def in_options(text: str) -> str:
    """Return a text with the options of the command line, where it has both these and those of Python."""
    return _BOTH.sub(r"\1", text)


def command(**settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """`click.command` with help in groups. settings: short_help, epilog, name."""
    return click.command(cls=Command, **settings)
