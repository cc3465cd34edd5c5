"""Designs that are open on a board, in simulation or as the integers that the hardware computes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from dynagate.base.explained import explained
from dynagate.host.function import Function
from dynagate.host.opened import Opened


@explained
class Device(Opened):
    """A design that `dynagate.open` has opened. Call it as a `Function`; use it as a context.

    Example:
        >>> design = dynagate.build("two_joint_arm", "forward_dynamics", folder=folder)
        >>> with dynagate.open(design, device="fixed") as device:
        ...     device(q=np.zeros(2), qd=np.zeros(2), tau=np.zeros(2)).qdd.shape
        (2,)
    """

    @abstractmethod
    def load(self, design: Any) -> None:
        """Load another program into a processor.

        Args:
            design: Program for the same core: what `dynagate.build(robot, function, units=4)` returned, or its folder.

        Raises:
            ArgumentError: The device is no processor, or the program keeps the states of rollouts.
            DesignError: The program is damaged, or for another core. The program before stays.
            DeviceError: The link failed. The core then has no program.
        """


@explained
class FunctionDevice(Function, Device):
    """A design that computes one function, or one of several for each sample."""

    _made_by = "dynagate.build"

    def load(self, design: Any) -> None:
        """Load another program, of any robot and function, when no batch is under way.

        Calls then take and return the arrays of the new function. Bound calls and function objects of the previous
        program raise an error when they are called afterwards.

        Args:
            design: As of `Device.load`.

        Raises:
            ArgumentError, DesignError, DeviceError: As `Device.load` raises them.
        """
        with self._lock:
            if self._closed:
                self._check(None)
            self._computes(self.device.load(design))

    def __repr__(self) -> str:
        return f"<Device {self.device.robot} {self.device.function}, {self.device.text}>"
