"""Properties of a module that its bench needs: beats of samples and results, and latencies."""

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
from dynagate.hw.processor.compiler.self_test import FIRST_BLOCK, INPUTS, has_self_test, results_of
from dynagate.hw.processor.isa.shape import Core

DATAPATH, ROLLOUT, ACCELERATOR = "datapath", "rollout", "accelerator"
"""Names of modules with benches."""
PARTS = "parts of a program"
"""Name in place of a function for packets with parts of a program."""
SELF_TEST = "self-test of the core"
"""Name in place of a function for samples of the core's self-test."""
SELF_TEST_CYCLES = 50_000
"""Cycles after which a sample of a self-test counts as late."""
PART_WORDS = 1 + 2 * 32
"""Words of a packet with parts of a program, without its tag: a head and 32 messages of two words."""
ANSWER = 8
"""Cycles from the last word of such a packet to the first word of its answer."""
FEW_TURNS = 2
"""Iterations of each loop for which a bench waits to see that no further result comes."""
TO_RESULT = 2
"""Cycles from a result with its overflow bits until the output stream offers it."""


@dataclass(frozen=True)
class Subject:
    """A module with a bench."""

    design: DesignRecord
    module: str
    """Name of the module."""
    names: tuple[str, ...]
    """Name of each end: a function, and for cores also the parts of a program, whose end is last."""
    in_bits: int
    """Bits of an input beat, with TLAST as the highest bit if the stream has it."""
    out_bits: int
    """Bits of an output beat."""
    in_beats: tuple[int, ...]
    """Beats of a sample, by end."""
    out_beats: tuple[int, ...]
    """Beats of a result, by end."""
    latencies: tuple[int, ...]
    """Smallest latency in cycles of an idle module, by end: from accepting the first beat to seeing the result's first
    beat.
    """
    slacks: tuple[int, ...]
    """Cycles by which the largest latency exceeds the smallest, by end."""
    silent_beats: int
    """Beats of a sample that has no result."""

    @property
    def folder(self) -> str:
        """Return the folder of the module's bench inside the design's folder."""
        return bench_folder(self.design, self.module)

    @property
    def loads(self) -> bool:
        """Return whether a program is loaded before the first sample."""
        return self.design.is_loaded

    @property
    def functions(self) -> tuple[str, ...]:
        """Return the names of the functions among the ends."""
        return tuple(name for name in self.names if name not in (PARTS, SELF_TEST))

    @property
    def most(self) -> tuple[int, ...]:
        """Return the largest latency of a single sample in cycles, by end."""
        return tuple(low + slack for low, slack in zip(self.latencies, self.slacks, strict=True))

    @property
    def longest(self) -> int:
        """Return the largest latency of all ends in cycles."""
        return max(self.most)

    @property
    def quiet(self) -> int:
        """Return the cycles in which nothing may arrive once nothing is under way.

        A later result is found in the next round. The loops of a core may take many iterations, and hardly ever do.
        """
        if not self.loads:
            return self.longest
        functions = range(len(self.functions))
        return min(max(self.most[k] for k in functions), FEW_TURNS * min(self.latencies[k] for k in functions))

    @property
    def longest_result(self) -> int:
        """Return the beats of the longest result."""
        return max(self.out_beats)

    @property
    def stored_beats(self) -> tuple[int, ...]:
        """Return the beats that a bench stores for the result of each end, and last for a sample without a result."""
        common = max(beats for beats, name in zip(self.out_beats, self.names, strict=True) if name != SELF_TEST)
        own = (beats if name == SELF_TEST else common for beats, name in zip(self.out_beats, self.names, strict=True))
        return (*own, common)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the passes whose overflow bits are in a result; none on AXI streams."""
        return () if self.module == ACCELERATOR else self.design.output.scopes

    @property
    def tops(self) -> tuple[str, ...]:
        """Return the modules with Verilog files of their own that the module consists of, itself first."""
        return self.design.modules[self.design.modules.index(self.module) :: -1]


def subjects(design: DesignRecord, late: Sequence[int]) -> list[Subject]:
    """Return the modules of a design that have benches.

    Args:
        design: Record of the design.
        late: Cycles by which overflow bits follow the values, for each function.
    """
    return [_subject(design, module, late) for module in design.modules]


def _subject(design: DesignRecord, module: str, late: Sequence[int]) -> Subject:
    subject: Subject = body_row(design.body.kind).hardware().subject(design, module, late)
    return subject


def datapath_subject(design: DesignRecord[DatapathBody], module: str, late: Sequence[int]) -> Subject:
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


def cores_subject(design: DesignRecord[ProgramBody], module: str, late: Sequence[int]) -> Subject:
    """Return the cores of a program in their shell."""
    axi, shell = design.axi, design.body.shell
    assert axi is not None
    assert shell is not None
    names = tuple(function.name for function in design.functions) or (design.function,)
    core = Core(**design.body.core)
    part, answer = beats(PART_WORDS, axi.width), ANSWER + PART_WORDS + (axi.lanes > 1)
    if design.body.stream_words == FLOAT32:  # answers go through the converter of results, too
        answer += core.output_conversion
    tests = [SELF_TEST] if is_tested(design) else []
    return Subject(
        design,
        module,
        (*names, *tests, PARTS),
        beat_bits(axi).input,
        beat_bits(axi).output,
        (*(axi.beats.input for _ in names), *(beats(INPUTS + 1, axi.width) for _ in tests), part),
        (
            *(axi.beats.output for _ in names),
            *(beats(results_of(core), axi.width) for _ in tests),
            beats(1, axi.width),
        ),
        (*(least for least, _ in shell.spans), *(0 for _ in tests), answer),
        (*(most - least for least, most in shell.spans), *(SELF_TEST_CYCLES for _ in tests), 0),
        cut_beats(axi),
    )


def is_tested(design: DesignRecord[ProgramBody]) -> bool:
    """Return whether the bench of a program runs the self-test of its core.

    The rows of the table of blocks tell samples of the self-test from those of the program.
    """
    entries = [function.code for function in design.body.functions]
    return has_self_test(Core(**design.body.core)) and max(entries, default=0) < FIRST_BLOCK


def beat_bits(axi: AxiStreams) -> Sides[int]:
    """Return the bits of a beat: TDATA, TKEEP on the way in, and TLAST."""
    return Sides(axi.width + axi.width // 8 + 1, axi.width + 1)


def cut_beats(axi: AxiStreams) -> int:
    """Return the beats of a sample that TLAST cuts short; 0 if a sample has one beat."""
    return axi.beats.input // 2
