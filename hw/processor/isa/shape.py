"""The shape of a core: its sizes, its latencies and the fields of its program words.

A program is compiled for a core of one shape.
"""

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
"""Smallest and largest number of multiply-add units."""
SMALLEST_WORD, LARGEST_WORD = 18, 32
"""Shortest and longest word of a value, in bits."""
LANE = 32
"""Bits of a program word that one message loads."""
ELEMENTARY = ("sin", "cos", "normalized_reciprocal", "sqrt", "exp")
"""Operations of the elementary unit. Their code in a program word is the index plus one."""
LOAD, STORE = "load", "store"
"""Operations of the memory of iterations. Their codes follow those of the elementary unit."""
NOISE = "noise"
"""Operation of the unit of random numbers. It is last, so that cores without it need no bit for it."""
KINDS = (*ELEMENTARY, LOAD, STORE, NOISE)
"""All operations of the function slot, in the order of their codes."""
LOADING = 3
"""Cycles of a load from its address to the value: address register, memory, output register."""
SHIFT_BITS = MOST_SHIFT.bit_length()
"""Bits of a shift amount in a program word."""
BLOCK_BITS = 5
"""Bits of a block's number. A block is a run of program words; this limits the number of blocks in a program."""
FIRST_POINT = 1 << BLOCK_BITS
"""Row of the first binary point in its table. The rows before it hold the first row of each function, by block."""
MOST_ITERATION_BITS = 16
"""Largest number of address bits of the memory of iterations."""
LEVELS = 4
"""Largest number of nested loops, in addition to the steps of a sample."""
OPERANDS = "abc"
"""Names of a unit's operands."""
FETCH = 3
"""Cycles from a program address to the word: address register, memory, output register."""
READ = 3
"""Cycles from the address of an operand to its value: memory, output register, multiplexer."""
SHARING = 2
"""Cycles from the result of a function or load to the shared memory's write port: multiplexer, sign."""
RESET_CYCLES = 128
"""Cycles for which a core stays in reset after a reset, a power of two. All instructions under way end in this time."""
FLAG_CYCLES = 4
"""Cycles from the last result of a sample until its overflow flag is complete."""
INPUT_CONVERSION = 2 + FROM_FLOAT_LATENCY
"""Cycles from a float32 word on the stream to an integer, with one to accept the word and one to look up its point."""
SIDE = 4
"""Register stages of an addend on its way to the sum."""


@explained
@dataclass(frozen=True)
class Core:
    """Shape of a processor core.

    Raises:
        ArgumentError: A number is out of range.
    """

    units: int = 4
    """Multiply-add units, 2 to 8."""
    word: int = 24
    """Bits of a value, 18 to 32."""
    angle_bits: int = FEWEST_ANGLE_BITS
    """Integer bits of angles, 3 to 16."""
    place_bits: int = 9
    """Address bits of a unit's memory, which holds 2**place_bits values."""
    program_bits: int = 12
    """Address bits of the program memory, in words."""
    input_bits: int = 7
    """Address bits of the input buffer: a sample has up to 2**input_bits inputs."""
    output_bits: int = 9
    """Address bits of a unit's output buffer, in results."""
    lookup_memories: int = 0
    """Number of operand memories made of lookup tables, up to 3 (units + 1). The others are block RAMs."""
    iteration_bits: int = 0
    """Address bits of the memory of iterations; 0 for a core without it."""
    saturates: int = 0
    """1 if results that do not fit a word become the nearest number that does, 0 if they wrap."""
    exp_bits: int = 0
    """Integer bits of the operand of an exponential; 0 for a core without exponentials."""
    exp_whole: int = 1
    """Integer bits of the result of an exponential."""
    noise: int = 0
    """1 for a core with a unit of random numbers."""
    floats: int = 0
    """1 if the streams carry float32, 0 if they carry integers."""

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
            "iteration_bits": (0, MOST_ITERATION_BITS),
            "saturates": (0, 1),
            "exp_bits": (0, 10),
            "exp_whole": (1, 16),
            "noise": (0, 1),
            "floats": (0, 1),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ArgumentError(f"{name} {value!r} of a core; expected {least} to {most}", code="DG-CORE-026")

    @property
    def stream_words(self) -> str:
        """Return the number format of the core's streams, one of `design.words.WORDS`."""
        return FLOAT32 if self.floats else FIXED

    @property
    def input_points(self) -> int:
        """Return the address bits of the table of binary points of inputs."""
        return max(self.input_bits, BLOCK_BITS) + 1

    @property
    def output_points(self) -> int:
        """Return the address bits of the table of binary points of results."""
        return max(self.output_bits, BLOCK_BITS) + 1

    @property
    def output_conversion(self) -> int:
        """Return the cycles from an integer to a float32 word on the stream, with one to look up its binary point."""
        return 1 + to_float_latency(self.word)

    @property
    def bank_bits(self) -> int:
        """Return the bits of a memory's number.

        A unit has a memory for each unit's results, and a last one for constants, inputs and results of functions.
        """
        return self.units.bit_length()

    @property
    def shared(self) -> int:
        """Return the number of the memory for constants, inputs and results of functions."""
        return self.units

    def is_lookup(self, operand: str, bank: int) -> bool:
        """Return whether a memory consists of lookup tables.

        Args:
            operand: Operand that reads the memory, one of OPERANDS.
            bank: Number of the memory.
        """
        return len(OPERANDS) * bank + OPERANDS.index(operand) < self.lookup_memories

    @property
    def operand_bits(self) -> int:
        """Return the bits of an operand in a program word: memory and address."""
        return self.bank_bits + self.place_bits

    @property
    def angle(self) -> Format:
        """Return the format of a sine's operand, in rad."""
        return Format(self.word, self.word - 1 - self.angle_bits)

    @property
    def sine(self) -> Format:
        """Return the format of sines and cosines."""
        return Format(self.word, self.word - 2)

    @property
    def exponential(self) -> tuple[Format, Format]:
        """Return the formats of the operand and of the result of an exponential."""
        return Format(self.word, self.word - 1 - self.exp_bits), Format(self.word, self.word - 1 - self.exp_whole)

    @property
    def random(self) -> Format:
        """Return the format of random numbers."""
        return Format(self.word, self.word - 1 - NOISE_WHOLE)

    def fused(self, formatted: FormattedGraph) -> FormattedGraph:
        """Return a graph that consists of this core's multiply-adds and functions.

        Args:
            formatted: Graph with formats of the core's word length.
        """
        return fused(formatted, self.angle, self.exponential, self.word)

    @property
    def root_shift(self) -> int:
        """Return the bits by which a square root's operand is shifted left, so that the root fills a word."""
        return self.word + 1

    @property
    def root_source(self) -> Format:
        """Return a format of a square root's operand; only the parity of its binary point matters."""
        return Format(self.word, (self.word + 1) % 2)

    @property
    def root(self) -> Format:
        """Return the format of square roots."""
        return Format(self.word, root_frac(self.root_source))

    @property
    def sum_bits(self) -> int:
        """Return the bits of the exact sum of a product and a shifted addend."""
        return max(2 * self.word, self.word + MOST_SHIFT) + 2

    @cached_property
    def unit_latency(self) -> int:
        """Return the cycles from operands to the result at the memories' write ports.

        These are the product or the addend, the sum, three stages of the shift, a register, and one more to saturate.
        """
        return max(latencies.product_latency(self.word, self.word), SIDE) + 5 + self.saturates

    @cached_property
    def latency(self) -> int:
        """Return the cycles from a multiply-add to the first instruction that may read its result."""
        return READ + self.unit_latency + 1

    @cached_property
    def elementary(self) -> dict[str, int]:
        """Return the cycles of each elementary function from operand to result."""
        sine = latencies.sine_latency(self.angle, self.sine)
        return {
            "sin": sine,
            "cos": sine,
            "normalized_reciprocal": latencies.reciprocal_latency(self.word, self.word),
            "sqrt": latencies.root_latency(self.word, self.word, self.root_shift),
            **({"exp": latencies.exp_latency(*self.exponential)} if self.exp_bits else {}),
        }

    def latency_of(self, kind: str) -> int:
        """Return the cycles from an instruction of a kind to the first instruction that may read its result."""
        if kind in (LOAD, STORE):
            return READ + LOADING + SHARING + 1
        if kind == NOISE:
            return READ + latencies.NOISE_LATENCY + SHARING + 1
        return READ + self.elementary[kind] + SHARING + 1 if kind in ELEMENTARY else self.latency

    @property
    def arithmetic(self) -> Arithmetic:
        """Return the arithmetic of the units."""
        return Arithmetic(overflow=SATURATE if self.saturates else WRAP)

    @cached_property
    def unit_fields(self) -> dict[str, int]:
        """Return the bits of each field of a unit's part of a program word, from bit 0 up."""
        operands = dict.fromkeys(OPERANDS, self.operand_bits)
        flags = dict.fromkeys(("write", "out", "product_negative", "addend_negative", "select"), 1)
        return {**operands, "place": self.place_bits, **flags, "up": SHIFT_BITS, "down": SHIFT_BITS}

    @cached_property
    def function_fields(self) -> dict[str, int]:
        """Return the bits of each field of the function slot, the last part of a program word.

        test: a positive result of unit 0 continues a loop. address, down: address of the first iteration's value in the
        memory of iterations, and whether later iterations use lower addresses.
        """
        kinds = (len(KINDS) - (not self.noise)).bit_length()
        memory = {"address": self.iteration_bits, "down": 1} if self.iteration_bits else {}
        return {"kind": kinds, "place": self.place_bits, "shift": latencies.SHIFT_BITS, **memory, "test": 1}

    @property
    def unit_bits(self) -> int:
        """Return the bits of a unit's part of a program word."""
        return sum(self.unit_fields.values())

    @property
    def program_word(self) -> int:
        """Return the bits of a program word."""
        return self.units * self.unit_bits + sum(self.function_fields.values())

    @property
    def lanes(self) -> int:
        """Return the number of messages that load a program word."""
        return math.ceil(self.program_word / LANE)

    @property
    def lane_bits(self) -> int:
        """Return the bits of a lane's number."""
        return max((self.lanes - 1).bit_length(), 1)

    @cached_property
    def hash(self) -> str:
        """Return the hash of the shape and of the source that generates its gateware."""
        text = json.dumps([asdict(self), SHIFT_BITS, self.root_shift, source_digest(CORE)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def device_hash(self) -> int:
        """Return the 64 bits of the hash that the hardware reports."""
        return int(self.hash[:16], 16)

    @property
    def text(self) -> str:
        """Return the shape in one line."""
        return (
            f"{self.units} units, {self.word} bits, angles to ±{1 << self.angle_bits} rad, {1 << self.place_bits} "
            f"places, {1 << self.program_bits} words"
            + (f", {1 << self.iteration_bits} values of iterations" if self.iteration_bits else "")
            + (f", exponentials of ±{1 << self.exp_bits} to {1 << self.exp_whole}" if self.exp_bits else "")
            + (", random numbers" if self.noise else "")
            + (", saturating" if self.saturates else "")
            + (", float32 on its streams" if self.floats else "")
        )
