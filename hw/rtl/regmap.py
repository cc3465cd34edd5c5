"""Registers behind AXI4-Lite: one table for the hardware, design.json and the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.errors import ArgumentError
from dynagate.design.design import Register

READ, WRITE = "read", "write"
"""Access to a register."""
IDENTITY = 0x44594E47
"""Value of the register `identity`: the letters DYNG."""
VERSION = 3
"""Version of the registers and the streams; a host refuses other versions."""
BITS = 32
"""Bits of a register."""


def _table(*rows: tuple[str, str, str] | tuple[str, str, str, tuple[str, ...]]) -> dict[str, Register]:
    return {row[0]: Register(row[0], 4 * k, *row[1:]) for k, row in enumerate(rows)}


REGISTERS = _table(
    ("identity", READ, "0x44594E47, the letters DYNG"),
    ("version", READ, "version of the registers and streams"),
    ("hash_low", READ, "design hash, low half: what design.json must say"),
    ("hash_high", READ, "design hash, high half"),
    ("ii", READ, "cycles between samples"),
    ("latency", READ, "cycles of a sample in the datapath"),
    ("input_words", READ, "words of a sample on s_axis, before its tag"),
    ("output_words", READ, "words of a result with all outputs on m_axis, before its tag"),
    ("control", WRITE, "what a 1 does; reads as 0", ("reset", "clear")),
    ("status", READ, "sticky, until clear or reset", ("bad_input", "overflow", "misaligned", "hole")),
    ("samples_in", READ, "samples that entered the datapath"),
    ("samples_out", READ, "results that left it"),
    ("input_stalls", READ, "cycles in which s_axis offered a beat and had to wait"),
    ("output_stalls", READ, "cycles in which m_axis offered a beat and had to wait"),
    ("bad_inputs", READ, "samples with NaN, infinite or out-of-range inputs"),
    ("first_bad_input", READ, "index of the first of them"),
    ("overflows", READ, "results some value of which overflowed on its way"),
    ("first_overflow", READ, "index of the first of them"),
    ("overflow_scopes", READ, "which passes overflowed, a bit each: design.json names them"),
    (
        "misaligned",
        READ,
        "samples that TLAST cut short or did not end, that have a hole, or whose words after the tag are not 0",
    ),
)
"""Registers that all accelerators have, by name."""
COUNTED = {"misaligned": "misaligned"}
"""Event that each counter counts, by its name in `hw.rtl.accelerator.ShellStatus`."""
ADDRESS_BITS = 8
"""Bits of a register's byte address."""
OKAY, SLVERR = 0, 2
"""Responses of AXI4-Lite: success, and refused by the device."""
HOLE = "hole"
"""Bit of the register `status` that reports holes in beats."""
OUTPUTS = "outputs"
"""Name of the last register of an accelerator whose outputs are chosen at run time."""


RING = ("steps", "every")
"""Registers of a ring, in the order of their addresses."""


PROCESSOR = ("stream", "cores", "checksum")
"""Registers of a processor, in the order of their addresses."""


def with_processor() -> dict[str, Register]:
    """Return the registers of a processor, by name. Registers of a datapath read 0, except `ii`, the program's
    interval.
    """
    meanings = (
        "bits of a beat of both streams; bit 16: TLAST ends a batch",
        "cores that take samples in turn",
        "CRC-32 of the program that is loaded; 0: none is",
    )
    first = len(REGISTERS)
    rows = [
        Register(name, 4 * (first + k), READ, text)
        for k, (name, text) in enumerate(zip(PROCESSOR, meanings, strict=True))
    ]
    return {**REGISTERS, **{row.name: row for row in rows}}


def with_ring() -> dict[str, Register]:
    """Return the registers of a datapath with a ring, by name."""
    meanings = (
        "steps after which trajectories end; 0, as after power-up: as the stream states",
        "results leave after this many steps of their trajectory, and after its last; 0 is 1, as after power-up",
    )
    first = len(REGISTERS)
    rows = [
        Register(name, 4 * (first + k), WRITE, text) for k, (name, text) in enumerate(zip(RING, meanings, strict=True))
    ]
    return {**REGISTERS, **{row.name: row for row in rows}}


def registers_of(entries: Sequence[tuple[str, int]], choice: Sequence[str] = ()) -> dict[str, Register]:
    """Return the registers of a datapath, by name.

    Args:
        entries: Input and entry of each number that a register holds.
        choice: Outputs of all functions, if they are chosen at run time; the register OUTPUTS has a bit for each.

    Raises:
        ArgumentError: There are more entries than addresses, or more outputs than bits.
    """
    first, most = len(REGISTERS), (1 << ADDRESS_BITS) // 4 - bool(choice)
    if first + len(entries) > most:
        raise ArgumentError(
            f"{len(entries)} variable parameters in registers; expected at most {most - first}: fewer of them",
            code="DG-HW-030",
        )
    if len(choice) > BITS:
        raise ArgumentError(
            f"a choice of {len(choice)} outputs; expected at most {BITS}: fewer functions", code="DG-HW-031"
        )
    held = {
        f"{name}_{k}": Register(f"{name}_{k}", 4 * (first + place), WRITE, f"entry {k} of input {name}, a float32")
        for place, (name, k) in enumerate(entries)
    }
    meaning = "outputs that results have: one or more of each function; refused while samples are under way"
    chosen = {OUTPUTS: Register(OUTPUTS, 4 * (first + len(entries)), WRITE, meaning, tuple(choice))} if choice else {}
    return {**REGISTERS, **held, **chosen}
