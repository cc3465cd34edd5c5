"""The host's side: design file, links to devices, and the user's `Accelerator`."""

from dynagate.host.accelerator import Accelerator, Results, open
from dynagate.host.design_file import DesignError, DesignFile, read_design
from dynagate.host.links import DeviceError, Link, RegisterError, Transfer
from dynagate.host.sim_links import SimLink, SimShellLink

__all__ = [
    "Accelerator",
    "DesignError",
    "DesignFile",
    "DeviceError",
    "Link",
    "RegisterError",
    "Results",
    "SimLink",
    "SimShellLink",
    "Transfer",
    "open",
    "read_design",
]
