"""Size and timing of five designs and two cores by Vivado, for a computer that has a licence.

`python packaging/vendor_tables.py --folder tables` writes the projects, runs each module out of context and writes
`tables/vivado.csv` and the rows of a table for docs/boards.md, `tables/vivado.md`. Copy the folder back: every report
of Vivado is in it. `--read` makes the table again from the reports, without Vivado. The exit status is 0 if all runs
end with reports.
"""

from __future__ import annotations

import argparse
import csv
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

CASES = {
    "arm-inverse-dynamics": ["two_joint_arm", "--function", "inverse_dynamics", "--board", "pynq-z2"],
    "arm-gradient": ["two_joint_arm", "--function", "forward_dynamics_gradient", "--board", "kv260"],
    "iiwa14-inverse-dynamics": ["iiwa14", "--function", "inverse_dynamics", "--board", "vcu118"],
    "iiwa14-gradient": ["iiwa14", "--function", "forward_dynamics_gradient", "--board", "vcu118"],
    "hyq-mass-matrix": ["hyq", "--function", "mass_matrix", "--board", "vcu118"],
    "cores-pynq-z2": ["--core", "--board", "pynq-z2"],
    "cores-kv260": ["--core", "--board", "kv260"],
}
"""Name of a row -> arguments of `dynagate bitstream`."""

LOG = "vivado.log"
COLUMNS = {
    "lut": ("Total LUTs", "CLB LUTs", "Slice LUTs"),
    "ff": ("FFs", "Registers"),
    "bram36": ("RAMB36",),
    "bram18": ("RAMB18",),
    "dsp": ("DSP Blocks", "DSP48 Blocks", "DSPs"),
}
"""Column of the table -> its titles in `report_utilization -hierarchical`, by version of Vivado."""


@dataclass(frozen=True)
class Row:
    """Figures of a module. Empty texts are figures that the reports do not have."""

    name: str
    part: str = ""
    slack_ns: str = ""
    lut: str = ""
    ff: str = ""
    bram36: str = ""
    bram18: str = ""
    dsp: str = ""
    warnings: str = ""
    critical: str = ""


def row_of(name: str, folder: Path) -> Row:
    """Return the figures of a project's folder, from the log of Vivado and its reports."""
    log = folder / LOG
    said = log.read_text(errors="replace") if log.is_file() else ""
    slack = re.search(r"^worst slack (\S+) ns on (\S+);", said, flags=re.M)
    report = folder / "ooc" / "utilization.txt"
    used = utilization(report.read_text(errors="replace")) if report.is_file() else {}
    return Row(
        name,
        part=slack[2] if slack else "",
        slack_ns=slack[1] if slack else "",
        warnings=str(len(re.findall(r"^WARNING:", said, flags=re.M))) if said else "",
        critical=str(len(re.findall(r"^CRITICAL WARNING:", said, flags=re.M))) if said else "",
        **used,
    )


def utilization(text: str) -> dict[str, str]:
    """Return the figures in the first row of a hierarchical report, which is the whole module."""
    rows = [
        [cell.strip() for cell in line.strip("|\n ").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    head = next((k for k, row in enumerate(rows) if row[0] == "Instance"), None)
    if head is None or head + 1 >= len(rows):
        return {}
    figures = dict(zip(rows[head], rows[head + 1], strict=False))
    found = {column: next((figures[t] for t in titles if t in figures), "") for column, titles in COLUMNS.items()}
    return {column: figure for column, figure in found.items() if figure}


def run(name: str, folder: Path, vivado: str) -> None:
    """Write the project of a case, and run its module out of context."""
    command = [sys.executable, "-m", "dynagate", "bitstream", *CASES[name], "--only-project"]
    done = subprocess.run([*command, "--project-folder", str(folder)], check=False, stdout=subprocess.PIPE, text=True)
    scripts = sorted(folder.glob("**/ooc.tcl"))
    if done.returncode != 0 or not scripts:
        print(f"{name}: no project; run: dynagate bitstream {' '.join(CASES[name])} --only-project", file=sys.stderr)
        return
    with (scripts[0].parent / LOG).open("w") as log:
        command = [vivado, "-mode", "batch", "-notrace", "-nojournal", "-nolog", "-source", "ooc.tcl"]
        subprocess.run(command, check=False, cwd=scripts[0].parent, stdout=log, stderr=subprocess.STDOUT)


def write_tables(rows: Sequence[Row], folder: Path) -> None:
    """Write the figures as CSV and as a table of Markdown."""
    names = [each.name for each in fields(Row)]
    with (folder / "vivado.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    lines = [names, ["---"] * len(names), *(list(asdict(row).values()) for row in rows)]
    (folder / "vivado.md").write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and write the tables; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/tables"), help="Write projects and tables here.")
    parser.add_argument("--case", action="append", choices=CASES, help="Run this case only (repeatable).")
    parser.add_argument("--vivado", default="vivado", help="Run this program.")
    parser.add_argument("--read", action="store_true", help="Read the reports that are there, and run nothing.")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.case or CASES:
        place = options.folder / name
        place.mkdir(parents=True, exist_ok=True)
        if not options.read:
            print(f"running {name}", flush=True)
            run(name, place.resolve(), options.vivado)
        reports = sorted(place.glob("**/ooc.tcl"))
        rows.append(row_of(name, reports[0].parent) if reports else Row(name))
    write_tables(rows, options.folder)
    print((options.folder / "vivado.md").read_text())
    missing = [row.name for row in rows if not (row.slack_ns and row.lut)]
    if missing:
        print(f"no figures of {', '.join(missing)}: see {LOG} in its folder", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
