"""Options of commands that are made from the fields of dataclasses, and reach a command as one object."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

import click

from dynagate.base.errors import ArgumentError
from dynagate.base.option import Option, option_of
from dynagate.cli.groups import in_options
from dynagate.cli.parameters import count
from dynagate.cli.refusals import UsageError

Command = Callable[..., Any]


def with_options(command: Command, *options: Command) -> Command:
    """Return the command with these options, in this order in its help."""
    for each in reversed(options):
        command = each(command)
    return command


def options_of(kind: type[Any], argument: str = "options") -> Callable[[Command], Command]:
    """Return a decorator that gives a command the options of a dataclass.

    The command gets an object of the dataclass, made from the command line. Checks that concern several options are in
    the dataclass.

    Args:
        kind: The dataclass. Its fields that `base.option.option` made are options, in this order.
        argument: Name of the argument of the command that gets the object.
    """
    listed = [each for each in fields(kind) if option_of(each) is not None]

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def gathered(*positional: Any, **rest: Any) -> Any:
            values = {each.name: rest.pop(each.name) for each in listed}
            try:
                chosen = kind(**{name: value for name, value in values.items() if value is not None})
            except ArgumentError as error:
                raise UsageError(_with_names(in_options(error.text), listed), code=error.code) from None
            return command(*positional, **{argument: chosen}, **rest)

        return with_options(gathered, *map(click_option, listed))

    return decorated


def _with_names(text: str, listed: Sequence[Field[Any]]) -> str:
    """Return the text of an error with the names of options on the command line in place of the fields' names."""
    for each in listed:
        text = re.sub(rf"(?<![-\w]){each.name}\b", _name(each), text)
    return text


def _name(each: Field[Any]) -> str:
    described = option_of(each)
    assert described is not None
    return described.name or f"--{each.name.replace('_', '-')}"


def field_option(kind: type[Any], name: str, **settings: Any) -> Command:
    """Return the option of one field of a dataclass. settings: as of `click.option`, in place of those of the field."""
    return click_option(next(each for each in fields(kind) if each.name == name), **settings)


def click_option(each: Field[Any], **settings: Any) -> Command:
    """Return the option of a field. Its type follows from the annotation of the field."""
    described = option_of(each)
    assert described is not None
    name = _name(each)
    if each.type == "bool":
        return click.option(name, each.name, is_flag=True, help=described.help)
    default = None if each.default in (MISSING, ()) else each.default
    usual = {
        "default": default,
        "show_default": default is not None,
        "type": _type(described),
        "metavar": described.unit,
        "help": described.help,
        "required": each.default is MISSING,
        "callback": described.callback,
        "multiple": str(each.type).startswith(("tuple", "dict")),
    }
    if default is None:
        del usual["default"]  # click takes None for a value, which an option that is required then has
    return click.option(name, each.name, **{**usual, **settings})


def _type(described: Option) -> Any:
    """Return the type that click converts the value of an option with; None for a text."""
    if described.choices:
        return click.Choice(described.choices)
    return described.type if described.most is None else count(described.most, described.least)
