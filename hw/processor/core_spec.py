"""The core that a program is built for: a core of one shape, or the smallest core with a number of units.

A caller passes a number of units, a core, or cores with their streams. `CoreSpec.resolve` converts all three to one
object before any other work; later stages see this object and the `Core` that it resolves to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dynagate.base.errors import ArgumentError, OptionError
from dynagate.design.words import FIXED, FLOAT32, WORD
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import SATURATE
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import exponential_formats
from dynagate.hw.processor.compiler.instructions import ProgramError
from dynagate.hw.processor.compiler.motion import angles_of
from dynagate.hw.processor.compiler.pipelining import pipelined
from dynagate.hw.processor.compiler.schedule import check_program_fits
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.isa.shape import LARGEST_WORD, MOST_ITERATION_BITS, SMALLEST_WORD, Core
from dynagate.hw.processor.streams import Cores
from dynagate.hw.rtl.axi import Axi

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class CoreSpec:
    """The core that a program is requested for."""

    core: Core
    """The requested core; if `grows`, a core with the requested number of units."""
    grows: bool = False
    """Whether word length, memories and functions of the core follow the program. If not, the program has to fit."""
    cores: Cores | None = None
    """Streams and number of cores, if the caller passed them."""

    @classmethod
    def resolve(cls, requested: int | Core | Cores) -> CoreSpec:
        """Return the specification for a number of units, a core, or cores with their streams.

        Raises:
            ArgumentError: There is no such core.
        """
        if isinstance(requested, Cores):
            return cls(requested.core, cores=requested)
        if isinstance(requested, Core):
            return cls(requested)
        return cls(Core(units=requested, word=Policy().word), grows=True)

    @property
    def words(self) -> Sequence[int]:
        """Return the word lengths that the core may have, in bits, shortest first."""
        return range(SMALLEST_WORD, LARGEST_WORD + 1, 2) if self.grows else (self.core.word,)

    @property
    def longest_word(self) -> int:
        """Return the longest word of the core, in bits."""
        return LARGEST_WORD if self.grows else self.core.word

    def with_shell(self, core: Core) -> Cores:
        """Return a core behind the requested streams, or one core behind streams of one word per beat."""
        if self.cores is not None:
            return replace(self.cores, core=core)
        return Cores(core, Axi(WORD, words=core.stream_words))

    def largest(self, core: Core) -> Core:
        """Return the core with the largest memory of iterations that the specification allows."""
        return replace(core, iteration_bits=MOST_ITERATION_BITS) if self.grows else core

    def check_word(self, word: int) -> None:
        """Check a word length.

        Raises:
            OptionError: No processor has such words, or the requested core has others.
        """
        if not SMALLEST_WORD <= word <= LARGEST_WORD:
            raise OptionError(
                "word", f"{word} of a processor; expected {SMALLEST_WORD} to {LARGEST_WORD} bits", code="DG-CORE-017"
            )
        if not self.grows and word != self.core.word:
            own = self.core.word
            raise ArgumentError(
                f"word {word} for a core of {own} bits; expected Policy(word={own})", code="DG-CORE-018"
            )

    def check_stream_format(self, words: str | None) -> None:
        """Check the number format of the streams.

        Raises:
            OptionError: No core has streams of this format, or the requested core has another one.
        """
        if words not in (None, FIXED, FLOAT32):
            raise OptionError("words", f"{words!r} of a program; expected '{FIXED}' or '{FLOAT32}'", code="DG-CORE-019")
        if not self.grows and words not in (None, self.core.stream_words):
            raise ArgumentError(
                f"words '{words}' for a core of '{self.core.stream_words}'; expected "
                f"Core(floats={int(words == FLOAT32)}), or words left out",
                code="DG-CORE-020",
            )

    def with_functions(
        self, title: str, graphs: Sequence[FormattedGraph], policy: Policy, words: str | None = None
    ) -> Core:
        """Return the core for the word, the angles, the exponentials and the noise of a program's graphs.

        Args:
            title: Name of the program, for errors.
            graphs: Graphs of the program.
            policy: Word length and arithmetic.
            words: Number format of the streams.

        Raises:
            ProgramError: The requested core lacks one of them.
        """
        needed = _needed(graphs, policy)
        if self.grows:
            return replace(self.core, word=policy.word, floats=int(words == FLOAT32), **needed)
        _check_functions(title, self.core, needed)
        return self.core

    def fitted(self, scheduled: ProgramSchedule) -> ProgramSchedule:
        """Return the schedule for a core that holds it, with overlapping iterations if they save cycles.

        Raises:
            ProgramError: The core does not hold the program.
        """
        if self.grows:
            scheduled = replace(scheduled, core=_large_enough(scheduled))
        check_program_fits(scheduled)
        return pipelined(scheduled)


def _needed(graphs: Iterable[FormattedGraph], policy: Policy) -> dict[str, int]:
    """Return the fields of a core that depend on the functions in a program's graphs."""
    graphs, whole = list(graphs), policy.word - 1
    ops = {node.op for graph in graphs for node in graph.graph.nodes}
    needed = {
        "angle_bits": whole - angles_of(graphs, policy.word).frac,
        "noise": int("noise" in ops),
        "saturates": int(policy.arithmetic.overflow == SATURATE),
    }
    exponential = [graph for graph in graphs if any(node.op == "exp" for node in graph.graph.nodes)]
    if exponential:
        operands, results = zip(*(exponential_formats(graph, policy.word) for graph in exponential), strict=True)
        needed["exp_bits"] = whole - min(fmt.frac for fmt in operands)
        needed["exp_whole"] = whole - min(fmt.frac for fmt in results)
    return needed


def _check_functions(title: str, core: Core, needed: dict[str, int]) -> None:
    """Raise ProgramError if the core lacks a function of a program."""
    if core.saturates != needed["saturates"]:
        raise ProgramError(
            f"{title} has results that {'saturate' if needed['saturates'] else 'wrap'}; expected a core with "
            f"saturates={needed['saturates']}",
            code="DG-CORE-021",
        )
    if needed["angle_bits"] > core.angle_bits:
        raise ProgramError(
            f"{title} has angles to ±{1 << needed['angle_bits']} rad, the core's sines take ±"
            f"{1 << core.angle_bits}; expected a core with angle_bits={needed['angle_bits']}",
            code="DG-CORE-022",
        )
    if needed["noise"] > core.noise:
        raise ProgramError(
            f"{title} has random numbers, the core has no unit for them; expected a core with noise=1",
            code="DG-CORE-023",
        )
    bits, integer_bits = needed.get("exp_bits", 0), needed.get("exp_whole", 0)
    if bits and (core.exp_bits < bits or core.exp_whole < integer_bits):
        own = f"±{1 << core.exp_bits} to {1 << core.exp_whole}" if core.exp_bits else "none"
        raise ProgramError(
            f"{title} has exponentials of ±{1 << bits} to {1 << integer_bits}, the core has {own}; expected a core "
            f"with exp_bits={bits}, exp_whole={integer_bits}",
            code="DG-CORE-024",
        )


def _large_enough(scheduled: ProgramSchedule) -> Core:
    """Return the core with memories that hold the program. Raise ProgramError if there is no such core."""
    core = scheduled.core
    if (over := scheduled.instructions.kept - (1 << MOST_ITERATION_BITS)) > 0:
        raise ProgramError(
            f"{scheduled.instructions.title} keeps {scheduled.instructions.kept} values of its iterations, {over} more "
            f"than the largest core's {1 << MOST_ITERATION_BITS}; expected fewer knots",
            code="DG-CORE-025",
        )
    bits = {
        name: max(getattr(core, name), (need - 1).bit_length())
        for name, (_, need) in scheduled.required_capacity.items()
    }
    return replace(core, **bits)
