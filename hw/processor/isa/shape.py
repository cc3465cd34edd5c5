"""Describe a core: its size, latencies and fields of program words. A program fits a core of one shape."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property

from dynagate.base.arguments import store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.design.source import CORE, source_digest
from dynagate.design.words import FIXED, FLOAT32
from dynagate.fixedpoint.format import SATURATE, WRAP, Arithmetic, Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import FEWEST_ANGLE_BITS, MOST_SHIFT, NOISE_WHOLE, fused, root_frac
from dynagate.hw.units import latencies
from dynagate.hw.units.floating import FROM_FLOAT_LATENCY, to_float_latency

FEWEST_UNITS, MOST_UNITS = 2, 8
SMALLEST_WORD, LARGEST_WORD = 18, 32
LANE = 32
"""Bits of a program word that are loaded at once."""
ELEMENTARY = ("sin", "cos", "normalized_reciprocal", "sqrt", "exp")
"""Operations of the elementary unit; their number in a program word is the place here plus one."""
LOAD, STORE = "load", "store"
"""Operations of the memory of iterations; their numbers follow those of the elementary unit's."""
NOISE = "noise"
"""The operation of the unit of random numbers: the last one, so that cores without it take no bit for it."""
KINDS = (*ELEMENTARY, LOAD, STORE, NOISE)
LOADING = 3
"""Cycles of a load, from its number and the iteration to the value: its address, the memory, a register."""
SHIFT_BITS = MOST_SHIFT.bit_length()
BLOCK_BITS = 5
"""Bits of a block's number. A block is a run of words that loops repeat; this limits their number in a program."""
FIRST_POINT = 1 << BLOCK_BITS
"""Row of the first binary point in a table of them: those before say by block where a function's begin."""
MOST_TURN_BITS = 16
LEVELS = 4
"""Depth of nested loops, in addition to the iterations of a sample."""
OPERANDS = "abc"
"""Names of a unit's operands."""
FETCH = 3
"""Cycles from a program address to the word: a register, memory, its register."""
READ = 3
"""Cycles from a place's address to the operand: memory, its register, multiplexer."""
SHARING = 2
"""Cycles from what a function or a load brings to the shared memory's write port: the choice, and the value's sign."""
FLAG_CYCLES = 4
"""Cycles from the last result of a sample until its overflow flag is complete."""
INPUT_CONVERSION = 2 + FROM_FLOAT_LATENCY
"""Cycles from a float32 on the stream to an integer: one takes the word, one looks up its binary point."""
SIDE = 4
"""Registers of an addend on its way to the sum."""


@explained
@dataclass(frozen=True)
class Core:
    """A core's shape. Raises ValueError: a number is out of range.

    units: multiply-add units, 2 to 8. word: bits of a value, 18 to 32. angle_bits: integer bits of angles, 3 to 16.
    place_bits: 2**place_bits values fit the memory of a unit. program_bits: 2**program_bits words fit the program.
    input_bits: 2**input_bits inputs fit a sample. output_bits: 2**output_bits results of a unit that wait to be sent.
    lookup_memories: of the memories in front of a unit, 3 (units + 1), those that lookup tables make; the others are
    blocks.
    turn_bits: 2**turn_bits values fit the memory of what loops keep of every iteration; 0 for none.
    exp_bits: integer bits of operands of exponentials; 0 for a core that has none. exp_whole: of their results.
    noise: 1 for a core with a unit of random numbers.
    saturates: 1 where what does not fit a word becomes the nearest number that does; 0 where it wraps.
    floats: 1 where its streams carry float32; 0 where they carry integers.
    """

    units: int = 4
    word: int = 24
    angle_bits: int = FEWEST_ANGLE_BITS
    place_bits: int = 9
    program_bits: int = 12
    input_bits: int = 7
    output_bits: int = 9
    lookup_memories: int = 0
    turn_bits: int = 0
    saturates: int = 0
    exp_bits: int = 0
    exp_whole: int = 1
    noise: int = 0
    floats: int = 0

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        limits = {
            "units": (FEWEST_UNITS, MOST_UNITS),
            "word": (SMALLEST_WORD, LARGEST_WORD),
            "angle_bits": (FEWEST_ANGLE_BITS, 16),
            "place_bits": (5, 14),
            "program_bits": (5, 18),
            "input_bits": (3, 12),
            "output_bits": (3, 14),
            "lookup_memories": (0, len(OPERANDS) * (self.units + 1)),
            "turn_bits": (0, MOST_TURN_BITS),
            "saturates": (0, 1),
            "exp_bits": (0, 10),
            "exp_whole": (1, 16),
            "noise": (0, 1),
            "floats": (0, 1),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ArgumentError(f"{name} {value!r} of a core; expected {least} to {most}")

    @property
    def stream_words(self) -> str:
        """Number format of the core's streams, one of `design.words.WORDS`."""
        return FLOAT32 if self.floats else FIXED

    @property
    def input_points(self) -> int:
        """Bits of an address in the table of the binary points of inputs (`processor.points`)."""
        return max(self.input_bits, BLOCK_BITS) + 1

    @property
    def output_points(self) -> int:
        """Address bits of the table of binary points of results."""
        return max(self.output_bits, BLOCK_BITS) + 1

    @property
    def output_conversion(self) -> int:
        """Cycles from an integer to a float32 on the stream: one looks up its binary point."""
        return 1 + to_float_latency(self.word)

    @property
    def bank_bits(self) -> int:
        """Bits of a memory's number: a unit's own memory, or the last one, which constants, inputs and functions
        share.
        """
        return self.units.bit_length()

    @property
    def shared(self) -> int:
        """The number of the memory that all units share."""
        return self.units

    def is_lookup(self, operand: str, bank: int) -> bool:
        """Whether lookup tables make a memory, one of OPERANDS'. operand: its name; bank: its number."""
        return len(OPERANDS) * bank + OPERANDS.index(operand) < self.lookup_memories

    @property
    def operand_bits(self) -> int:
        """Bits of an operand in a program word: its memory and its place there."""
        return self.bank_bits + self.place_bits

    @property
    def angle(self) -> Format:
        """Format of the operand of a sine."""
        return Format(self.word, self.word - 1 - self.angle_bits)

    @property
    def sine(self) -> Format:
        """Format of sines and cosines."""
        return Format(self.word, self.word - 2)

    @property
    def exponential(self) -> tuple[Format, Format]:
        """Formats of the operand and of the result of an exponential."""
        return Format(self.word, self.word - 1 - self.exp_bits), Format(self.word, self.word - 1 - self.exp_whole)

    @property
    def random(self) -> Format:
        """Format of random numbers."""
        return Format(self.word, self.word - 1 - NOISE_WHOLE)

    def fused(self, formatted: FormattedGraph) -> FormattedGraph:
        """A graph in this core's multiply-adds and functions. formatted: the graph with its formats."""
        return fused(formatted, self.angle, self.exponential, self.word)

    @property
    def root_shift(self) -> int:
        """Places by which a root's operand is moved up, so that the root fills a word."""
        return self.word + 1

    @property
    def root_source(self) -> Format:
        """Some format of a root's operand; only its parity counts."""
        return Format(self.word, (self.word + 1) % 2)

    @property
    def root(self) -> Format:
        """Format of square roots."""
        return Format(self.word, root_frac(self.root_source))

    @property
    def sum_bits(self) -> int:
        """Bits of the exact sum of a product and a shifted addend."""
        return max(2 * self.word, self.word + MOST_SHIFT) + 2

    @cached_property
    def unit_latency(self) -> int:
        """Cycles from operands to the result at the memories' write ports: product or addend, sum, three steps of the
        shift, a register, one more where it saturates."""
        return max(latencies.product_latency(self.word, self.word), SIDE) + 5 + self.saturates

    @cached_property
    def latency(self) -> int:
        """Cycles from a multiply-add to the first instruction that may read its result."""
        return READ + self.unit_latency + 1

    @cached_property
    def elementary(self) -> dict[str, int]:
        """Cycles of the functions, from operand to result."""
        sine = latencies.sine_latency(self.angle, self.sine)
        return {
            "sin": sine,
            "cos": sine,
            "normalized_reciprocal": latencies.reciprocal_latency(self.word, self.word),
            "sqrt": latencies.root_latency(self.word, self.word, self.root_shift),
            **({"exp": latencies.exp_latency(*self.exponential)} if self.exp_bits else {}),
        }

    def latency_of(self, kind: str) -> int:
        """Cycles from an instruction to the first that may read its result. kind: one of ELEMENTARY, or another."""
        if kind in (LOAD, STORE):
            return READ + LOADING + SHARING + 1
        if kind == NOISE:
            return READ + latencies.NOISE_LATENCY + SHARING + 1
        return READ + self.elementary[kind] + SHARING + 1 if kind in ELEMENTARY else self.latency

    @property
    def arithmetic(self) -> Arithmetic:
        """Arithmetic of the units."""
        return Arithmetic(overflow=SATURATE if self.saturates else WRAP)

    @cached_property
    def unit_fields(self) -> dict[str, int]:
        """Bits of the fields of a unit's part of a program word, from bit 0 up."""
        operands = dict.fromkeys(OPERANDS, self.operand_bits)
        flags = dict.fromkeys(("write", "out", "product_negative", "addend_negative", "select"), 1)
        return {**operands, "place": self.place_bits, **flags, "up": SHIFT_BITS, "down": SHIFT_BITS}

    @cached_property
    def function_fields(self) -> dict[str, int]:
        """Fields of the elementary unit's part, the last part of a program word, with their bits.

        test: a positive result of unit 0 continues a loop. address, down: place of the first iteration's value in the
        memory of iterations, and whether the later values lie below it.
        """
        kinds = (len(KINDS) - (not self.noise)).bit_length()
        memory = {"address": self.turn_bits, "down": 1} if self.turn_bits else {}
        return {"kind": kinds, "place": self.place_bits, "shift": latencies.SHIFT_BITS, **memory, "test": 1}

    @property
    def unit_bits(self) -> int:
        """Bits of a unit's part of a program word."""
        return sum(self.unit_fields.values())

    @property
    def program_word(self) -> int:
        """Bits of a program word."""
        return self.units * self.unit_bits + sum(self.function_fields.values())

    @property
    def lanes(self) -> int:
        """Loads that fill a program word."""
        return math.ceil(self.program_word / LANE)

    @property
    def lane_bits(self) -> int:
        """Bits of a lane's number."""
        return max((self.lanes - 1).bit_length(), 1)

    @cached_property
    def hash(self) -> str:
        """Hash of the shape and of the source that makes its gateware."""
        text = json.dumps([asdict(self), SHIFT_BITS, self.root_shift, source_digest(CORE)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def device_hash(self) -> int:
        """The 64 bits of it that the hardware shows."""
        return int(self.hash[:16], 16)

    @property
    def text(self) -> str:
        """Its shape in a line."""
        return (
            f"{self.units} units, {self.word} bits, angles to ±{1 << self.angle_bits} rad, {1 << self.place_bits} "
            f"places, {1 << self.program_bits} words"
            + (f", {1 << self.turn_bits} values of turns" if self.turn_bits else "")
            + (f", exponentials of ±{1 << self.exp_bits} to {1 << self.exp_whole}" if self.exp_bits else "")
            + (", random numbers" if self.noise else "")
            + (", saturating" if self.saturates else "")
            + (", float32 on its streams" if self.floats else "")
        )
