"""Drivers of chips that keep the states of trajectories: steps in, and the results of those that come out."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.design.ring import FLAGS_PORT, TAG_PORT, ring_design, shell_design
from dynagate.fixedpoint.models.feedback import START, STOP
from dynagate.host.drivers import DatapathDriver, DatapathSession, Driver, ShellDriver, ShellSession
from dynagate.host.inputs import Arrays
from dynagate.host.links import DeviceError, DeviceLink, closed_on_failure
from dynagate.host.words import StreamWords

Ints = npt.NDArray[np.int64]


class RingDriver(Driver):
    """A driver that also runs the steps of trajectories in a ring."""

    @abstractmethod
    def run_steps(
        self, arrays: Arrays, commands: Ints, shown: Ints, every: int
    ) -> tuple[dict[str, Array], npt.NDArray[np.bool_]]:
        """Stream steps of trajectories through the device.

        Args:
            arrays: Inputs (steps, *shape) by name, in the order in which the steps enter.
            commands: START and STOP of each step.
            shown: Indices of the steps whose results leave the device.
            every: Value for the register of this name.

        Returns:
            The results by name, and which of them overflowed.

        Raises:
            EntryError, DeviceError: As `Driver.run` raises them.
        """


class DatapathRingDriver(RingDriver, DatapathDriver):
    """Driver of a ring without a shell: payloads hold integers. All results leave the device, and the host drops the
    rest.
    """

    @classmethod
    def opened(
        cls, design: DesignRecord[DatapathBody], link: DeviceLink, *, shows_progress: bool = False
    ) -> DatapathRingDriver:
        """Open a session with the ring of a design.

        Args:
            design: Record of the design.
            link: Link to the device, which the session closes.
            shows_progress: Show on a terminal how far a long batch is.

        Returns:
            The driver.
        """
        session = DatapathSession(ring_design(design), link, shows_progress=shows_progress)
        return cls(session, numbers=design.numbers)

    def run_steps(
        self, arrays: Arrays, commands: Ints, shown: Ints, every: int
    ) -> tuple[dict[str, Array], npt.NDArray[np.bool_]]:
        # start is the lower one of the flags
        own = {**arrays, FLAGS_PORT: commands, TAG_PORT: np.arange(len(commands))}
        outputs, flagged = self.run(own, len(commands))
        return {name: x[shown] for name, x in outputs.items()}, flagged[shown]


class ShellRingDriver(RingDriver, ShellDriver):
    """A ring in its AXI shell."""

    def __init__(self, session: ShellSession) -> None:
        super().__init__(session)
        self.words = StreamWords(self.design, self.axi, session.tags, native=False)

    @classmethod
    def opened(
        cls, design: DesignRecord[DatapathBody], link: DeviceLink, *, shows_progress: bool = False
    ) -> ShellRingDriver:
        """Open a session with the ring of a design in its AXI shell.

        Args:
            design: Record of the design.
            link: Link to the device, which the session closes.
            shows_progress: Show on a terminal how far a long batch is.

        Returns:
            The driver.
        """
        with closed_on_failure(link):
            return cls(ShellSession(shell_design(design), link, shows_progress=shows_progress))

    def run_steps(
        self, arrays: Arrays, commands: Ints, shown: Ints, every: int
    ) -> tuple[dict[str, Array], npt.NDArray[np.bool_]]:
        count = len(commands)
        samples = np.zeros((count, *self.sample), np.uint32)
        self.words.fill({**arrays, "command": (START | STOP) - commands}, samples)
        self.session.queue.wait()
        self.registers.write("steps", 0)
        self.registers.write("every", every)
        self.session.clear()
        results = self.stream(samples, shown)
        counted = self.session.counters = self.session.read_counters()
        if (counted.samples_in, counted.samples_out, counted.misaligned) != (count, len(shown), 0):
            raise DeviceError(
                f"{self.link.text} counted {counted} for {count} steps, of which {len(shown)} come out",
                code="DG-LINK-042",
            )
        if counted.first_bad_input is not None:
            self._refuse(samples, np.array([counted.first_bad_input]))
            raise DeviceError(
                f"{self.link.text} reports that an input of step {counted.first_bad_input} does not fit; all inputs do",
                code="DG-LINK-043",
            )
        outputs, empty = self.words.untagged(self.link.text, results)
        return outputs, empty
