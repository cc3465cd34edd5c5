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

    width: bits of both streams, 32, 64, 128, 256 or 512. last: TLAST ends every "sample" or a "batch" of samples.
    words: the number format of the streams, "float32" or the datapath's own integers packed, "fixed". choice: a
    register selects which outputs of a function are sent while the accelerator runs.

    Raises ValueError: an option has another value.
    """

    width: int = 512
    last: str = PER_SAMPLE
    words: str = FLOAT32
    choice: bool = False

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        if self.width not in WIDTHS:
            raise ArgumentError(f"stream of {self.width} bits; expected one of {', '.join(map(str, WIDTHS))}")
        if self.last not in LASTS:
            raise ArgumentError(f"TLAST per '{self.last}'; expected '{PER_SAMPLE}' or '{PER_BATCH}'")
        if self.words not in WORDS:
            raise ArgumentError(f"words '{self.words}'; expected one of {', '.join(WORDS)}")
        check_flags(choice=self.choice)

    @property
    def lanes(self) -> int:
        """32-bit words of a beat."""
        return self.width // WORD
