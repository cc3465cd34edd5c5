"""What the scripts of this folder share: options, JSON beside PNG, and one line of result."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib.figure import Figure

from examples.papers.position_based.inputs import PositionBasedWarning

Data = dict[str, Any]
FOLDER = Path("build/position_based")


def main(
    name: str,
    measure: Callable[..., Data],
    draw: Callable[[Data], Figure],
    arguments: list[str],
    animate: Callable[[Data, Path], None] | None = None,
    more: dict[str, dict[str, Any]] | None = None,
) -> Data:
    """Measures, writes NAME.json and NAME.png, and NAME.gif where there is something to animate; returns what was
    measured. more: option -> arguments of `add_argument`; `measure` takes their values by name."""
    parser = argparse.ArgumentParser(description=sys.modules[measure.__module__].__doc__)
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes: fewer and smaller robots")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files go (%(default)s)")
    for option, settings in (more or {}).items():
        parser.add_argument(f"--{option}", **settings)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositionBasedWarning)  # the figures count the steps that stick
        data = measure(options.short, **{option: getattr(options, option) for option in more or {}})
    (options.folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    draw(data).savefig(options.folder / f"{name}.png", dpi=150, bbox_inches="tight")
    if animate and not options.short:
        animate(data, options.folder / f"{name}.gif")
    print(f"{name}: {options.folder / name}.json and .png, {time.perf_counter() - begin:.1f} s")
    return data


def axes(count: int, rows: int = 1) -> tuple[Figure, list[Any]]:
    """A figure with this many axes, in rows."""
    figure = Figure(figsize=(4.5 * count / rows, 3.6 * rows), layout="constrained")
    return figure, list(figure.subplots(rows, count // rows, squeeze=False).flat)


def timed(run: Callable[[int], Any], steps: int) -> tuple[Any, float]:
    """What `run(steps)` returns, and the seconds that it takes once it is compiled."""
    run(1)
    begin = time.perf_counter()
    return run(steps), time.perf_counter() - begin


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least time that some calls take; the first of them compiles."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
