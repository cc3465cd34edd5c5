"""The host's side: designs, links to devices, and the user's `Function`."""

from dynagate.design.design import DesignRecord
from dynagate.design.files import DesignError
from dynagate.host.bound import BoundCall
from dynagate.host.compiling import compile
from dynagate.host.device import Device, FunctionDevice
from dynagate.host.function import Function
from dynagate.host.links import BatchTiming, DeviceError, DeviceLink, OverflowedError, OverflowWarning, RegisterError
from dynagate.host.opened import Opened
from dynagate.host.opening import open
from dynagate.host.pending import BatchStream, Pending
from dynagate.host.results import Results
from dynagate.host.rollout_device import RolloutDevice
from dynagate.host.sim_links import SimLink, SimShellLink

__all__ = [
    "BatchStream",
    "BatchTiming",
    "BoundCall",
    "DesignError",
    "DesignRecord",
    "Device",
    "DeviceError",
    "DeviceLink",
    "Function",
    "FunctionDevice",
    "Opened",
    "OverflowWarning",
    "OverflowedError",
    "Pending",
    "RegisterError",
    "Results",
    "RolloutDevice",
    "SimLink",
    "SimShellLink",
    "compile",
    "open",
]
