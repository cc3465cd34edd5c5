"""Figures by matplotlib in one style: a grid, plain numbers on logarithmic axes, and a line with their origin."""

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
    """Return a matplotlib figure of a size in inches. Raise MissingExtraError with the extra if matplotlib is
    missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            f"figures need matplotlib: pip install 'dynagate[{extra}]'", code="DG-SYSTEM-004"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def plain_logarithmic(axis: Any) -> None:
    """Set ticks at 1, 2 and 5 times powers of ten on a logarithmic axis, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def grid(axes: Any) -> None:
    """Draw faint grid lines behind the curves."""
    axes.set_axisbelow(True)
    axes.grid(True, which="major", color="#d0d5da", linewidth=0.6)
    axes.grid(True, which="minor", color="#e8ebee", linewidth=0.4)


def origin(*parts: str) -> str:
    """Return a line with the processor, cores, versions, today's date and further parts."""
    name, _ = processor()
    here = [f"{name}, {os.cpu_count()} cores", *parts]
    return "; ".join([*here, f"Python {platform.python_version()}, numpy {np.__version__}", date.today().isoformat()])


def saved(figure: Any, path: Path, notes: Sequence[str]) -> Path:
    """Save a figure as PNG with notes below it, one on each line, and return the path."""
    figure.supxlabel("\n".join(notes), fontsize=6.5, color="#5b6773", parse_math=False)
    figure.savefig(path, dpi=DPI)
    return path
