"""Figures by matplotlib in one manner: a grid, plain numbers at logarithmic axes, and a line that says their origin."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.errors import MissingExtraError
from dynagate.base.machine import processor

DPI = 150


def new_figure(width: float, height: float, extra: str) -> Any:
    """A matplotlib figure, in inches. extra: the one to install. Raises MissingExtraError: matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(f"figures need matplotlib: pip install 'dynagate[{extra}]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def plain_logarithmic(axis: Any) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as plain numbers, on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def grid(axes: Any) -> None:
    """Faint lines behind the curves."""
    axes.set_axisbelow(True)
    axes.grid(True, which="major", color="#d0d5da", linewidth=0.6)
    axes.grid(True, which="minor", color="#e8ebee", linewidth=0.4)


def origin(*parts: str) -> str:
    """Processor, cores, Python, numpy and today's date, and what else the figures come from."""
    name, _ = processor()
    here = [f"{name}, {os.cpu_count()} cores", *parts]
    return "; ".join([*here, f"Python {platform.python_version()}, numpy {np.__version__}", date.today().isoformat()])


def saved(figure: Any, path: Path, notes: Sequence[str]) -> Path:
    """The figure as PNG, with the notes below it, a line each."""
    figure.supxlabel("\n".join(notes), fontsize=6.5, color="#5b6773", parse_math=False)
    figure.savefig(path, dpi=DPI)
    return path
