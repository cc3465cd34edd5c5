"""The host's side: designs, links to devices, and the user's `Accelerator`."""

from dynagate.design.design import Design
from dynagate.design.files import DesignError
from dynagate.host.accelerator import Accelerator, Results, open
from dynagate.host.links import DeviceError, Link, RegisterError, Transfer
from dynagate.host.sim_links import SimLink, SimShellLink

__all__ = [
    "Accelerator",
    "Design",
    "DesignError",
    "DeviceError",
    "Link",
    "RegisterError",
    "Results",
    "SimLink",
    "SimShellLink",
    "Transfer",
    "open",
]
