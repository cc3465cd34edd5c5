"""Register accesses that a bench makes between its rounds, with the expected responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.design import AxiStreams, DesignRecord
from dynagate.design.words import PER_BATCH
from dynagate.hw.processor.shell.core_shell import BATCH_BIT
from dynagate.hw.rtl.regmap import OKAY, OUTPUTS, READ, SLVERR
from dynagate.hw.vectors.rounds import ROUNDS
from dynagate.hw.vectors.wire import Flags

SOFT_RESET = 255
"""Number in place of a round for the accesses that reset the streams while samples are under way."""


class AccessKind(IntEnum):
    """Kind of a register access.

    READ: the value must be the word. WRITE: the word is written. INPUT_STALLS, OUTPUT_STALLS: the value must equal the
    count of the bench.
    """

    READ, WRITE, INPUT_STALLS, OUTPUT_STALLS = range(4)


class RegisterAccess(NamedTuple):
    """One register access."""

    before: int
    """Round before which the access takes place; ROUNDS for after the last."""
    kind: AccessKind
    address: int
    word: int
    """Value that is written or expected."""
    response: int = OKAY
    """Response of the bus."""

    @property
    def bits(self) -> int:
        """Encode for the bench: 8 bits of the round, 4 of the kind, 4 of the response, 16 of the address, 32 of the
        word.
        """
        return self.before << 56 | self.kind << 52 | self.response << 48 | self.address << 32 | self.word


class Counted(NamedTuple):
    """Expected counts of a shell: flags of the samples that it has accepted and of their results, in order."""

    bad: Flags
    """Samples with a number that is NaN or infinite or does not fit, (samples,)."""
    flagged: Flags
    """Results in which a value overflowed, (results,)."""
    by_scope: Flags
    """The passes that overflowed, (results, scopes)."""
    misaligned: int = 0
    """Samples that TLAST cut short or did not end, and samples with missing bytes or with words behind the tag."""
    holes: bool = False
    """Whether a sample had missing bytes."""


def datapath_accesses(
    design: DesignRecord,
    held: Mapping[str, npt.NDArray[np.float32]],
    counted: Counted,
    settings: Mapping[int, Mapping[str, int]] | None = None,
) -> list[RegisterAccess]:
    """Return the accesses for the shell of a datapath.

    Args:
        design: Record of the design.
        held: Inertial parameters to write, by link.
        counted: Expected counts.
        settings: Registers to set, by the round before which they are set.
    """
    axi, address = _registers(design)
    constants = {
        "ii": design.interval,
        "latency": design.latency,
        "input_words": axi.words.input,
        "output_words": axi.words.output,
        "samples_in": 0,  # the resets have cleared it
    }
    operations = _first(design, constants)
    written = {f"{name}_{k}": word for name, row in held.items() for k, word in enumerate(_bits(row))}
    for kind in (AccessKind.WRITE, AccessKind.READ):
        operations += [RegisterAccess(0, kind, address[name], word) for name, word in written.items()]
    if axi.choice:
        operations.append(
            RegisterAccess(0, AccessKind.READ, address[OUTPUTS], (1 << len(axi.registers[OUTPUTS].bits)) - 1)
        )
    for before, words in (settings or {}).items():
        operations += [RegisterAccess(before, AccessKind.WRITE, address[name], word) for name, word in words.items()]
    return [*operations, *_counted(address, counted, ROUNDS), *_cleared(design, ROUNDS)]


def _registers(design: DesignRecord) -> tuple[AxiStreams, dict[str, int]]:
    """Return a module's streams, and the addresses of its registers by name."""
    assert design.axi is not None
    return design.axi, {name: register.address for name, register in design.axi.registers.items()}


def _first(design: DesignRecord, constants: Mapping[str, int]) -> list[RegisterAccess]:
    """Return a soft reset, and the reads before the first round. constants: expected values besides the identity."""
    axi, address = _registers(design)
    said = {
        "identity": axi.identity,
        "version": axi.version,
        "hash_low": design.device_hash & 0xFFFFFFFF,
        "hash_high": design.device_hash >> 32,
        "control": 0,
        **constants,
    }
    resets = 1 << axi.registers["control"].bits.index("reset")
    beyond, read_only = 4 * len(axi.registers), next(n for n, row in axi.registers.items() if row.access == READ)
    return [
        RegisterAccess(SOFT_RESET, AccessKind.WRITE, address["control"], resets),
        *(RegisterAccess(0, AccessKind.READ, address[name], word) for name, word in said.items()),
        RegisterAccess(0, AccessKind.READ, beyond, 0, SLVERR),
        RegisterAccess(0, AccessKind.WRITE, address[read_only], 1, SLVERR),
        _clear(axi, 0),  # the beat that waited through the soft reset has counted as a stall
    ]


class Answered(NamedTuple):
    """Results of a core until a round."""

    before: int
    """The round."""
    flagged: Flags
    """Results since the resets in which a value overflowed, (results,)."""
    bad: Flags
    """Samples with a NaN or a number that does not fit, (samples,)."""
    cut: int
    """Number of samples that were cut short."""
    holes: bool
    """Whether one of them lacked a byte."""


def processor_accesses(
    design: DesignRecord, cores: int, checksum: int, counted: Sequence[Answered]
) -> list[RegisterAccess]:
    """Return the accesses for the shell of a processor's cores.

    Args:
        design: Record of the program.
        cores: Number of cores.
        checksum: Checksum of the program.
        counted: Counts at the rounds where a bench may stop.
    """
    axi, address = _registers(design)
    nothing = dict.fromkeys(("ii", "latency", "input_words", "output_words", "samples_in", "checksum"), 0)
    stream = axi.width | (axi.last == PER_BATCH) << BATCH_BIT
    loaded = {"ii": design.interval, "checksum": checksum, "samples_in": 0, "misaligned": 0}
    reset, *said = _first(design, {**nothing, "stream": stream, "cores": cores})
    return [
        *said,
        reset,  # after the round in which the program is loaded
        *(RegisterAccess(1, AccessKind.READ, address[name], word) for name, word in loaded.items()),
        _clear(axi, 1),
        *(operation for each in counted for operation in _counted(address, _of_results(each), each.before)),
        *_cleared(design, counted[-1].before),
    ]


def _of_results(answered: Answered) -> Counted:
    """Convert the answers of a core, which has one overflow flag."""
    return Counted(answered.bad, answered.flagged, answered.flagged[:, None], answered.cut, answered.holes)


def _bits(row: npt.NDArray[np.float32]) -> list[int]:
    """Return the bits of float32 numbers."""
    return [int(word) for word in row.view(np.uint32)]


def _counted(address: Mapping[str, int], counted: Counted, before: int) -> list[RegisterAccess]:
    """Return the reads of the counters before a round."""
    bad, flagged, scopes, misaligned, holes = counted
    seen = {
        "samples_in": len(bad),
        "samples_out": len(flagged),
        "bad_inputs": int(bad.sum()),
        "overflows": int(flagged.sum()),
        "overflow_scopes": sum(1 << k for k, flags in enumerate(scopes.T) if flags.any()),
        "misaligned": misaligned,
        "status": int(bad.any()) | int(flagged.any()) << 1 | (misaligned > 0) << 2 | holes << 3,
    }
    seen |= {"first_bad_input": int(np.argmax(bad))} if bad.any() else {}
    seen |= {"first_overflow": int(np.argmax(flagged))} if flagged.any() else {}
    return [
        *(RegisterAccess(before, AccessKind.READ, address[name], word) for name, word in seen.items()),
        RegisterAccess(before, AccessKind.INPUT_STALLS, address["input_stalls"], 0),
        RegisterAccess(before, AccessKind.OUTPUT_STALLS, address["output_stalls"], 0),
    ]


def _clear(axi: AxiStreams, before: int) -> RegisterAccess:
    """Return the write that clears the counters before a round."""
    control = axi.registers["control"]
    return RegisterAccess(before, AccessKind.WRITE, control.address, 1 << control.bits.index("clear"))


def _cleared(design: DesignRecord, before: int) -> list[RegisterAccess]:
    """Return a clear, and the reads of the counters after it."""
    axi, address = _registers(design)
    return [
        _clear(axi, before),
        *(
            RegisterAccess(before, AccessKind.READ, address[name], 0)
            for name in ("samples_in", "samples_out", "status")
        ),
    ]
