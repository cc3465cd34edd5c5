"""Yosys in a process of its own: what it prints is caught, and what it takes of memory goes back."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from dynagate.base.errors import Error
from dynagate.base.process import python_command, python_environment, run


class YosysError(Error, RuntimeError):
    """Yosys is missing or failed; the text has the end of what it printed."""


def run_yosys(passes: Sequence[str], *, lines: int = 20) -> None:
    """Run the passes on one design. Raises YosysError with this many lines."""
    if find_spec("pyosys") is None:
        raise YosysError("Yosys is not installed; expected the extra: pip install 'dynagate[synth]'")
    program = "from pyosys import libyosys\ndesign = libyosys.Design()\n"
    program += "".join(f"libyosys.run_pass({text!r}, design)\n" for text in passes)
    run(python_command(program), YosysError, name="Yosys", environment=python_environment(), lines=lines)
