"""What the benches of a design's modules need to know of each: its streams in beats, and how long a result takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.design.design import Design
from dynagate.design.files import bench_folder, bench_modules
from dynagate.design.latency import stream_cycles
from dynagate.design.ring import ring_design

DATAPATH, ROLLOUT, ACCELERATOR = "datapath", "rollout", "accelerator"
TO_RESULT = 2
"""Cycles from the one in which a result and its overflow bits are there until the output stream offers it."""


@dataclass(frozen=True)
class Subject:
    """A module with a bench. names: of functions, an end each. in_bits, out_bits: of a beat, TLAST on top where there
    is one. in_beats: of a sample. out_beats: of a result of each end. latencies: at least so many cycles of an idle
    module from the edge that takes the first beat to the edge that sees the first beat of the result, of each end.
    slack: at most so many more."""

    design: Design
    module: str
    names: tuple[str, ...]
    in_bits: int
    out_bits: int
    in_beats: int
    out_beats: tuple[int, ...]
    latencies: tuple[int, ...]
    slack: int

    @property
    def folder(self) -> str:
        """Of its bench, in the design's."""
        return bench_folder(self.module)

    @property
    def longest_result(self) -> int:
        """Beats."""
        return max(self.out_beats)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Passes whose overflow bits are in a result, from the bit `overflow` up; none where streams are AXI."""
        return () if self.module == ACCELERATOR else self.design.output.scopes

    @property
    def tops(self) -> tuple[str, ...]:
        """The modules that it is made of, itself first: those with Verilog files of their own."""
        inner = [] if self.module == DATAPATH else [DATAPATH]
        ring = [ROLLOUT] if self.module == ACCELERATOR and self.design.ring else []
        return self.module, *ring, *inner


def subjects(design: Design, late: Sequence[int]) -> list[Subject]:
    """The modules of a design that have benches. late: of each function, the cycles by which overflow bits follow
    their values."""
    return [_subject(design, module, late) for module in bench_modules(design)]


def _subject(design: Design, module: str, late: Sequence[int]) -> Subject:
    ends = [(function.name, function.latency) for function in design.functions] or [(design.function, design.latency)]
    names = tuple(name for name, _ in ends)
    cycles = [latency + more for (_, latency), more in zip(ends, late, strict=True)]
    turns = len(ends) if len(ends) > 1 else 0
    if module == ACCELERATOR:
        axi = design.axi
        assert axi is not None
        of_functions = [design.of_function(function).axi for function in design.functions] or [axi]
        out_beats = tuple(each.beats.output for each in of_functions if each is not None)
        spans = [stream_cycles(design, cycle) for cycle in cycles]
        slack = max(most - least for least, most in spans)
        low = tuple(least for least, _ in spans)
        return Subject(design, module, names, axi.width + 1, axi.width + 1, axi.beats.input, out_beats, low, slack)
    stream = (ring_design(design) if module == ROLLOUT else design).stream
    low = tuple(cycle + TO_RESULT for cycle in cycles)
    return Subject(design, module, names, stream.input.bits, stream.output.bits, 1, (1,) * len(ends), low, turns)
