"""Tcl scripts with commands that are Python functions: by tkinter's interpreter, or by tclsh where tkinter lacks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

Command = Callable[..., str | None]


class TclError(Exception):
    """A script that failed; the text is Tcl's message."""


def engines() -> list[str]:
    """The interpreters that this machine has; a test fails where there is none."""
    return [
        name for name, is_there in (("tkinter", find_spec("_tkinter")), ("tclsh", shutil.which("tclsh"))) if is_there
    ]


def run(script: Path, commands: Mapping[str, Command], engine: str) -> None:
    """Run a script. Raises TclError; errors of commands are errors of Tcl."""
    {"tkinter": _run_tkinter, "tclsh": _run_tclsh}[engine](script, commands)


def _run_tkinter(script: Path, commands: Mapping[str, Command]) -> None:
    import tkinter

    tcl = tkinter.Tcl()
    failures: list[str] = []

    def wrapped(command: Command) -> Callable[..., str]:
        def call(*arguments: object) -> str:
            try:
                return command(*map(str, arguments)) or ""
            except TclError as error:
                failures.append(str(error))
                raise

        return call

    for name, command in commands.items():
        if "::" in name:
            tcl.call("namespace", "eval", name.rpartition("::")[0], "")
        tcl.createcommand(name, wrapped(command))
    try:
        tcl.call("source", str(script))
    except (tkinter.TclError, TclError) as error:
        raise TclError(failures[-1] if failures else str(error)) from None


_PRELUDE = r"""
fconfigure stdin -translation lf
fconfigure stdout -translation lf
rename puts _puts
proc _call args {
  _puts stdout [join [lmap text $args {binary encode hex [encoding convertto utf-8 $text]}] ,]
  flush stdout
  gets stdin answer
  set text [encoding convertfrom utf-8 [binary decode hex [string range $answer 1 end]]]
  if {[string index $answer 0] eq "E"} {error $text}
  return $text
}
proc _define name {
  if {[namespace qualifiers $name] ne ""} {namespace eval [namespace qualifiers $name] {}}
  proc ::$name args "::_call $name {*}\$args"
}
"""


def _run_tclsh(script: Path, commands: Mapping[str, Command]) -> None:
    program = [_PRELUDE, *(f"_define {name}" for name in commands)]
    program.append("if {[catch {source [lindex $argv 0]} message]} {_call _failed $message} else {_call _done}")
    prelude = script.parent / ".prelude.tcl"
    prelude.write_text("\n".join(program))
    with subprocess.Popen(
        ["tclsh", str(prelude), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        message: str | None = "tclsh ended"
        for line in process.stdout:
            name, *arguments = (bytes.fromhex(part).decode() for part in line.rstrip("\n").split(","))
            status, text = "O", ""
            if name == "_done":
                message = None
            elif name == "_failed":
                message = arguments[0]
            else:
                try:
                    text = commands[name](*arguments) or ""
                except TclError as error:
                    status, text = "E", str(error)
            process.stdin.write(status + text.encode().hex() + "\n")
            process.stdin.flush()
    prelude.unlink()
    if message is not None:
        raise TclError(message)
