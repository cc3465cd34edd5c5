"""The host's side: design file, links to devices, and the user's `Accelerator`."""

from dynagate.host.accelerator import Accelerator, BoundCall
from dynagate.host.design_file import DesignError, DesignFile, read_design
from dynagate.host.links import DeviceError, SimLink, Transfer
from dynagate.host.opening import open
from dynagate.host.results import Results

__all__ = [
    "Accelerator",
    "BoundCall",
    "DesignError",
    "DesignFile",
    "DeviceError",
    "Results",
    "SimLink",
    "Transfer",
    "open",
    "read_design",
]
