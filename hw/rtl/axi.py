"""Options of the AXI interfaces (plain Python)."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.arguments import check_flags, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.design.words import FLOAT32, LASTS, PER_BATCH, PER_SAMPLE, WIDTHS, WORD, WORDS

__all__ = ["PER_BATCH", "PER_SAMPLE", "WIDTHS", "Axi"]


@explained
@dataclass(frozen=True)
class Axi:
    """Options of the AXI shell around a datapath.

    Raises:
        ArgumentError: An option has another value.
    """

    width: int = 512
    """Bits of a beat of both streams: 32, 64, 128, 256 or 512."""
    last: str = PER_SAMPLE
    """Unit that TLAST ends: "sample" for every sample, or "batch" for a batch of samples."""
    words: str = FLOAT32
    """Number format of the streams: "float32", or "fixed" for the packed integers of the datapath."""
    choice: bool = False
    """Whether a register selects, at run time, which outputs of a function are sent."""

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        if self.width not in WIDTHS:
            raise ArgumentError(
                f"stream of {self.width} bits; expected one of {', '.join(map(str, WIDTHS))}", code="DG-HW-026"
            )
        if self.last not in LASTS:
            raise ArgumentError(f"TLAST per '{self.last}'; expected '{PER_SAMPLE}' or '{PER_BATCH}'", code="DG-HW-027")
        if self.words not in WORDS:
            raise ArgumentError(f"words '{self.words}'; expected one of {', '.join(WORDS)}", code="DG-HW-028")
        check_flags(choice=self.choice)

    @property
    def lanes(self) -> int:
        """Return the 32-bit words per beat."""
        return self.width // WORD
