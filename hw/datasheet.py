"""A design's datasheet in Markdown: a title, a table of facts and sections, which each kind of body fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynagate.design.design import ChosenFormats, Register
from dynagate.fixedpoint.proof.certificate import Certificate
from dynagate.fixedpoint.proof.error_bounds import CheckedBounds
from dynagate.fixedpoint.wordlength.sampled_errors import STATES, SampledErrors
from dynagate.graph.certificate import CERTIFICATE
from dynagate.graph.region import KINDS

DATASHEET = "datasheet.md"
"""Name of the file in a design's folder."""
Row = tuple[str, str]
"""Name and value of a property."""


@dataclass(frozen=True)
class Datasheet:
    """The content of a datasheet, before it is printed."""

    title: str
    rows: Sequence[Row]
    """Pairs of a property's name and its value."""
    sections: Sequence[str] = ()
    """Markdown that follows the table; an empty text is left out."""

    def text(self) -> str:
        """Return the Markdown."""
        parts = [f"# {self.title}", markdown_table(("", ""), self.rows), *self.sections]
        return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(header: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    """Return a Markdown table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def certificate_rows(formats: ChosenFormats) -> list[Row]:
    """Return the row on certificates of results, if the design has them."""
    content = formats.certificate
    return [] if content is None else [(CERTIFICATE, Certificate.of_dict(content).text())]


def proved_rows(formats: ChosenFormats) -> list[Row]:
    """Return the rows on proved errors and ranges, if ranges were proved."""
    if formats.proved is None:
        return []
    proved = CheckedBounds.of_dict(formats.proved)
    return [*((name, block.text()) for name, block in proved.blocks.items()), ("ranges", proved.text())]


def sampled_error_rows(errors: SampledErrors) -> list[tuple[str, ...]]:
    """Return, for each output, its name, its largest value in the region, and its largest error by kind of states.

    Errors are absolute, in the units of the output; the share of the largest value is in parentheses.
    """
    first = errors.outputs[KINDS[0]]
    rows: list[tuple[str, ...]] = [
        (
            f"`{name}`",
            f"{first[name].largest:.3g}",
            *(f"{errors.outputs[kind][name].error:.1e} ({errors.outputs[kind][name].share:.1g})" for kind in KINDS),
        )
        for name in first
    ]
    return [*rows, ("states that overflow", "", *(f"{errors.overflows[kind]} of {STATES}" for kind in KINDS))]


def register_table(registers: Mapping[str, Register]) -> str:
    """Return the registers by name as a Markdown table."""
    rows = [
        (f"0x{register.address:02X}", f"`{name}`", register.access, register.meaning + _bits(register.bits))
        for name, register in registers.items()
    ]
    return markdown_table(("address", "register", "access", "meaning"), rows)


def _bits(names: Sequence[str]) -> str:
    """Return the names of a register's bits as text."""
    return "".join(f"; bit {k} {name}" for k, name in enumerate(names))
