"""Types of arguments and options. Values are checked before any work; what is refused says what is expected."""

from __future__ import annotations

import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from dynagate import robots
from dynagate.base.nearest import nearest
from dynagate.cli.output import is_special
from dynagate.cli.refusals import BadParameter, ParamType
from dynagate.hw import boards
from dynagate.robot import Link
from dynagate.robot.descriptions import is_description

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

Number = Callable[[str], Any]
"""A text -> its number, or None where it is not one that the option takes."""


def whole(least: int, most: int) -> Number:
    """Whole numbers from least to most."""

    def number(text: str) -> int | None:
        short = re.fullmatch(r"[+-]?[0-9]{1,30}", text)
        return int(text) if short and least <= int(text) <= most else None

    return number


def real(accepts: Callable[[float], bool]) -> Number:
    """Finite decimal numbers that are accepted."""

    def number(text: str) -> float | None:
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        return value if math.isfinite(value) and accepts(value) else None

    return number


finite, positive = real(lambda x: True), real(lambda x: x > 0.0)
error_limit = real(lambda x: 0.0 < x < 1.0)


class NumberType(ParamType):
    """A single number. expected: which, in words."""

    name = "number"

    def __init__(self, number: Number, expected: str) -> None:
        self.number, self.expected = number, expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        number = self.number(value)
        return (
            self.fail(f"{value}; expected {self.expected}", param, ctx, code="DG-CLI-046") if number is None else number
        )


def count(most: int, least: int = 1) -> NumberType:
    """A whole number from least to most."""
    return NumberType(whole(least, most), f"a whole number from {least} to {most}")


class BoardOrFile(ParamType):
    """The name of a board, or the path of its file: what `boards.load` takes."""

    name = "board"

    def __init__(self) -> None:
        self._named = click.Choice(boards.names())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if boards.is_path(value) else self._named.convert(value, param, ctx)

    def get_metavar(self, *parameters: Any, **named: Any) -> str:
        return f"[{'|'.join(self._named.choices)}|FILE]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._named.shell_complete(ctx, param, incomplete)


class NamedNumber(ParamType):
    """Type of an option NAME=NUMBER. Its value is (name, number); the callback `mapping` makes a dict of several.

    Args:
        number: Function that returns the number of a text, or None.
        expected: What is accepted, for the error.
        names: The names that exist; any name unless given.
        unnamed: Accept a number without a name, under the empty name.
    """

    name = "name=number"

    def __init__(self, number: Number, expected: str, *, names: Sequence[str] = (), unnamed: bool = False) -> None:
        self.number, self.expected, self.names, self.unnamed = number, expected, names, unnamed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if not isinstance(value, str):
            return value
        name, equals, text = value.rpartition("=")
        number = self.number(text)
        named = bool(name) if equals else self.unnamed
        if number is None or not named or (self.names and name not in self.names):
            self.fail(f"{value}; expected {self.expected}", param, ctx, code="DG-CLI-047")
        return name, number

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names, or the joints of the robot before it."""
        names = self.names or [link.joint.name for link in links_before(ctx)]
        return completions([f"{name}=" for name in names], incomplete)


def mapping(ctx: click.Context, param: click.Parameter, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Callback of repeated options of type `NamedNumber`: numbers by name, each name once, and no name together with a
    number for all.
    """
    numbers = dict(pairs)
    for name in numbers:
        if sum(other == name for other, _ in pairs) > 1:
            raise BadParameter(
                f"'{name}' twice; expected each once" if name else "expected one number for all", code="DG-CLI-048"
            )
    if "" in numbers and len(numbers) > 1:
        raise BadParameter("one number for all, and numbers by name; expected not both", code="DG-CLI-049")
    return numbers


def one_or_named(numbers: dict[str, Any]) -> Any:
    """Return the number for all, the numbers by name, or None without numbers."""
    return numbers.get("", numbers or None)


class Words(ParamType):
    """FIRST:LAST, or a single word length -> a range."""

    name = "words"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if not isinstance(value, str):
            return value
        number = whole(self.least, self.most)
        ends = [number(text) for text in value.split(":")]
        if None in ends or len(ends) > 2 or ends[0] > ends[-1]:
            self.fail(
                f"{value}; expected word lengths FIRST:LAST such as 12:24, from {self.least} to {self.most} bits",
                param,
                ctx,
                code="DG-CLI-050",
            )
        return range(ends[0], ends[-1] + 1)


class RobotName(ParamType):
    """A shipped robot's name or the path of a URDF, xacro or MJCF file, which is there."""

    name = "robot"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if robots.is_path(value):
            if not os.path.isfile(value):
                fault = "is a folder" if os.path.isdir(value) else "no such file"
                stem = Path(value).stem
                known = f", or {stem}, which ships" if stem in robots.names() else ""
                self.fail(f"{value}: {fault}; expected a URDF file{known}", param, ctx, code="DG-CLI-051")
        elif value not in robots.names() and not is_description(value):
            shipped = robots.names()
            way_out = f"the file of this name, as ./{value}" if os.path.isfile(value) else "a URDF file's path"
            expected = f"expected one of {', '.join(shipped)}, or {way_out}"
            self.fail(f"no shipped robot '{value}'{nearest(value, shipped)}; {expected}", param, ctx, code="DG-CLI-052")
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return completions(robots.names(), incomplete) or [CompletionItem(incomplete, type="file")]


def completions(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """The names that begin as what is typed."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def several(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Names with commas between them, of which the last is not complete."""
    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(f"{before}{comma}{item.value}") for item in completions(names, last)]


def links_before(ctx: click.Context) -> Sequence[Link]:
    """The links of the robot on a command line that is not complete; none where there is no robot that can be read."""
    with suppress(Exception), warnings.catch_warnings():  # completion has nowhere to say what is wrong
        warnings.simplefilter("ignore")
        name = ctx.params.get("robot") or ctx.args[0]  # an option without its value keeps click from telling which
        return robots.load(name).links
    return ()


class Folder(ParamType):
    """A folder to write into, which need not be there yet. Nothing is left of the try."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        folder = Path(value)
        if folder.exists() and not folder.is_dir():
            self.fail(f"{folder} is not a folder; expected one, or a name that is free", param, ctx, code="DG-CLI-053")
        if fault := _fault_in(folder):
            self.fail(
                f"cannot write into {folder}: {fault}; expected a folder that can be written",
                param,
                ctx,
                code="DG-CLI-054",
            )
        return folder

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="dir")]


class File(ParamType):
    """A file to write, in a folder that is there. suffix: of its name, any unless given."""

    name = "file"

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        file = Path(value)
        if file.is_dir():
            self.fail(f"{file} is a folder; expected a file's name", param, ctx, code="DG-CLI-055")
        if self.suffix and file.suffix != self.suffix and not is_special(file):
            self.fail(f"{file}; expected a name that ends in {self.suffix}", param, ctx, code="DG-CLI-056")
        if not file.parent.is_dir():
            self.fail(
                f"no folder {file.parent}; expected a file in a folder that is there", param, ctx, code="DG-CLI-057"
            )
        if file.exists() and not os.access(file, os.W_OK):
            self.fail(f"cannot write {file}; expected a file that can be written", param, ctx, code="DG-CLI-058")
        if not is_special(file) and (fault := _fault_in(file.resolve().parent)):
            self.fail(
                f"cannot write {file}: {fault}; expected a file that can be written", param, ctx, code="DG-CLI-059"
            )
        return file

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


def _fault_in(folder: Path) -> str | None:
    """Why nothing can be made in a folder, or in the nearest one above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".dynagate-"):
            return None
    except OSError as error:
        return error.strerror or str(error)
