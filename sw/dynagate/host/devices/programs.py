"""Devices of programs for the processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.design.design import DesignRecord
from dynagate.design.files import DesignError
from dynagate.design.program import ProgramBody, load_words
from dynagate.design.verilog_list import PLAIN
from dynagate.design.words import PER_BATCH, PER_SAMPLE, WIDTHS, WORD
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.loops import FormattedLoop
from dynagate.fixedpoint.models.model import SolverModel, StepModel
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table
from dynagate.host.board_links import LINKS
from dynagate.host.devices.board import BoardExecutor
from dynagate.host.devices.face import Executor
from dynagate.host.devices.fixed import DesignInFixed, FixedDevice, graph_device
from dynagate.host.devices.motions import motion_device
from dynagate.host.devices.numpy import LoopInNumpy, NumpyDevice
from dynagate.host.devices.parts import FunctionsDevice
from dynagate.host.devices.program_session import ProgramSession, chip_motion_of, core_of, program_device
from dynagate.host.devices.sim import Simulation
from dynagate.host.devices.sources import DesignSource
from dynagate.host.links import DeviceLink, closed_on_failure
from dynagate.host.sim_links import SimShellLink
from dynagate.hw.processor.streams import with_streams
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import with_processor
from dynagate.integrators.step import CARRY


@dataclass(frozen=True)
class ProgramOnSim(Simulation):
    """Options of a program on simulated cores. Cores are only simulated in their shell."""

    name: ClassVar[str] = "sim"

    axi: Axi | int | None = None
    """The streams, or their width in bits; None for the default width."""
    cores: int = 1
    """Number of cores that share the streams."""
    shell: bool = True
    """Always true, as cores have no other interface."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.shell:
            raise ArgumentError(
                "shell=False of a program; expected True: cores are only simulated in their AXI shell",
                code="DG-DEVICE-028",
            )


def open_sim(source: DesignSource, options: ProgramOnSim, progress: Progress = quiet) -> Executor:
    """Load a program into simulated cores. They are compiled unless the cache has them.

    Args:
        source: The program.
        options: Options of the simulation.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    from dynagate.sim.processor import core_library

    core, content, axi = core_of(source), source.stored, options.axi
    streams = axi if isinstance(axi, Axi) else Axi(WORD if axi is None else axi, words=core.stream_words)
    design = with_streams(content, streams.width, streams.last)
    words = load_words(source.folder, content)
    style = PLAIN if content.body.shell is None else content.body.shell.style
    library = core_library(core, streams, options.cores, style=style, progress=progress)
    link = SimShellLink(library, design, pauses=options.pauses, seed=options.seed)
    return program_device(ProgramSession(design, words, link, shows_progress=progress is not quiet))


def open_board(source: DesignSource, options: BoardExecutor, progress: Progress = quiet) -> Executor:
    """Load a program into cores on a board. The board reports the width of its streams.

    Args:
        source: The program.
        options: Options of the board.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    core_of(source)
    content, text = source.stored, options.text(source.folder, progress)
    last = PER_SAMPLE if text.row is LINKS["uart"] else PER_BATCH
    design = with_streams(content, WORD, last)
    words = load_words(source.folder, content)
    link = text.opened(design)
    with closed_on_failure(link):
        width = _width(link)
    if width != WORD:
        link.close()
        design = with_streams(content, width, last)
        link = text.opened(design)
    return program_device(ProgramSession(design, words, link, shows_progress=progress is not quiet))


def _width(link: DeviceLink) -> int:
    """Return the bits of a beat that the device reports. Raise DesignError if no processor has such streams."""
    width = link.read_register(with_processor()["stream"].address) & 0xFFFF
    if width not in WIDTHS:
        raise DesignError(
            f"{link.text} says that its streams have {width} bits; expected a processor's bitstream",
            code="DG-DEVICE-029",
        )
    return width


def open_fixed(source: DesignSource, options: DesignInFixed, progress: Progress = quiet) -> Executor:
    """Return the device that computes the integers of a program without its hardware.

    Args:
        source: The program.
        options: None.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    content = source.record
    if len(functions := source.functions) > 1:
        graphs = [graph for each in functions for graph in each.graphs()]
        devices = {each.graph.name: graph_device(each, content) for each in graphs}
        return FunctionsDevice(",".join(devices), devices)
    (formatted,) = functions
    return INTEGERS[formatted.kind](formatted, content)


def _integers_of_graph(formatted: FormattedGraph, content: DesignRecord[ProgramBody]) -> Executor:
    if content.keeps_states:
        return FixedDevice(StepModel(formatted, CARRY, content.numbers), content)
    return graph_device(formatted, content)


def _integers_of_loop(formatted: FormattedLoop, content: DesignRecord[ProgramBody]) -> Executor:
    motion = chip_motion_of(content)
    if motion is None:
        return FixedDevice(SolverModel(formatted, content.numbers), content)
    return motion_device(formatted, motion, content)


INTEGERS: Mapping[str, Callable[[Any, DesignRecord[ProgramBody]], Executor]] = table(
    "host.devices.programs.INTEGERS",
    {
        GRAPH: _integers_of_graph,
        LOOP: _integers_of_loop,
        UNTIL: _integers_of_loop,
        SCAN: refused("a program", "a graph or a loop"),
    },
)
"""The device that computes the integers of each kind of step as the only function of a program."""


def open_numpy(source: DesignSource, options: LoopInNumpy, progress: Progress = quiet) -> Executor:
    """Return the device that computes the functions of a program in float64.

    Args:
        source: The program.
        options: None.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The device.
    """
    if len(functions := source.functions) > 1:
        graphs = [graph for each in functions for graph in each.graphs()]
        devices = {each.graph.name: NumpyDevice(each.graph) for each in graphs}
        return FunctionsDevice(",".join(devices), devices)
    (formatted,) = functions
    if (graph := formatted.as_graph) is None:
        raise ArgumentError(
            f"device 'numpy' for a loop, {source.folder}; expected 'sim', 'fixed' or 'board', or Rollout(robot, "
            "integrator=...) in float64",
            code="DG-DEVICE-030",
        )
    return NumpyDevice(graph.graph)
