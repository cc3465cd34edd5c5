"""From a robot or a design to an `Accelerator` on a device: which options a device takes, and what it computes from."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy.typing as npt

from dynagate.base.arguments import check_flags
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.design.files import FILE, load
from dynagate.design.rebuilt import formatted_design
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics import function as function_row
from dynagate.dynamics.options import AlgorithmOptions
from dynagate.graph import trace
from dynagate.graph.parts import part_graph, parts_of
from dynagate.graph.region import Region, limits_of
from dynagate.host.accelerator import MASK, Accelerator, check_overflow
from dynagate.host.board_links import LinkText
from dynagate.host.chip_rollout import ChipRollout
from dynagate.host.devices import (
    CpuDevice,
    CudaDevice,
    Device,
    FixedDevice,
    FunctionsDevice,
    NumpyDevice,
    PartDevice,
    Step,
    StreamDevice,
)
from dynagate.host.drivers import DatapathDriver, ShellDriver
from dynagate.host.opening_ring import RING_DEVICES
from dynagate.host.options import FLAGS, Options
from dynagate.host.processor import PROGRAM_DEVICES, is_program
from dynagate.host.rollouts import DEVICES as DEVICES_OF_ROLLOUTS
from dynagate.host.rollouts import Rollout
from dynagate.host.sim_links import SimLink, SimShellLink
from dynagate.robot import Robot, robots

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from dynagate.design.design import Design
    from dynagate.fixedpoint.assign import FormattedGraph, Policy
    from dynagate.fixedpoint.goal import Goal
    from dynagate.host.links import Link
    from dynagate.hw.axi import Axi
    from dynagate.hw.build import Build
    from dynagate.hw.cost import Budget
    from dynagate.hw.plan import Stages
    from dynagate.hw.processor.build import ProcessorBuild
    from dynagate.hw.processor.shape import Core

DEFAULT_FUNCTION = "forward_dynamics_gradient"
WITH_SHELL = "expected a design built with axi=Axi(...), or --axi WIDTH on the command line"
BOARD = "board"
"""The device of designs that a link leads to."""
ALGORITHM = (
    "form",
    "frame",
    "mass",
    "prefix",
    "external_forces",
    "outputs",
    "variable",
    "dt",
    "integrator",
    "friction",
    "friction_speed",
)
ROLLOUT_OPTIONS = (
    "steps",
    "dt",
    "integrator",
    "linearise",
    "every",
    "form",
    "friction",
    "friction_speed",
    "stops",
)


@overload
def open(  # type: ignore[overload-overlap]  # a function that is known when it is called
    what: Robot | str | PathLike[str],
    function: Literal["rollout"],
    *,
    device: str | None = None,
    overflow: str = MASK,
    step: Step | None = None,
    **options: Unpack[Options],
) -> Rollout: ...
@overload
def open(
    what: Robot | Build | ProcessorBuild | str | PathLike[str],
    function: str | None = None,
    *,
    device: str | None = None,
    overflow: str = MASK,
    step: Step | None = None,
    **options: Unpack[Options],
) -> Accelerator: ...
def open(
    what: Robot | Build | ProcessorBuild | str | PathLike[str],
    function: str | None = None,
    *,
    device: str | None = None,
    overflow: str = MASK,
    step: Step | None = None,
    **options: Unpack[Options],
) -> Accelerator | Rollout:
    """A function of a robot on a device: "cpu" (the default), "numpy", "fixed", "cuda" or "sim"; or of a design on a
    board.

    what: a robot, the path of its URDF file, or the name of one that ships; or what `dynagate.build` returned, or the
    path of its folder. A design knows its function and opens as "sim" (its default), "fixed", "numpy" or, with a
    link, "board". A name that ships is the robot, also where a folder is called the same: write "./iiwa14" for that.
    function: of a robot, the gradient of forward dynamics unless given. Several with commas between them, or "all", are
    called by name: `accelerator.forward_dynamics(...)`.

    form, frame, mass, prefix, external_forces, outputs, variable, dt, integrator, friction, friction_speed: of the
    algorithm, see `dynagate.dynamics.AlgorithmOptions`.
    steps, linearise, every, stops (function "rollout"): as `dynagate.Rollout` takes them, which `open` then returns;
    without dt, each of its calls says it.
    dtype ("cpu", "cuda"): float64 or float32; by default float64 on "cpu" and float32 on "cuda".
    layout ("cpu", "cuda"): "rows", arrays with the batch first in memory, or "planes", with the batch last.
    pack ("cpu", "cuda", "numpy"): results are vectors of their different entries, without those that are always zero
    (`Accelerator.unpack`).
    threads ("cpu"): how many share a batch.
    number, stream ("cuda"): which card; a cudaStream_t as a number, on which arrays on the GPU are ready and results
    will be.
    policy, region ("fixed", "sim"): the formats, and the states they are for.
    ii, units, goal, formats, axi, budget, stages, folder ("sim"): as `dynagate.build` takes them.
    pauses, seed ("sim"): chances per cycle, 0 to 1, that the source has nothing and that the sink is not ready, and
    what decides when.
    shell ("sim"): simulate the accelerator with its AXI streams and registers, not the bare datapath.
    link ("board"): where the board is that holds the design: "xdma:/dev/xdma0", "pynq:PATH.bit", "xrt:PATH.xclbin" or
    "uart:/dev/ttyUSB0", and options behind it such as ",channel=1,timeout=2"; docs/driver.md lists them. "sim" is the
    design's simulation with its AXI shell.
    overflow: "mask", so that results say which samples overflowed; or "raise", so that a batch with one raises
    OverflowedError.
    step: called with what is about to happen, where it takes a moment.

    Returns an `Accelerator`, or a `Rollout` for the function "rollout".
    Raises ValueError for an unknown device or an option that the device does not take, before any work; TypeError for
    an option with another name; RobotError where there is no such robot, DesignError for a design that is missing or
    damaged, CompileError where there is no compiler.
    """
    for name in options.keys() - Options.__annotations__.keys():
        raise ArgumentTypeError(f"open() got an unexpected keyword argument '{name}'; expected an option of its text")
    asked: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    check_flags(**{name: asked[name] for name in FLAGS if name in asked})
    is_robot = isinstance(what, Robot) or names_robot(what)
    if is_robot and function == ROLLOUT:
        return _rollout(what, device, overflow, step, asked)  # type: ignore[arg-type]
    chosen = _device(is_robot, device, asked)
    check_overflow(overflow)
    if not is_robot:
        if is_program(what):
            return Accelerator(_of_program(what, function, chosen, asked, step), overflow=overflow)
        if _is_ring(what):  # type: ignore[arg-type]
            _check_overflow_of_rollout(overflow)
            return _of_ring(_folder(what), function, chosen, asked, step)  # type: ignore[arg-type, return-value]
        return Accelerator(_of_design(what, function, chosen, asked, step), overflow=overflow)  # type: ignore[arg-type]
    if chosen == BOARD:
        raise ArgumentError(f"device '{BOARD}' holds a design; expected the folder that dynagate.build returned")
    opener = DEVICES[chosen]
    _check_options(f"device '{chosen}'", asked, (*_options(opener), *ALGORITHM))
    algorithm = AlgorithmOptions(**{name: asked.pop(name) for name in ALGORITHM if name in asked})
    robot = what if isinstance(what, Robot) else robots.load(what)  # type: ignore[arg-type]
    return Accelerator(_opened(opener, robot, function or DEFAULT_FUNCTION, algorithm, step, asked), overflow=overflow)


def _device(is_robot: bool, device: str | None, options: dict[str, Any]) -> str:
    """The name of the device. A link "sim" becomes the option `shell` of the simulation. Raises ValueError."""
    if options.get("link") == "sim" and device in (None, "sim"):
        del options["link"]
        device, options["shell"] = "sim", True
    if "link" in options:
        device = device or BOARD
    chosen = device or ("cpu" if is_robot else "sim")
    if chosen not in DEVICES and chosen != BOARD:
        raise ArgumentError(f"device '{chosen}'; expected one of {', '.join((*DEVICES, BOARD))}")
    return chosen


def _rollout(
    robot: Robot | str | PathLike[str],
    device: str | None,
    overflow: str,
    step: Step | None,
    options: dict[str, Any],
) -> Rollout:
    """A robot's rollout. Raises ValueError naming an option that no rollout takes, or that its device does not."""
    chosen = device or "cpu"
    own = DEVICES_OF_ROLLOUTS.get(chosen, ())
    _check_options(f"a rollout on device '{chosen}'", options, (*ROLLOUT_OPTIONS, *own))
    if "steps" not in options:
        raise ArgumentError("a rollout without steps; expected steps=50 or another number of them")
    _check_overflow_of_rollout(overflow)
    if step:
        step(f"compiling a rollout for {chosen}")
    return Rollout(robot, device=chosen, **{"dt": None, **options})  # type: ignore[arg-type]


def _check_overflow_of_rollout(overflow: str) -> None:
    if overflow != MASK:
        raise ArgumentError(f"overflow='{overflow}' of a rollout; expected '{MASK}': `diverged` says which overflowed")


def _opened(
    opener: Callable[..., Device],
    robot: Robot,
    name: str,
    algorithm: AlgorithmOptions,
    step: Step | None,
    options: dict[str, Any],
) -> Device:
    """A function of a robot, or several: together where the device is hardware or its integers, else each alone."""
    row = function_row(name)
    if not row.parts or opener in (_fixed, _sim):
        return opener(robot, row.name, algorithm, step=step, **options)
    devices = {part.name: opener(robot, part.name, algorithm, step=step, **options) for part in row.parts}
    return FunctionsDevice(row.name, devices)


def names_robot(what: Any) -> bool:
    """Whether `open` takes a text or path for a robot, not for a design."""
    if not isinstance(what, str | PathLike):
        return False
    text = os.fspath(what)
    if text.endswith(robots.SUFFIXES):
        return not os.path.isdir(text)
    is_name = isinstance(what, str) and not robots.is_path(text)
    return is_name and (text in robots.names() or not os.path.exists(text))


def _of_design(
    design: Build | str | PathLike[str], function: str | None, device: str, options: dict[str, Any], step: Step | None
) -> Device:
    if device not in DESIGN_DEVICES:
        raise ArgumentError(
            f"device '{device}' computes from a robot; expected a Robot instead of a design, or one of the devices of "
            f"designs: {', '.join(DESIGN_DEVICES)}"
        )
    opener = DESIGN_DEVICES[device]
    _check_options(f"device '{device}' of a design", options, _options(opener))
    opened = opener(design, step=step, **options)
    if isinstance(opened, FunctionsDevice) and function in opened.functions:
        return opened.functions[function]
    if function not in (None, opened.function):
        opened.close()
        raise ArgumentError(f"the design computes {opened.function}, not '{function}'; expected that, or none given")
    return opened


def _of_ring(
    folder: Path, function: str | None, device: str, options: dict[str, Any], step: Step | None
) -> ChipRollout:
    """A rollout design, whose calls take whole trajectories."""
    if device not in RING_DEVICES:
        raise ArgumentError(f"device '{device}'; a rollout design opens on one of {', '.join(RING_DEVICES)}")
    if function not in (None, ROLLOUT):
        raise ArgumentError(f"the design computes {ROLLOUT}, not '{function}'; expected that, or none given")
    opener = RING_DEVICES[device]
    _check_options(f"device '{device}' of a rollout design", options, _options(opener))
    return ChipRollout(opener(folder, step=step, **options))


def _of_program(what: Any, function: str | None, device: str, options: dict[str, Any], step: Step | None) -> Device:
    """A program on a simulated processor, or what it computes."""
    if device not in PROGRAM_DEVICES:
        raise ArgumentError(f"device '{device}'; a program opens on one of {', '.join(PROGRAM_DEVICES)}")
    opener = PROGRAM_DEVICES[device]
    _check_options(f"device '{device}' of a program", options, _options(opener))
    opened: Device = opener(what, step=step, **options)
    if function not in (None, opened.function):
        opened.close()
        raise ArgumentError(f"the program computes {opened.function}, not '{function}'; expected that, or none given")
    return opened


def _options(opener: Callable[..., Any]) -> list[str]:
    """The options that a device takes besides the algorithm's."""
    parameters = inspect.signature(opener).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "step"]


def _check_options(what: str, options: Iterable[str], taken: Iterable[str]) -> None:
    """Raises ValueError naming an option that is not taken."""
    names = list(taken)
    for name in options:
        if name not in names:
            expected = f"expected one of {', '.join(names)}" if names else "it takes none"
            raise ArgumentError(f"{what} takes no option '{name}'; {expected}")


def _numpy(
    robot: Robot, function: str, algorithm: AlgorithmOptions, *, pack: bool = False, step: Step | None = None
) -> Device:
    return NumpyDevice(trace(robot, function, step=step, **algorithm.as_dict()), pack=pack)


def _fixed(
    robot: Robot,
    function: str,
    algorithm: AlgorithmOptions,
    *,
    policy: Policy | None = None,
    region: Region | None = None,
    step: Step | None = None,
) -> Device:
    from dynagate.fixedpoint.assign import assign

    graph = trace(robot, function, step=step, **algorithm.as_dict())
    region = region or Region.of(robot)
    formatted = assign(graph, region, policy)
    return _fixed_device(formatted, {part.name: limits_of(part, region) for part in parts_of(graph.name)})


def _fixed_device(formatted: FormattedGraph, limits: Mapping[str, Any], design: Design | None = None) -> Device:
    """The integers of a graph, or of each of the functions in it. limits: as `of_part` takes them, by function."""
    parts = parts_of(formatted.graph.name)
    if not parts:
        return FixedDevice(formatted, design)
    designs = {} if design is None else {each.name: design.of_function(each) for each in design.functions}
    own = {part.name: FixedDevice(formatted.of_part(part, limits[part.name]), designs.get(part.name)) for part in parts}
    devices = {part.name: PartDevice(part, own[part.name]) for part in parts}
    return FunctionsDevice(formatted.graph.name, devices)


def _cpu(
    robot: Robot,
    function: str,
    algorithm: AlgorithmOptions,
    *,
    dtype: npt.DTypeLike = "float64",
    layout: str = "rows",
    pack: bool = False,
    threads: int = 1,
    step: Step | None = None,
) -> Device:
    graph = trace(robot, function, step=step, **algorithm.as_dict())
    return CpuDevice(graph, dtype=dtype, layout=layout, pack=pack, threads=threads, step=step)


def _cuda(
    robot: Robot,
    function: str,
    algorithm: AlgorithmOptions,
    *,
    dtype: npt.DTypeLike = "float32",
    layout: str = "rows",
    pack: bool = False,
    number: int = 0,
    stream: int = 0,
    step: Step | None = None,
) -> Device:
    graph = trace(robot, function, step=step, **algorithm.as_dict())
    return CudaDevice(graph, dtype=dtype, layout=layout, pack=pack, number=number, stream=stream, step=step)


def _sim(
    robot: Robot,
    function: str,
    algorithm: AlgorithmOptions,
    *,
    ii: int = 8,
    units: int | Core | None = None,
    policy: Policy | None = None,
    goal: Goal | None = None,
    formats: str | PathLike[str] | None = None,
    axi: Axi | None = None,
    budget: Budget | None = None,
    stages: Stages | None = None,
    region: Region | None = None,
    folder: str | PathLike[str] | None = None,
    pauses: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    shell: bool = False,
    step: Step | None = None,
) -> Device:
    if shell and axi is None:
        raise ArgumentError(f"shell=True without axi; {WITH_SHELL}")
    from dynagate.hw.build import DEFAULT_FOLDER, build_request
    from dynagate.hw.request import DesignRequest

    request = DesignRequest(robot, function, ii, policy, goal, formats, axi, budget, stages, region, algorithm)
    if units is not None:
        from dynagate.host.processor import open_sim
        from dynagate.hw.processor.build import build_program

        programmed = build_program(request, units, folder=Path(folder or DEFAULT_FOLDER), step=step)
        return open_sim(programmed, pauses=pauses, seed=seed, step=step)
    built = build_request(request, folder=DEFAULT_FOLDER if folder is None else folder, step=step)
    return _design_sim(built, pauses=pauses, seed=seed, shell=shell, step=step)


def _design_sim(
    design: Build | str | PathLike[str],
    *,
    pauses: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    shell: bool = False,
    step: Step | None = None,
) -> Device:
    """A design in simulation, compiled by Verilator on first use: its bare datapath, or the whole accelerator."""
    from dynagate.sim.verilate import library, shell_library

    folder = _folder(design)
    content, progress = load(folder), step is not None
    if not shell:
        link = SimLink(library(folder / "datapath.v", step=step), content, pauses=pauses, seed=seed)
        return _stream_device(DatapathDriver, content, link, progress=progress)
    if content.axi is None:
        raise ArgumentError(f"shell=True, but {folder} has no AXI shell; {WITH_SHELL}")
    compiled = shell_library(folder / "accelerator.v", folder / "datapath.v", step=step)
    shell_link = SimShellLink(compiled, content, pauses=pauses, seed=seed)
    return _stream_device(ShellDriver, content, shell_link, progress=progress)


def _stream_device(driver: type[DatapathDriver | ShellDriver], design: Design, link: Link, *, progress: bool) -> Device:
    """A design behind a link, or each of its functions."""
    if not design.functions:
        return StreamDevice(driver(design, link, progress=progress))
    drivers = {
        function.name: driver(design, link, function=function, progress=progress) for function in design.functions
    }
    first = next(iter(drivers.values()))
    for each in drivers.values():
        first.group.add(each)
        each.held, each.group = first.held, first.group
    devices = {
        function.name: PartDevice(function, StreamDevice(drivers[function.name]), dict(function.inputs))
        for function in design.functions
    }
    return FunctionsDevice(design.function, devices)


def _design_board(design: Build | str | PathLike[str], *, link: str | None = None, step: Step | None = None) -> Device:
    """A design on a board."""
    if link is None:
        raise ArgumentError(f"device '{BOARD}' without a link; expected link='xdma:/dev/xdma0' or another")
    text = LinkText.of(link)
    content = load(_folder(design))
    if step:
        step(f"opening {link}")
    return _stream_device(ShellDriver, content, text.opened(content), progress=step is not None)


def _design_fixed(design: Build | str | PathLike[str], *, step: Step | None = None) -> Device:
    described = load(design) if isinstance(design, str | PathLike) else design.design
    return _fixed_device(_formatted(design), {each.name: each.limits for each in described.functions}, described)


def _design_numpy(design: Build | str | PathLike[str], *, pack: bool = False, step: Step | None = None) -> Device:
    graph = _formatted(design).graph
    parts = parts_of(graph.name)
    if not parts:
        return NumpyDevice(graph, pack=pack)
    devices = {part.name: PartDevice(part, NumpyDevice(part_graph(graph, part), pack=pack)) for part in parts}
    return FunctionsDevice(graph.name, devices)


def _formatted(design: Build | str | PathLike[str]) -> FormattedGraph:
    return formatted_design(design) if isinstance(design, str | PathLike) else design.formatted


def _is_ring(design: Build | str | PathLike[str]) -> bool:
    """Whether a design is a rollout's. Of a path that holds none the device says so. Raises TypeError: it is none."""
    if not isinstance(design, str | PathLike):
        if not hasattr(design, "design"):
            raise ArgumentTypeError(
                f"open() got {design!r:.60}; expected a Robot, what dynagate.build returned, a name or a path"
            )
        return design.design.ring is not None
    folder = _folder(design)
    return (folder / FILE).is_file() and load(folder).ring is not None


def _folder(design: Build | str | PathLike[str]) -> Path:
    """The folder of a design, of which the path of design.json may be given."""
    if not isinstance(design, str | PathLike):
        return design.folder
    path = Path(design)
    return path.parent if path.name == FILE else path


DEVICES: dict[str, Callable[..., Device]] = {
    "numpy": _numpy,
    "fixed": _fixed,
    "cpu": _cpu,
    "cuda": _cuda,
    "sim": _sim,
}
DESIGN_DEVICES: dict[str, Callable[..., Device]] = {
    "sim": _design_sim,
    "fixed": _design_fixed,
    "numpy": _design_numpy,
    BOARD: _design_board,
}
