"""The paper's serial chain, as in its released code, and functions that all its figures share."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from dynagate import Robot
from dynagate.robot import Joint, Link
from matplotlib.figure import Figure

LENGTH, MASS, ROOT = 1.5, 1.0, 10.0
UNIT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
GRAVITY = (0.0, 0.0, -9.81)


def chain(links: int, gravity: tuple[float, float, float] = GRAVITY, axes: str = "x") -> Robot:
    """Return a chain of links of 1.5 m and 1 kg with unit inertia about their centers.

    Joint i rotates about the axis `axes[i % len(axes)]`: "xy" alternates between x and y.
    """
    directions = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0)}
    rows = []
    for i in range(links):
        offset = (0.0, 0.0, LENGTH if i else ROOT)
        joint = Joint(f"joint_{i}", "continuous", translation=offset, axis=directions[axes[i % len(axes)]])
        rows.append(Link(f"link_{i}", i - 1, joint, MASS, (0.0, 0.0, LENGTH / 2), UNIT))
    return Robot(f"chain_{links}", tuple(rows), gravity)


def states(links: int, seeds: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return q and q̇, both (seeds, links), uniform within ±π/2. Row k has the seed first + k."""
    drawn = [np.random.default_rng(first + s).uniform(-np.pi / 2, np.pi / 2, (2, links)) for s in range(seeds)]
    return np.array(drawn)[:, 0], np.array(drawn)[:, 1]


def best(call: Callable[[], object], repeats: int = 15) -> float:
    """Return the processor time of the fastest of some calls, s. One more call, made first, compiles."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def options(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all figures have: --folder and --short."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes: shorter chains, fewer steps")
    parser.add_argument("--folder", type=Path, default=Path("build/variational"), help="where the PNG and JSON go")
    return parser


def written(folder: Path, name: str, results: dict[str, Any], figure: Figure | None = None) -> None:
    """Write NAME.json, and NAME.png if there is a figure. Print their paths and the processor time so far."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    if figure is not None:
        figure.savefig(folder / f"{name}.png", dpi=120, bbox_inches="tight")
    picture = f" and {name}.png" if figure is not None else ""
    print(f"{name}: {folder / name}.json{picture}, {time.process_time():.1f} s of processor time")


def axes(width: float = 6.0) -> tuple[Figure, Any]:
    """Return a figure with one plot, which needs no display."""
    figure = Figure(figsize=(width, 4.0))
    return figure, figure.subplots()
