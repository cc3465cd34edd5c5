"""Options that determine the hardware of a design, whatever function it computes.

`DesignRequest` and the device "sim" share them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base.option import option
from dynagate.design.verilog_list import PLAIN, STYLES
from dynagate.design.words import FIXED, FLOAT32, WORDS
from dynagate.hw.plan.schedule import LONGEST_INTERVAL

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import Policy
    from dynagate.fixedpoint.wordlength.goal import Goal
    from dynagate.graph.region import Region
    from dynagate.hw.plan.cost import Budget
    from dynagate.hw.plan.plan import Stages
    from dynagate.hw.rtl.axi import Axi

MOST_SAMPLES_PER_RUN, MOST_ITERATIONS = 4, 16
"""Largest number of samples that a program computes in lanes: for a function, and for a solver."""
INTERVAL = "Start one sample in this many cycles."
"""Help of the option for the initiation interval."""
DEFAULT_FOLDER = Path("build") / "designs"
"""Default parent folder of designs; each design has a folder of its own in it."""


@dataclass(frozen=True)
class DesignOptions:
    """Options of a design's hardware and number formats."""

    ii: int = option(INTERVAL, 8, unit="CYCLES", most=LONGEST_INTERVAL)
    """Initiation interval: cycles from one sample to the next, 1 to `schedule.LONGEST_INTERVAL`."""
    policy: Policy | None = None
    """Word length and binary points; 24 bits unless given. With proved ranges, no state of the region overflows."""
    goal: Goal | None = None
    """Accuracy for which the cheapest word lengths are found, instead of one word length for all numbers."""
    formats: str | os.PathLike[str] | None = option("Read the formats from this file.", None, unit="FILE")
    """File of formats to use instead, such as `formats.json` of another design's folder."""
    axi: Axi | None = None
    """AXI4-Stream and AXI4-Lite interfaces around the datapath; None for the datapath without them."""
    budget: Budget | None = None
    """Resource limits that the design must not exceed."""
    stages: Stages | None = None
    """Register stages in addition to the fewest, for targets with slow multipliers or adders."""
    region: Region | None = None
    """Operating region that the formats are for; unless given, inside the limits of the robot's file."""
    certificate: bool = option("Add an output of forward dynamics that bounds the error of each result.", False)
    """Add the output "certificate" to forward dynamics, which bounds the error of each q̈."""
    samples_per_run: int = option(
        f"Compute this many samples in lanes, with --units: 1 to {MOST_SAMPLES_PER_RUN}, or 1 to {MOST_ITERATIONS} "
        "with --function mppi, whose default is the number with the fewest cycles.",
        1,
        unit="SAMPLES",
        most=MOST_ITERATIONS,
    )
    """Number of samples that a program computes in one run, in lanes. These samples share an overflow flag."""
    words: str | None = option(
        f"Send this number format in the AXI streams.  [default: {FLOAT32}; with --units, {FIXED}]",
        None,
        choices=WORDS,
    )
    """Number format of a program's AXI streams: "float32", or "fixed" for integers."""
    style: str = option(
        "Write the Verilog in this style: strict has no initial values and an asynchronous reset.",
        PLAIN,
        choices=STYLES,
    )
    """Style of the Verilog: "plain", or "strict" without initial values and with an asynchronous reset."""
