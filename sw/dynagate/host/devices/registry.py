"""The one list of devices, and from a name or an object to the device with its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import ROLLOUT
from dynagate.host.devices.board import Board
from dynagate.host.devices.cpu import Cpu
from dynagate.host.devices.cuda import Cuda
from dynagate.host.devices.fixed import Fixed
from dynagate.host.devices.numpy import Numpy
from dynagate.host.devices.options import DESIGN, FUNCTION, ROLLOUT_DESIGN, DeviceOptions
from dynagate.host.devices.sim import Sim

DEVICES: dict[str, type[DeviceOptions]] = {each.name: each for each in (Numpy, Fixed, Cpu, Cuda, Sim, Board)}
"""Devices by name."""

LABELS = {
    FUNCTION: "device '{}'",
    DESIGN: "device '{}' of a design",
    ROLLOUT_DESIGN: "device '{}' of a rollout design",
    ROLLOUT: "device '{}' of a rollout",
}
"""How errors call a device that opens one of these."""


def opening(what: str) -> list[str]:
    """Names of the devices that open it."""
    return [name for name, each in DEVICES.items() if what in each.opens]


def check_options(label: str, names: Iterable[str], taken: Iterable[str]) -> None:
    """Raises ValueError naming an option that is not taken. label: what takes the others."""
    known = list(taken)
    for name in names:
        if name not in known:
            expected = f"expected one of {', '.join(known)}" if known else "it takes none"
            raise ArgumentError(f"{label} takes no option '{name}'; {expected}")


def chosen_device(device: str | DeviceOptions, what: str, options: Mapping[str, Any]) -> DeviceOptions:
    """The device that opens this. options: by name, of a device that is given by its name.

    Raises ValueError: there is no such device, it opens something else, or an option that it does not take for this.
    """
    name = device.name if isinstance(device, DeviceOptions) else device
    if name not in opening(what):
        raise ArgumentError(f"device '{name}'; expected one of {', '.join(opening(what))}")
    label, taken = LABELS[what].format(name), DEVICES[name].taken(what)
    if not isinstance(device, DeviceOptions):
        check_options(label, options, taken)
        return DEVICES[name](**options)
    check_options(label, device.changed(), taken)
    if options:
        raise ArgumentError(f"{', '.join(options)} beside {device!r:.60}; expected all of its options in its object")
    return device
