"""What a bench does to the registers of a module before its rounds, and what it expects of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.design import Design
from dynagate.hw.bench.rounds import ROUNDS
from dynagate.hw.bench.wire import Flags
from dynagate.hw.regmap import OUTPUTS, READ

SOFT_RESET = 255
"""In place of a round: what resets the streams while samples are under way."""
OKAY, SLVERR = 0, 2


class Kind(IntEnum):
    """READ: it must be the word. INPUT_STALLS, OUTPUT_STALLS: a read that must be what the bench has counted."""

    READ, WRITE, INPUT_STALLS, OUTPUT_STALLS = range(4)


class Operation(NamedTuple):
    """before: which round; ROUNDS is behind the last. response: of the bus."""

    before: int
    kind: Kind
    address: int
    word: int
    response: int = OKAY

    @property
    def bits(self) -> int:
        """As a bench reads it: 8 bits of the round, 4 of the kind, 4 of the response, 16 of the address, 32 of the
        word."""
        return self.before << 56 | self.kind << 52 | self.response << 48 | self.address << 32 | self.word


class Counted(NamedTuple):
    """Of samples in their order: bad, those with a number that is none or does not fit, (samples,); and of the results
    that come, flagged ones, (results,), and the passes that overflowed, (results, scopes)."""

    bad: Flags
    flagged: Flags
    by_scope: Flags


def of_shell(
    design: Design,
    held: Mapping[str, npt.NDArray[np.float32]],
    counted: Counted,
    settings: Mapping[int, Mapping[str, int]] | None = None,
) -> list[Operation]:
    """held: what the inertial parameters of links are to be, by link. settings: of registers, before rounds."""
    axi = design.axi
    assert axi is not None
    address = {name: register.address for name, register in axi.registers.items()}
    resets = 1 << axi.registers["control"].bits.index("reset")
    operations = [Operation(SOFT_RESET, Kind.WRITE, address["control"], resets)]
    constants = {
        "identity": axi.identity,
        "version": axi.version,
        "hash_low": design.device_hash & 0xFFFFFFFF,
        "hash_high": design.device_hash >> 32,
        "ii": design.ii,
        "latency": design.latency,
        "input_words": axi.words.input,
        "output_words": axi.words.output,
        "control": 0,
        "samples_in": 0,  # the resets have cleared it
    }
    operations += [Operation(0, Kind.READ, address[name], word) for name, word in constants.items()]
    beyond, read_only = 4 * len(axi.registers), next(n for n, row in axi.registers.items() if row.access == READ)
    operations.append(Operation(0, Kind.READ, beyond, 0, SLVERR))
    operations.append(Operation(0, Kind.WRITE, address[read_only], 1, SLVERR))
    written = {f"{name}_{k}": word for name, row in held.items() for k, word in enumerate(_bits(row))}
    for kind in (Kind.WRITE, Kind.READ):
        operations += [Operation(0, kind, address[name], word) for name, word in written.items()]
    if axi.choice:
        operations.append(Operation(0, Kind.READ, address[OUTPUTS], (1 << len(axi.registers[OUTPUTS].bits)) - 1))
    for before, words in (settings or {}).items():
        operations += [Operation(before, Kind.WRITE, address[name], word) for name, word in words.items()]
    return operations + _counters(design, address, counted)


def _bits(row: npt.NDArray[np.float32]) -> list[int]:
    return [int(word) for word in row.view(np.uint32)]


def _counters(design: Design, address: Mapping[str, int], counted: Counted) -> list[Operation]:
    """The counters after all samples, and after a clear."""
    assert design.axi is not None
    bad, flagged, scopes = counted
    seen = {
        "samples_in": len(bad),
        "samples_out": len(flagged),
        "bad_inputs": int(bad.sum()),
        "overflows": int(flagged.sum()),
        "overflow_scopes": sum(1 << k for k, flags in enumerate(scopes.T) if flags.any()),
        "misaligned": 0,
        "status": int(bad.any()) | int(flagged.any()) << 1,
    }
    seen |= {"first_bad_input": int(np.argmax(bad))} if bad.any() else {}
    seen |= {"first_overflow": int(np.argmax(flagged))} if flagged.any() else {}
    operations = [Operation(ROUNDS, Kind.READ, address[name], word) for name, word in seen.items()]
    operations.append(Operation(ROUNDS, Kind.INPUT_STALLS, address["input_stalls"], 0))
    operations.append(Operation(ROUNDS, Kind.OUTPUT_STALLS, address["output_stalls"], 0))
    clears = 1 << design.axi.registers["control"].bits.index("clear")
    operations.append(Operation(ROUNDS, Kind.WRITE, address["control"], clears))
    return operations + [
        Operation(ROUNDS, Kind.READ, address[name], 0) for name in ("samples_in", "samples_out", "status")
    ]
