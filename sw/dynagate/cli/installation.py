"""Commands about the installation itself: doctor, clean."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from dynagate.base.option import option
from dynagate.cli import parameters
from dynagate.cli.fields import options_of
from dynagate.cli.groups import command
from dynagate.cli.options import examples
from dynagate.cli.parameters import NumberType
from dynagate.cli.refusals import UsageError
from dynagate.native.cache import UNUSED_DAYS, cache_folder


@command(
    short_help="List what is installed, what is missing, what to type.",
    epilog=examples("doctor"),
)
def doctor() -> None:
    """List what dynagate needs, and what of it is installed.

    The list has programs, the packages of each extra, compilers, the GPU, the cache and the devices of boards. The exit
    status is 0 if 'dynagate run' has everything that it needs, else 1.
    """
    from dynagate.cli.diagnosis import ToolState, diagnosed, is_ready, table
    from dynagate.cli.progress import TerminalProgress

    with TerminalProgress() as progress:
        rows = list(diagnosed(progress))
    click.echo(table(rows))
    if is_ready(rows):
        click.echo("all that 'dynagate run' needs is here: dynagate run iiwa14")
        return
    missing = [row.name for row in rows if row.state is ToolState.MISSING]
    click.echo(f"missing for 'dynagate run': {', '.join(missing)}")
    sys.exit(1)


@dataclass(frozen=True)
class CleanOptions:
    """Files that `clean` removes."""

    dry_run: bool = option("Print what would be removed and remove nothing.", False)
    designs: Path | None = option(
        "Remove old designs below this folder too; other files in it stay.",
        None,
        unit="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
    )
    days: float = option(
        "Remove only designs that are at least this many days old, with --designs.",
        str(UNUSED_DAYS),
        type=NumberType(parameters.real(lambda x: x >= 0.0), "a number of days, 0 or more"),
    )


@command(
    short_help="Remove the cache, and old designs on request.",
    epilog=examples("clean --dry-run", "clean --designs build/designs --days 30"),
)
@options_of(CleanOptions)
def clean(options: CleanOptions) -> None:
    """Remove compiled functions from the cache, and with --designs old designs, and print how much space is freed.

    Without --designs, nothing outside the cache is removed. Compiled functions are made again when they are needed.
    """
    designs, dry_run = options.designs, options.dry_run
    if designs is None and click.get_current_context().get_parameter_source("days") is ParameterSource.COMMANDLINE:
        raise UsageError(
            "--days without --designs; expected both: the cache is emptied whatever its age", code="DG-CLI-015"
        )
    from dynagate.cli.cleaning import cleaned, in_cache, megabytes, old_designs
    from dynagate.cli.progress import TerminalProgress

    with TerminalProgress() as progress:
        progress("looking for what can go")
        places = [(cache_folder(), "compiled folders", in_cache(cache_folder()))]
        if designs is not None:
            places.append((designs, "designs", old_designs(designs, options.days)))
        results = [cleaned(*place, dry_run=dry_run, progress=progress) for place in places]
    for result in results:
        click.echo(result.text())
    click.echo(f"{'would free' if dry_run else 'freed'} {megabytes(sum(result.bytes for result in results))}")
    faults = [fault for result in results for fault in result.faults]
    for fault in faults:
        click.echo(f"  stays: {fault}", err=True)
    sys.exit(1 if faults else 0)
