"""The command that packages an accelerator for other tools: package."""

from __future__ import annotations

from pathlib import Path

import click

from dynagate.cli.extras import needs
from dynagate.cli.groups import command


@command(
    short_help="Write IP-XACT, SystemRDL, FuseSoC, LiteX, Amaranth and VHDL files.",
    epilog="""\b
Examples:
  dynagate package build/designs/iiwa14-forward_dynamics_gradient-ii8-0123456789ab
  dynagate package build/designs/iiwa14-forward_dynamics_gradient-ii8-0123456789ab --output ip/gradient""",
)
@needs("hw", "amaranth")
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write the package into this folder.  [default: the folder 'ip' in that of the design]",
)
def package(folder: Path, output: Path | None) -> None:
    """Write the accelerator in FOLDER as a package for other tools, and print the package's folder.

    The package holds the Verilog, an IP-XACT component, the register map as SystemRDL and as a C header, a FuseSoC
    core file, a LiteX module, Amaranth components, and a VHDL entity. The design needs an AXI shell: build it with
    --axi."""
    from dynagate.hw.targets.ip import write_ip

    place = write_ip(folder, output)
    click.echo(place)
    for name in sorted(path.name for path in place.iterdir() if path.is_file()):
        click.echo(f"  {name}", err=True)
