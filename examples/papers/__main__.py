"""Run the scripts that reproduce figures of papers.

    python -m examples.papers --list                   # their names and commands
    python -m examples.papers --short                  # all of them, with small robots and few steps: minutes
    python -m examples.papers variational/figure_3     # some of them
    python -m examples.papers                          # all of them, in full: about an hour

An interrupted run continues with the same command: a script whose results exist is not run again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from examples.papers.index import SCRIPTS, Script

ROOT = Path(__file__).parents[2]


def run(script: Script, folder: Path, short: bool) -> tuple[int, float]:
    """Run a script in its own process, with results in `folder`. Return its exit status and processor time, s."""
    folder.mkdir(parents=True, exist_ok=True)
    before = os.times()
    status = subprocess.run(script.arguments(folder, short), cwd=ROOT, check=False).returncode
    after = os.times()
    return status, after.children_user + after.children_system - before.children_user - before.children_system


def chosen(names: list[str], parser: argparse.ArgumentParser) -> list[Script]:
    """Return the scripts with these names, or all of them."""
    known = {script.name: script for script in SCRIPTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no script {', '.join(unknown)}; expected one of {', '.join(known)}")
    return [known[name] for name in names] or list(SCRIPTS)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="scripts to run (all)")
    parser.add_argument("--list", action="store_true", help="print names and commands, run nothing")
    parser.add_argument("--short", action="store_true", help="small robots and few steps")
    parser.add_argument("--again", action="store_true", help="also run scripts whose results exist")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "papers", help="where results go (%(default)s)")
    options = parser.parse_args(arguments)
    scripts, failed = chosen(options.names, parser), []
    for script in scripts:
        folder = (options.folder / ("short" if options.short else "full") / script.name.split("/")[0]).resolve()
        if options.list:
            print(f"{script.name:26} {script.shown()}")
        elif (folder / script.result).exists() and not options.again:
            print(f"{script.name}: {folder / script.result} exists; --again runs it once more")
        elif find_spec(script.needs) is None:
            print(f"{script.name}: left out, because it needs {script.needs}: pip install '.[{script.extra}]'")
        else:
            print(f"{script.name}: {script.shown()}", flush=True)
            status, seconds = run(script, folder, options.short)
            print(f"{script.name}: exit status {status}, {seconds:.1f} s of processor time", flush=True)
            failed += [script.name] if status else []
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
