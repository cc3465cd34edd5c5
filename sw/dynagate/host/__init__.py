"""The host's side: designs, links to devices, and the user's `Accelerator`."""

from dynagate.design.design import Design
from dynagate.design.files import DesignError
from dynagate.host.accelerator import Accelerator, BoundCall
from dynagate.host.chip_rollout import ChipRollout
from dynagate.host.links import DeviceError, Link, OverflowedError, RegisterError, Transfer
from dynagate.host.opened import Opened
from dynagate.host.opening import open
from dynagate.host.pending import Pending, Stream
from dynagate.host.results import Results
from dynagate.host.sim_links import SimLink, SimShellLink

__all__ = [
    "Accelerator",
    "BoundCall",
    "ChipRollout",
    "Design",
    "DesignError",
    "DeviceError",
    "Link",
    "Opened",
    "OverflowedError",
    "Pending",
    "RegisterError",
    "Results",
    "SimLink",
    "SimShellLink",
    "Stream",
    "Transfer",
    "open",
]
