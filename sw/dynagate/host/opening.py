"""From a robot or a design to what computes on a device: which device, which options it takes, and what it opens."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from dynagate.base.arguments import check_kind
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.nearest import check_keyword, nearest
from dynagate.base.progress import Progress, showing
from dynagate.design import program
from dynagate.design.design import Design
from dynagate.design.program import ProgramDesign
from dynagate.design.rebuilt import robot_of as design_robot
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics import function as function_row
from dynagate.dynamics.options import DEFAULT_FUNCTION, OF_ROLLOUTS, AlgorithmOptions
from dynagate.host.accelerator import MASK, Accelerator, check_overflow
from dynagate.host.chip_rollout import ChipRollout
from dynagate.host.devices import DEVICES, Board, Cpu, DeviceOptions, FunctionsDevice, Sim, TurnDevice
from dynagate.host.devices.face import Device
from dynagate.host.devices.options import DESIGN, FUNCTION, ROLLOUT_DESIGN, DesignSource
from dynagate.host.devices.registry import LABELS, check_options, chosen_device, opening
from dynagate.host.ilqr import ILQR, Ilqr
from dynagate.host.mppi import MPPI, Mppi
from dynagate.host.opened import Opened
from dynagate.host.processor import PROGRAM_DEVICES, folder_of, is_program
from dynagate.host.rollout_options import NAMES
from dynagate.host.rollouts import Rollout
from dynagate.integrators.limits import LimitWatch
from dynagate.robot import Robot, robots
from dynagate.robot.checked import robot_of

if TYPE_CHECKING:
    from dynagate.hw.build import Build
    from dynagate.hw.processor.build import ProcessorBuild

ALGORITHM = [name for name in AlgorithmOptions.__dataclass_fields__ if name not in OF_ROLLOUTS]
"""Options of a function's algorithm."""
OF_ROLLOUT = NAMES
"""Options of a robot's rollout on every device."""
OWN = ("device", "algorithm", "overflow", "progress")
"""Keywords of `open` itself."""
SOLVERS: dict[str, type[Opened]] = {ILQR: Ilqr, MPPI: Mppi}
"""Controllers by the name of their function."""


def _keywords(solver: type[Opened]) -> list[str]:
    """The options of a controller by name, besides those of its device."""
    parameters = inspect.signature(solver).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name != "device"]


@overload
def open(
    what: Robot | str | PathLike[str],
    function: Literal["rollout"],
    *,
    device: str | DeviceOptions | None = None,
    algorithm: AlgorithmOptions | None = None,
    overflow: str = MASK,
    progress: Progress | None = None,
    **options: Any,
) -> Rollout: ...
@overload
def open(
    what: Robot | Build | ProcessorBuild | str | PathLike[str],
    function: str | Sequence[str] | None = None,
    *,
    device: str | DeviceOptions | None = None,
    algorithm: AlgorithmOptions | None = None,
    overflow: str = MASK,
    progress: Progress | None = None,
    **options: Any,
) -> Opened: ...
@explained
def open(
    what: Robot | Build | ProcessorBuild | str | PathLike[str],
    function: str | Sequence[str] | None = None,
    *,
    device: str | DeviceOptions | None = None,
    algorithm: AlgorithmOptions | None = None,
    overflow: str = MASK,
    progress: Progress | None = None,
    **options: Any,
) -> Opened:
    """A function of a robot on a device: "cpu" (the default), "numpy", "fixed", "cuda" or "sim"; or of a design on a
    board.

    what: a robot, the path of its URDF file, or the name of one that ships; or what `dynagate.build` returned, or the
    path of its folder. A design knows its function and opens as "sim" (its default), "fixed", "numpy" or, with a
    link, "board". A name that ships is the robot, also where a folder is called the same: write "./iiwa14" for that.
    function: of a robot, the gradient of forward dynamics unless given. Several with commas between them, or "all", are
    called by name: `accelerator.forward_dynamics(...)`. Several in a list are computed at one state, in one call.

    device: its name, or an object of its options: `Cpu`, `Cuda`, `Numpy`, `Fixed`, `Sim` or `Board` of
    `dynagate.host.devices`. algorithm: the options of the function's algorithm in one object.
    options: by name instead: of the device, as the fields of those classes, such as `dtype="float32"` or `threads=2`;
    of the algorithm, as the fields of `dynagate.AlgorithmOptions`; and for the function "rollout" as `dynagate.Rollout`
    takes them, which `open` then returns; without dt, each of its calls says it; for "ilqr" and "mppi" those
    of `dynagate.host.ilqr.Ilqr` and `dynagate.host.mppi.Mppi`. None is an option's default.
    link="sim" is a design's simulation with its AXI shell.
    overflow: "mask", so that results say which samples overflowed; or "raise", so that a batch with one raises
    OverflowedError.
    progress: called with what is about to happen, where it takes a moment; unless given, a terminal shows it.

    Returns an `Accelerator`, a `Rollout` for the function "rollout", or a `ChipRollout` for the design of one.
    Raises ValueError for an unknown device or an option that the device does not take, before any work; TypeError for
    an option with another name; RobotError where there is no such robot, DesignError for a design that is missing or
    damaged, CompileError where there is no compiler.
    """
    _check_names(what, function, device, options)
    check_kind("algorithm", algorithm, AlgorithmOptions)
    if not isinstance(function, str | None):
        function = function_row(function).name
    with showing(progress) as progress:
        return _opened_as_asked(what, function, device, algorithm, overflow, progress, options)


def _opened_as_asked(
    what: Robot | Build | ProcessorBuild | str | PathLike[str],
    function: str | None,
    device: str | DeviceOptions | None,
    algorithm: AlgorithmOptions | None,
    overflow: str,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> Opened:
    asked = {name: value for name, value in options.items() if value is not None}
    robot = _robot(what)
    if robot is not None and function == ROLLOUT:
        return _rollout(robot, device, overflow, progress, asked)
    if function in SOLVERS:
        return _solver(robot, function, device, overflow, asked)
    chosen = _device(robot is not None, device, asked)
    check_overflow(overflow)
    if robot is None and is_program(what):
        computes = _of_program(what, function, chosen, asked, progress)
        if isinstance(computes, TurnDevice):
            _check_overflow_of_rollout(overflow)
            assert not isinstance(what, Robot)
            return ChipRollout(computes, _watch_of(program.load(folder_of(what))))  # type: ignore[arg-type]
        return Accelerator(computes, overflow=overflow)
    if robot is None:
        return _of_design(DesignSource(_design(what)), function, chosen, overflow, progress, asked)
    options_of_algorithm = {name: asked.pop(name) for name in ALGORITHM if name in asked}
    opened = _of_robot(chosen, asked, options_of_algorithm)
    if algorithm is None:
        algorithm = AlgorithmOptions(**options_of_algorithm)
    elif options_of_algorithm:
        raise ArgumentError(f"{', '.join(options_of_algorithm)} beside algorithm; expected all of its options in it")
    opened.check_form(algorithm.form, [name for name, each in DEVICES.items() if each.scans])
    return Accelerator(
        opened.of_robot(robot_of(robot), function or DEFAULT_FUNCTION, algorithm, progress), overflow=overflow
    )


def _check_names(what: object, function: object, device: object, options: Mapping[str, Any]) -> None:
    """Raises TypeError: an option has a name that is none of any device, algorithm, rollout or controller. The text has
    those of this function on this device."""
    of_devices = [each.name for one in DEVICES.values() for each in fields(one)]
    of_solvers = [name for each in SOLVERS.values() for name in _keywords(each)]
    known = {*OWN, *of_devices, *AlgorithmOptions.__dataclass_fields__, *OF_ROLLOUT, *of_solvers}
    for name in options:
        if name not in known:
            here, taken = _taken_here(what, function, device)
            check_keyword("open", name, dict.fromkeys((*taken, *OWN)), here)


def _taken_here(what: object, function: object, device: object) -> tuple[str, list[str]]:
    """What is opened, for an error's text, and its options. A device that is none has no options of its own."""
    is_robot = _robot(what) is not None
    name = _name(device or (Cpu.name if is_robot else Sim.name))  # type: ignore[arg-type]
    if is_robot and (function == ROLLOUT or function in list(SOLVERS)):
        return _taken_in_time(str(function), name)
    kind = FUNCTION if is_robot else DESIGN
    of_device = DEVICES[name].taken(kind) if name in opening(kind) else []
    return LABELS[kind].format(name), [*of_device, *(ALGORITHM if is_robot else [])]


def _taken_in_time(function: str, device: str) -> tuple[str, list[str]]:
    """What a rollout or a controller on a device is called in errors, and its options."""
    of_device = DEVICES[device].taken(ROLLOUT) if device in opening(ROLLOUT) else []
    if function == ROLLOUT:
        return f"a rollout on device '{device}'", [*OF_ROLLOUT, *of_device]
    return f"{function} on device '{device}'", [*_keywords(SOLVERS[function]), *of_device]


def _robot(what: object) -> Robot | str | PathLike[str] | None:
    """What `open` takes for a robot, not for a design."""
    if isinstance(what, Robot):
        return what
    return what if isinstance(what, str | PathLike) and names_robot(what) else None


def _watch_of(design: Design | ProgramDesign) -> LimitWatch:
    """Of a rollout design."""
    options = design.options
    return LimitWatch(design_robot(design), options.get("stops", False), options.get("forces", ()))


def _design(what: Robot | Build | ProcessorBuild | str | PathLike[str]) -> Build | str | PathLike[str]:
    assert not isinstance(what, Robot)
    assert not is_program(what)
    return what  # type: ignore[return-value]


def _device(is_robot: bool, device: str | DeviceOptions | None, options: dict[str, Any]) -> str | DeviceOptions:
    """The device. A link "sim" becomes the option `shell` of the simulation. Raises ValueError."""
    if isinstance(device, DeviceOptions):
        return device
    link = options.get("link")
    if isinstance(link, str) and link == Sim.name and device in (None, Sim.name):
        del options["link"]
        device, options["shell"] = Sim.name, True
    if "link" in options:
        device = device or Board.name
    chosen = device or (Cpu.name if is_robot else Sim.name)
    if chosen not in DEVICES:
        raise ArgumentError(f"device '{chosen}'{nearest(chosen, DEVICES)}; expected one of {', '.join(DEVICES)}")
    return chosen


def _of_robot(device: str | DeviceOptions, options: Mapping[str, Any], algorithm: Mapping[str, Any]) -> DeviceOptions:
    """The device of a robot's function. algorithm: what is asked of it. Raises ValueError."""
    name = _name(device)
    if name not in opening(FUNCTION):
        raise ArgumentError(f"device '{name}' holds a design; expected the folder that dynagate.build returned")
    if isinstance(device, str):
        check_options(LABELS[FUNCTION].format(name), options, (*DEVICES[name].taken(FUNCTION), *ALGORITHM))
    return chosen_device(device, FUNCTION, options)


def _name(device: str | DeviceOptions) -> str:
    return device.name if isinstance(device, DeviceOptions) else device


def _rollout(
    robot: Robot | str | PathLike[str],
    device: str | DeviceOptions | None,
    overflow: str,
    progress: Progress | None,
    options: dict[str, Any],
) -> Rollout:
    """A robot's rollout. Raises ValueError naming an option that no rollout takes, or that its device does not."""
    chosen = device or Cpu.name
    name = _name(chosen)
    label, taken = _taken_in_time(ROLLOUT, name)
    check_options(label, options, taken)
    if "steps" not in options:
        raise ArgumentError("a rollout without steps; expected steps=50 or another number of them")
    _check_overflow_of_rollout(overflow)
    if progress:
        progress(f"compiling a rollout for {name}")
    return Rollout(robot, device=chosen, **{"dt": None, **options})


def _solver(
    robot: Robot | str | PathLike[str] | None,
    function: str,
    device: str | DeviceOptions | None,
    overflow: str,
    options: dict[str, Any],
) -> Opened:
    """A controller of a robot. Raises ValueError naming an option that it does not take or lacks."""
    if robot is None:
        raise ArgumentError(f"a design does not compute {function}; expected a robot, or the path of its URDF file")
    _check_overflow_of_rollout(overflow)
    chosen = device or Cpu.name
    solver = SOLVERS[function]
    label, taken = _taken_in_time(function, _name(chosen))
    keywords = _keywords(solver)
    check_options(label, options, taken)
    parameters = inspect.signature(solver).parameters
    for each in keywords:
        if parameters[each].default is inspect.Parameter.empty and each not in options:
            raise ArgumentError(f"{function} without {each}; expected {each}=")
    return solver(robot, device=chosen, **options)  # type: ignore[call-arg]


def _check_overflow_of_rollout(overflow: str) -> None:
    if overflow != MASK:
        raise ArgumentError(f"overflow='{overflow}' of a rollout; expected '{MASK}': `diverged` says which overflowed")


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
    source: DesignSource,
    function: str | None,
    device: str | DeviceOptions,
    overflow: str,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> Opened:
    """A design's function, or several, or its rollout."""
    name = _name(device)
    kind = ROLLOUT_DESIGN if source.is_rollout else DESIGN
    if kind == ROLLOUT_DESIGN:
        _check_overflow_of_rollout(overflow)
    if name not in opening(kind):
        listed = ", ".join(opening(kind))
        if kind == ROLLOUT_DESIGN:
            raise ArgumentError(f"device '{name}'; a rollout design opens on one of {listed}")
        raise ArgumentError(
            f"device '{name}' computes from a robot; expected a Robot instead of a design, or one of the devices of "
            f"designs: {listed}"
        )
    chosen = chosen_device(device, kind, options)
    if kind == ROLLOUT_DESIGN and function not in (None, ROLLOUT):
        raise ArgumentError(f"the design computes {ROLLOUT}, not '{function}'; expected that, or none given")
    opened = chosen.of_design(source, progress)
    if isinstance(opened, TurnDevice):
        return ChipRollout(opened, _watch_of(source.design))
    if isinstance(opened, FunctionsDevice) and function in opened.functions:
        opened = opened.functions[function]
    if function not in (None, opened.function):
        opened.close()
        raise ArgumentError(f"the design computes {opened.function}, not '{function}'; expected that, or none given")
    return Accelerator(opened, overflow=overflow)


def _of_program(
    what: Any, function: str | None, device: str | DeviceOptions, options: Mapping[str, Any], progress: Progress | None
) -> Device:
    """A program on a simulated processor, or what it computes."""
    name = _name(device)
    if name not in PROGRAM_DEVICES:
        raise ArgumentError(f"device '{name}'; a program opens on one of {', '.join(PROGRAM_DEVICES)}")
    own = {**options} if isinstance(device, str) else {each: getattr(device, each) for each in device.changed()}
    opener = PROGRAM_DEVICES[name]
    taken = [p.name for p in inspect.signature(opener).parameters.values() if p.kind is p.KEYWORD_ONLY]
    check_options(f"device '{name}' of a program", own, [each for each in taken if each != "progress"])
    opened: Device = opener(what, progress=progress, **own)
    if isinstance(opened, FunctionsDevice) and function in opened.functions:
        opened = opened.functions[function]
    if function not in (None, opened.function):
        opened.close()
        raise ArgumentError(f"the program computes {opened.function}, not '{function}'; expected that, or none given")
    return opened
