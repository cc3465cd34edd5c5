"""Run Yosys in a separate process, which catches its output and returns its memory to the system."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from dynagate.base.errors import Error
from dynagate.base.process import python_command, python_environment, run


class YosysError(Error, RuntimeError):
    """Yosys is missing or failed; the text has the end of its output."""


def yosys_command(passes: Sequence[str]) -> list[str]:
    """Return the command that runs passes of Yosys on one design. Run it with `python_environment()`.

    Args:
        passes: Commands of Yosys.
    """
    program = "from pyosys import libyosys\ndesign = libyosys.Design()\n"
    return python_command(program + "".join(f"libyosys.run_pass({text!r}, design)\n" for text in passes))


def run_yosys(passes: Sequence[str], *, lines: int = 20) -> None:
    """Run passes of Yosys on one design.

    Args:
        passes: Commands of Yosys.
        lines: Number of output lines in an error.

    Raises:
        YosysError: Yosys is missing or fails.
    """
    if find_spec("pyosys") is None:
        raise YosysError(
            "Yosys is not installed; expected the extra: pip install 'dynagate[synth]'", code="DG-SYNTH-001"
        )
    run(yosys_command(passes), YosysError, name="Yosys", environment=python_environment(), lines=lines)
