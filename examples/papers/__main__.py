"""Run the commands of docs/papers.md and report each row of the page.

    python -m examples.papers --list                   # names and commands of the page
    python -m examples.papers --short                  # all of them, with small robots and few steps: minutes
    python -m examples.papers variational/figure_3     # some of them
    python -m examples.papers                          # all of them, in full: about an hour

An interrupted run continues with the same command: a script that has finished is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from examples.papers.index import ROOT, Script, rows, scripts

DONE = "done"
Runs = dict[str, dict[str, Any]]
"""Command, result and processor time of each script that was run, by name."""


def run(script: Script, folder: Path, short: bool) -> tuple[int, float]:
    """Run a script in its own process, with results in `folder`. Return its exit status and processor time, s."""
    folder.mkdir(parents=True, exist_ok=True)
    before = os.times()
    status = subprocess.run(script.arguments(folder, short), cwd=ROOT, check=False).returncode
    after = os.times()
    return status, after.children_user + after.children_system - before.children_user - before.children_system


def chosen(names: list[str], parser: argparse.ArgumentParser) -> list[Script]:
    """Return the scripts with these names, or all of them."""
    known = scripts()
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no script {', '.join(unknown)}; expected one of {', '.join(known)}")
    return [known[name] for name in names or known]


def completed(script: Script, runs: Runs) -> bool:
    """Return whether the script has run without an error, with the command that the page has now."""
    before = runs.get(script.name, {})
    return bool(before.get("result") == DONE and before.get("command") == script.command)


def table(chosen: list[Script], runs: Runs) -> str:
    """Return a line for each row of the page whose script is chosen: processor time, result, figure and verdict."""
    names = {script.name for script in chosen}
    lines, paper = [f"{'CPU s':>8}  {'result':14}  figure: verdict of the page"], ""
    for row in rows():
        if row.script.name in names:
            own = runs.get(row.script.name, {})
            lines += [row.paper] if row.paper != paper else []
            seconds = f"{own['cpu_s']:.1f}" if "cpu_s" in own else "-"
            lines += [f"{seconds:>8}  {own.get('result', 'not run'):14}  {row.figure}: {row.verdict}"]
            lines += [f"{'':26}{row.command}"]
            paper = row.paper
    return "\n".join(lines)


def run_all(chosen: list[Script], folder: Path, *, short: bool, again: bool) -> Runs:
    """Run scripts that have not finished before, and keep what each took in runs.json of the folder."""
    file = folder / "runs.json"
    runs: Runs = json.loads(file.read_text()) if file.exists() else {}
    for script in chosen:
        name, needs = script.name, script.kind.needs
        if completed(script, runs) and not again:
            print(f"{name}: finished before, in {runs[name]['cpu_s']} s of processor time; --again runs it once more")
        elif find_spec(needs) is None:
            print(f"{name}: left out, because it needs {needs}: pip install '.[{script.kind.extra}]'")
            runs[name] = {"command": script.command, "result": f"needs {needs}"}
        else:
            print(f"{name}: {script.command}", flush=True)
            status, seconds = run(script, folder / name, short)
            print(f"{name}: exit status {status}, {seconds:.1f} s of processor time", flush=True)
            result = f"exit status {status}" if status else DONE
            runs[name] = {"command": script.command, "result": result, "cpu_s": round(seconds, 1)}
            new = file.with_suffix(".new")  # a kill while writing leaves the file as it was
            new.write_text(json.dumps(runs, indent=1) + "\n")
            new.replace(file)
    return runs


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="scripts to run (all)")
    parser.add_argument("--list", action="store_true", help="print names and commands, run nothing")
    parser.add_argument("--short", action="store_true", help="small robots and few steps")
    parser.add_argument("--again", action="store_true", help="also run scripts that have finished")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "papers", help="where results go (%(default)s)")
    options = parser.parse_args(arguments)
    own = chosen(options.names, parser)
    if options.list:
        print(*(f"{script.name:34} {script.command}" for script in own), sep="\n")
        return 0
    folder = (options.folder / ("short" if options.short else "full")).resolve()
    runs = run_all(own, folder, short=options.short, again=options.again)
    print(table(own, runs))
    failed = [script.name for script in own if runs.get(script.name, {}).get("result", "").startswith("exit status")]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
