"""The options of `open`, with their types. None is an option's default."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypedDict

import numpy.typing as npt

if TYPE_CHECKING:
    from dynagate.dynamics.frames import Frame
    from dynagate.fixedpoint.assign import Policy
    from dynagate.fixedpoint.goal import Goal
    from dynagate.graph.region import Region
    from dynagate.hw.axi import Axi
    from dynagate.hw.cost import Budget
    from dynagate.hw.plan import Stages
    from dynagate.hw.processor.shape import Core

FLAGS = ("prefix", "external_forces", "linearise", "stops", "pack", "shell")
"""Options that are True or False."""


class Options(TypedDict, total=False):
    """What `open` hands to a device, or to a rollout. Which device takes which follows from the device's own keywords
    (`opening.DEVICES`, `opening.DESIGN_DEVICES`, `rollouts.DEVICES`)."""

    form: str | None
    frame: Frame | None
    mass: str | None
    prefix: bool | None
    external_forces: bool | None
    outputs: Sequence[str] | None
    variable: Sequence[str] | None
    dt: float | None
    integrator: str | None
    steps: int | None
    linearise: bool | None
    every: int | None
    friction: bool | float | tuple[float, ...] | None
    friction_speed: float | None
    stops: bool | None
    dtype: npt.DTypeLike | None
    layout: str | None
    pack: bool | None
    threads: int | None
    number: int | None
    stream: int | None
    policy: Policy | None
    region: Region | None
    ii: int | None
    units: int | Core | None
    goal: Goal | None
    formats: str | PathLike[str] | None
    axi: Axi | None
    budget: Budget | None
    stages: Stages | None
    folder: str | PathLike[str] | None
    pauses: tuple[float, float] | None
    seed: int | None
    shell: bool | None
    link: str | None
