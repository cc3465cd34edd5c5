"""How a design is to be made, whatever it computes: what a request and the device "sim" have in common."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base.option import option
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
"""Largest number of samples that a program computes in lanes: of a function, and of a solver."""
INTERVAL = "Start one sample in this many cycles."
"""Help of the option for the initiation interval."""
DEFAULT_FOLDER = Path("build") / "designs"
"""Default parent folder of designs; each design has a folder of its own in it."""


@dataclass(frozen=True)
class DesignOptions:
    """ii: a new sample may enter every this many cycles, 1 to `schedule.LONGEST_INTERVAL`.
    policy: word length and binary points (24 bits by default). With proved ranges no state of the region overflows.
    goal: an accuracy, for which word lengths of least cost are found instead, with the policy's samples.
    formats: a file of formats instead, as each folder of a design has one; a policy with proved ranges has them proved.
    axi: write the datapath's shell too. budget: what the plan may take. stages: more registers, for a target that wants
    them. region: the states the formats are for (inside the URDF's limits by default).
    certificate: forward dynamics has an output "certificate", a bound of the error of each q̈.
    samples_per_run: samples that a program computes in one run, 1 to 4, where one leaves units idle. They share a
    flag.
    words: what the streams of a program's core carry, "float32", or "fixed" for integers, the default.
    """

    ii: int = option(INTERVAL, 8, unit="CYCLES", most=LONGEST_INTERVAL)
    policy: Policy | None = None
    goal: Goal | None = None
    formats: str | os.PathLike[str] | None = option("Read the formats from this file.", None, unit="FILE")
    axi: Axi | None = None
    budget: Budget | None = None
    stages: Stages | None = None
    region: Region | None = None
    certificate: bool = option("Add an output of forward dynamics that bounds the error of each result.", False)
    samples_per_run: int = option(
        f"Compute this many samples in lanes, with --units: 1 to {MOST_SAMPLES_PER_RUN}, or 1 to {MOST_ITERATIONS} "
        "with --function mppi, whose default is the number with the fewest cycles.",
        1,
        unit="SAMPLES",
        most=MOST_ITERATIONS,
    )
    words: str | None = option(
        f"Send this number format in the AXI streams.  [default: {FLOAT32}; with --units, {FIXED}]",
        None,
        choices=WORDS,
    )
