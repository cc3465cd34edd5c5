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
    mutants: int | None = option(
        "Change the Verilog in one place at a time, and print how many of this many mutants the benches notice.",
        None,
        most=100_000,
    )
    mutant_seed: int = option("Draw the mutants with this seed.", 1, least=0, most=2**63 - 1)
    mutant_folder: Path = option(
        "Keep the verdicts and the surviving mutants in this folder.",
        Path("build/mutants"),
        unit="FOLDER",
        type=click.Path(path_type=Path),
    )


@command(
    short_help="Run the benches in a design's folder.",
    epilog="""\b
Examples:
  dynagate verify build/designs/iiwa14-forward_dynamics_gradient-ii8-0123456789ab
  dynagate verify build/designs/iiwa14-forward_dynamics_gradient-ii8-0123456789ab --simulator icarus --seed 7
  dynagate verify build/designs/iiwa14-forward_dynamics_gradient-units4-0123456789ab --simulator verilator
  dynagate verify build/designs/two_joint_arm-inverse_dynamics-ii4-0123456789ab --mutants 50""",
)
@needs("sim", "amaranth", "scipy", "verilator", "cocotb")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@options_of(VerifyOptions)
def verify(folder: Path, options: VerifyOptions) -> None:
    """Run the Verilog bench and the cocotb bench of the design or program in FOLDER.

    The output has samples, cycles, errors and functional coverage. The exit status is 0 if all benches pass, else 1. An
    edited bench is refused. With --mutants, only the Verilog benches run, on changed copies of the design; the status
    is 0 if at least 98 % of the mutants die that are not equivalent.
    """
    simulators, seed = options.simulators, options.seed
    if not any((folder / name).is_file() for name in (FILE, OLD_PROGRAM)):
        expected = "expected a folder that `dynagate build` printed"
        raise BadParameter(f"no {FILE} in {folder}; {expected}", param_hint="FOLDER", code="DG-CLI-099")
    if "verilator" in simulators:
        require_programs("'dynagate verify'", simulation_programs())
    from dynagate.cli.progress import TerminalProgress
    from dynagate.sim.verify import verify as verified

    if options.mutants is not None:
        from dynagate.sim.mutation import mutate

        if seed is not None:
            raise BadParameter(
                "--seed draws new states, and --mutants runs the benches of the folder; give one of the two, or "
                "--mutant-seed for other mutants",
                param_hint="--mutants",
                code="DG-CLI-107",
            )
        with TerminalProgress() as progress:
            run = mutate(
                folder, options.mutants, options.mutant_seed, options.mutant_folder, simulators, progress=progress
            )
        click.echo(run.text())
        sys.exit(0 if run.passed else 1)
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
