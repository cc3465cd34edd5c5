"""From a design to what computes it: `dynagate.open`."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Literal

from dynagate.base.changed_options import changed_in_call
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.base.progress import Progress, showing
from dynagate.design.rebuilt import region_of, robot_of
from dynagate.dynamics.steps.step import DEFAULT_STEP
from dynagate.host.device import Device, FunctionDevice
from dynagate.host.devices.board import BoardExecutor
from dynagate.host.devices.sim import Sim
from dynagate.host.devices.sources import DesignSource
from dynagate.host.function import MASK, check_overflow
from dynagate.host.openers import OPENERS, chosen_device, devices_of
from dynagate.host.region_exit import RegionExit
from dynagate.host.rollout_device import RolloutDevice
from dynagate.host.source import is_robot
from dynagate.integrators.limits import LimitWatch

if TYPE_CHECKING:
    from dynagate.hw.designs import Design
    from dynagate.hw.rtl.axi import Axi


OF_DEVICE = ("pauses", "seed", "axi", "cores", "pack")
"""Options of `open` that are options of a device, as they are."""


@explained
def open(
    design: Design | str | PathLike[str],
    *,
    link: str | None = None,
    device: Literal["sim", "board", "fixed", "numpy"] | None = None,
    shell: bool | None = None,
    pauses: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    axi: Axi | int | None = None,
    cores: int = 1,
    pack: bool = False,
    overflow: Literal["mask", "raise"] = "mask",
    progress: Progress | None = None,
) -> Device:
    """Open a design on a board, in simulation, or as the numbers that it computes.

    Args:
        design: What `dynagate.build` returned, or the path of its folder.
        link: Where the design runs: "sim", its simulation with the AXI shell if it has one; "pcie", a simulated card;
            or a board: "xdma:/dev/xdma0", "pynq:PATH.bit", "xrt:PATH.xclbin" or "uart:/dev/ttyUSB0". Options follow,
            such as ",channel=1,timeout=2" (docs/driver.md).
        device: "sim", the simulated datapath; "board"; "fixed", the integers of the design in numpy; or "numpy", the
            function in float64. Unless given, "board" if there is a link to one, else "sim".
        shell: Simulate the AXI streams and registers around the datapath.
        pauses: Chances in each cycle, 0 to 1, that the source has no sample and that the sink is not ready ("sim").
        seed: Seed of the pauses ("sim").
        axi: AXI streams of the simulated processor, or their width in bits (a program on "sim").
        cores: Cores of the simulated processor (a program on "sim").
        pack: Return vectors of the different entries, without those that are always zero ("numpy").
        overflow: "mask", so that results have the flags `overflow`; or "raise", so that a batch with a sample that
            overflowed raises OverflowedError.
        progress: Function that receives a line of text before each slow stage. Unless given, a terminal or a
            notebook shows them.

    Returns:
        The device, which is called as a `Function`. A design of "rollout" is called with start states and torques.

    Raises:
        ArgumentError: There is no such device, or an option does not fit it or the design.
        ArgumentTypeError: It is no design, or an option has another name or type.
        DesignError: The design is missing or damaged, or the board holds another one.
        DeviceError: The link fails.

    Example:
        >>> design = dynagate.build("two_joint_arm", "forward_dynamics", folder=folder)
        >>> with dynagate.open(design, device="fixed") as device:
        ...     device(q=np.zeros(2), qd=np.zeros(2), tau=np.zeros(2)).qdd.shape
        (2,)
    """
    call = locals()
    _check_design(design)
    check_overflow(overflow)
    options = changed_in_call(open, call, OF_DEVICE)
    with showing(progress) as shown:
        source = DesignSource(design)
        name = _name(device, link, devices_of(source.kind))
        if shell is None and link == Sim.name:
            shell = source.has_shell
        if shell is not None:
            options["shell"] = shell
        if link is not None and name == BoardExecutor.name:
            options["link"] = link
        chosen, record = chosen_device(source.kind, name, options), source.record
        if not record.keeps_states:
            return FunctionDevice(chosen.open(source, shown), overflow=overflow)
        if overflow != MASK:
            raise ArgumentError(
                f"overflow='{overflow}' of a rollout; expected '{MASK}': `diverged` says which overflowed",
                code="DG-DEVICE-062",
            )
        watch = LimitWatch(robot_of(record), record.options.get("forces", ()))
        executor = chosen.open(source, shown)
        dt = record.options.get("dt", DEFAULT_STEP)
        return RolloutDevice(executor, watch, RegionExit(region_of(record), executor.step_graph, dt))


def _check_design(design: object) -> None:
    """Raise an error if a robot is passed where a design is expected."""
    if is_robot(design):
        named = f"{design!r}" if isinstance(design, str | PathLike) else "robot"
        raise ArgumentTypeError(
            f"{design!r:.60} is a robot, and open() takes designs; write dynagate.compile({named}, 'forward_dynamics')",
            code="DG-DEVICE-063",
        )


def _name(device: str | None, link: str | None, known: list[str]) -> str:
    """Return the name of the device. Raise ArgumentError if there is no such device, or a link does not go with it."""
    if link is not None and not isinstance(link, str):
        raise ArgumentTypeError(
            f"link={link!r:.60}; expected a text such as 'sim' or 'uart:/dev/ttyUSB0'", code="DG-DEVICE-064"
        )
    name = device or (Sim.name if link in (None, Sim.name) else BoardExecutor.name)
    if name not in known:
        if any(name == each for _, each in OPENERS):
            raise ArgumentError(
                f"device '{name}' does not run this design; expected one of {', '.join(known)}, or "
                f"dynagate.compile(robot, function) for code on a processor",
                code="DG-DEVICE-065",
            )
        raise ArgumentError(
            f"device {name!r:.60}{nearest(name, known)}; expected one of {', '.join(known)}", code="DG-DEVICE-066"
        )
    of_link = Sim.name if link == Sim.name else BoardExecutor.name
    if link is not None and name != of_link:
        raise ArgumentError(
            f"device '{name}' with link='{link}'; expected device='{of_link}', or no device", code="DG-DEVICE-067"
        )
    return name
