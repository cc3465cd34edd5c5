"""Properties of a design's module that its benches need: streams in beats, and latencies of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.design.bodies import body_row
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import AxiStreams, DesignRecord, Sides
from dynagate.design.files import bench_folder
from dynagate.design.latency import stream_cycles
from dynagate.design.program import ProgramBody
from dynagate.design.ring import ring_design
from dynagate.design.words import FLOAT32, beats
from dynagate.hw.processor.isa.shape import Core

DATAPATH, ROLLOUT, ACCELERATOR = "datapath", "rollout", "accelerator"
PARTS = "parts of a program"
"""In place of a function's name."""
PART_WORDS = 1 + 2 * 32
"""Words of a part of a program without its tag: a head, and the messages that the host sends in one packet."""
ANSWER = 8
"""Cycles from the last word of a part to its answer's first word."""
FEW_TURNS = 2
"""Iterations of each loop of a core's program in the time for which a bench watches that no result comes."""
TO_RESULT = 2
"""Cycles from the one in which a result and its overflow bits are there until the output stream offers it."""


@dataclass(frozen=True)
class Subject:
    """A module with a bench. names: of functions, an end each; of a core's module also of the parts of a program, whose
    answers are the last end. in_bits, out_bits: of a beat, TLAST on top where there is one. in_beats: of a sample of
    each end. out_beats: of its result. latencies: at least this many cycles of an idle module from the edge that takes
    the first beat to the edge that sees the first beat of the result, of each end. slacks: at most this many more.
    silent_beats: of a sample of which no result comes."""

    design: DesignRecord
    module: str
    names: tuple[str, ...]
    in_bits: int
    out_bits: int
    in_beats: tuple[int, ...]
    out_beats: tuple[int, ...]
    latencies: tuple[int, ...]
    slacks: tuple[int, ...]
    silent_beats: int

    @property
    def folder(self) -> str:
        """The folder of the module's bench inside the design's folder."""
        return bench_folder(self.design, self.module)

    @property
    def loads(self) -> bool:
        """Whether a program is loaded before the first sample: the module is a processor's cores."""
        return self.design.is_loaded

    @property
    def most(self) -> tuple[int, ...]:
        """Largest latency of a single sample in cycles, by end."""
        return tuple(low + slack for low, slack in zip(self.latencies, self.slacks, strict=True))

    @property
    def longest(self) -> int:
        """The longest latency of all ends."""
        return max(self.most)

    @property
    def quiet(self) -> int:
        """Cycles in which nothing may come once nothing is under way. What would come later still is found in the next
        round: a core's loops, which end by a tolerance, may take many iterations, and hardly ever do."""
        return min(self.longest, FEW_TURNS * min(self.latencies)) if self.loads else self.longest

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
        return self.design.modules[self.design.modules.index(self.module) :: -1]


def subjects(design: DesignRecord, late: Sequence[int]) -> list[Subject]:
    """The modules of a design that have benches. late: of each function, the cycles by which overflow bits follow
    their values."""
    return [_subject(design, module, late) for module in design.modules]


def _subject(design: DesignRecord, module: str, late: Sequence[int]) -> Subject:
    subject: Subject = body_row(design.body.kind).hardware().subject(design, module, late)
    return subject


def of_datapath(design: DesignRecord[DatapathBody], module: str, late: Sequence[int]) -> Subject:
    """Return a module of a datapath, bare, in its ring or in its shell."""
    ends = [(function.name, function.latency) for function in design.functions] or [(design.function, design.latency)]
    names = tuple(name for name, _ in ends)
    cycles = [latency + more for (_, latency), more in zip(ends, late, strict=True)]
    if module == ACCELERATOR:
        axi = design.axi
        assert axi is not None
        of_functions = [design.of_function(function).axi for function in design.functions] or [axi]
        out_beats = tuple(each.beats.output for each in of_functions if each is not None)
        spans = [stream_cycles(design, cycle) for cycle in cycles]
        slack = max(most - least for least, most in spans)
        low, bits, beats = tuple(least for least, _ in spans), beat_bits(axi), axi.beats.input
    else:
        stream = (ring_design(design) if module == ROLLOUT else design).stream
        low, slack = tuple(cycle + TO_RESULT for cycle in cycles), len(ends) if len(ends) > 1 else 0
        bits, beats, out_beats = Sides(stream.input.bits, stream.output.bits), 1, (1,) * len(ends)
    count = len(ends)
    return Subject(
        design, module, names, bits.input, bits.output, (beats,) * count, out_beats, low, (slack,) * count, beats
    )


def of_cores(design: DesignRecord[ProgramBody], module: str, late: Sequence[int]) -> Subject:
    """Return the cores of a program in their shell."""
    axi, shell = design.axi, design.body.shell
    assert axi is not None
    assert shell is not None
    names = tuple(function.name for function in design.functions) or (design.function,)
    part, answer = beats(PART_WORDS, axi.width), ANSWER + PART_WORDS + (axi.lanes > 1)
    if design.body.stream_words == FLOAT32:  # answers go through the converter of results, too
        answer += Core(**design.body.core).output_conversion
    return Subject(
        design,
        module,
        (*names, PARTS),
        beat_bits(axi).input,
        beat_bits(axi).output,
        (*(axi.beats.input for _ in names), part),
        (*(axi.beats.output for _ in names), beats(1, axi.width)),
        (*(least for least, _ in shell.spans), answer),
        (*(most - least for least, most in shell.spans), 0),
        cut_beats(axi),
    )


def beat_bits(axi: AxiStreams) -> Sides[int]:
    """Return the bits of a beat: TDATA, TKEEP on the way in, and TLAST."""
    return Sides(axi.width + axi.width // 8 + 1, axi.width + 1)


def cut_beats(axi: AxiStreams) -> int:
    """Beats until TLAST of a sample that it cuts short; 0 where a sample has one beat."""
    return axi.beats.input // 2
