"""Describe cores in their AXI shell for programs that stream samples through them (plain Python)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base.errors import Error
from dynagate.base.progress import Progress, quiet
from dynagate.design.design import AxiStreams, DesignRecord, Sides
from dynagate.design.program import ProgramBody
from dynagate.design.verilog_list import PLAIN
from dynagate.design.words import beats
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import IDENTITY, VERSION, with_processor
from dynagate.native.cache import cache_folder, kept

if TYPE_CHECKING:
    from dynagate.hw.processor.isa.shape import Core

TOP = "accelerator"
"""Name of the Verilog module."""


class CoreError(Error, RuntimeError):
    """The Verilog of cores cannot be kept in the cache; the text names the folder."""


@dataclass(frozen=True)
class Cores:
    """A number of cores of one shape behind one pair of streams, with samples in round-robin order.

    Raises:
        ArgumentError: The streams carry other words than the cores, or there are too many cores.
    """

    core: Core
    """Shape of each core."""
    axi: Axi
    """Streams of the shell."""
    cores: int = 1
    """Number of cores."""
    style: str = PLAIN
    """Style of the Verilog, "plain" or "strict"."""

    def __post_init__(self) -> None:
        from dynagate.hw.processor.shell.core_shell import check_shell

        check_shell(self.core, self.axi, self.cores)


def with_streams(design: DesignRecord[ProgramBody], width: int, last: str) -> DesignRecord[ProgramBody]:
    """Return the record of a program with its streams in a shell.

    Args:
        design: Record of the program.
        width: Bits of a beat.
        last: Whether TLAST ends samples or batches.
    """
    words = Sides(design.input.words, design.output.words)
    own = Sides(beats(words.input, width), beats(words.output, width))
    table = with_processor()
    streams = AxiStreams(width, last, words, own, Sides(0, 0), IDENTITY, VERSION, table, word=design.body.stream_words)
    return replace(design, axi=streams)


def with_bench_streams(design: DesignRecord[ProgramBody]) -> DesignRecord[ProgramBody]:
    """Return the record of a program with the streams of the shell that its bench simulates."""
    assert design.body.shell is not None
    return with_streams(design, design.body.shell.width, design.body.shell.last)


def core_verilog(
    core: Core, axi: Axi, cores: int = 1, *, has_tlast: bool = True, style: str = PLAIN, progress: Progress = quiet
) -> Path:
    """Return the path of the Verilog of cores in their shell, in the user's cache. It is generated unless it is there.

    Args:
        core: Shape of the cores.
        axi: Streams.
        cores: Number of cores.
        has_tlast: Whether the source of packets sets TLAST, which a serial line does not.
        style: Style of the text, "plain" or "strict".
        progress: Function that receives a line of text before each slow stage.

    Raises:
        ArgumentError: The streams carry other words than the cores, or there are too many cores.
        CoreError: The cache cannot be written.
    """
    from dynagate.hw.processor.shell.core_shell import check_shell, shell_text

    check_shell(core, axi, cores)

    def make(work: Path, result: Path) -> None:
        progress("Amaranth: processor to Verilog")
        text = shell_text(core, axi, cores, has_tlast=has_tlast, style=style)
        (result / f"{TOP}.v").write_text(text, encoding="utf-8")

    name = f"processor-{core.hash[:16]}-{axi.width}-{axi.last}-{cores}{'' if has_tlast else '-serial'}"
    name += "" if style == PLAIN else f"-{style}"
    return kept(cache_folder() / name, make, CoreError) / f"{TOP}.v"
