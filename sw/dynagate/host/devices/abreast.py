"""Samples of which several lie side by side in a program, and share a flag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynagate.host.devices.face import Overflow
from dynagate.host.devices.fixed import FixedDevice
from dynagate.host.inputs import Arrays

if TYPE_CHECKING:
    from dynagate.design.design import Design
    from dynagate.design.program import ProgramBody
    from dynagate.fixedpoint.assign import FormattedGraph


def flagged_together(flags: Overflow, count: int) -> Overflow:
    """Flags (batch,) of samples of which so many share one."""
    padded = np.pad(flags, (0, -len(flags) % count)).reshape(-1, count)
    return np.asarray(np.repeat(padded.any(axis=1), count)[: len(flags)])


class FlaggedTogether(FixedDevice):
    """The integers of a program whose samples lie side by side."""

    def __init__(self, formatted: FormattedGraph, design: Design[ProgramBody]) -> None:
        super().__init__(formatted, design)
        self._count = design.body.abreast

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        return flagged_together(super().run(arrays, outputs, batch), self._count)
