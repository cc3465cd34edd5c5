"""Options of a device, and the openers that take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from dynagate.base.arguments import check_flags, check_kind, check_number_type, equal, store_plain_numbers
from dynagate.graph.region import Region

Kind = str
"""A kind of source: one of those below, or the body of a design (`design.bodies.BODIES`)."""
FUNCTION: Kind = "function"
"""One or several functions of a robot (`sources.FunctionSource`), opened as an `Executor`."""
LOOP: Kind = "loop"
"""A loop of graphs, of a rollout or of a solver (`sources.LoopSource`), opened as a `Compute`."""
MOTION: Kind = "motion"
"""A robot's rollout whose states stay in the device (`sources.MotionSource`), opened as an `Executor` with `carry`."""
DESIGN: Kind = "design"
"""The design of a pipeline (`sources.DesignSource`), opened as an `Executor`."""
ROLLOUT_DESIGN: Kind = "rollout design"
"""The design of a pipeline that keeps the states of trajectories, opened as an `Executor` with `carry`."""
PROGRAM: Kind = "program"
"""The design of a program for the processor, opened as an `Executor`."""


@dataclass(frozen=True)
class DeviceOptions:
    """Options of a device for one kind of source. Each device has a subclass for each kind, with a field for each
    option.

    Options are checked as they are stored.
    """

    name: ClassVar[str]
    """Name of the device."""

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        flags = {each.name: getattr(self, each.name) for each in fields(self) if isinstance(each.default, bool)}
        check_flags(**flags)
        check_kind("region", getattr(self, "region", None), Region)
        if getattr(self, "dtype", None) is not None:
            check_number_type(self.dtype)  # type: ignore[attr-defined]

    def changed(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name."""
        values = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        return {name: value for name, (value, default) in values.items() if not equal(value, default)}


@dataclass(frozen=True)
class Opener:
    """How a device opens one kind of source."""

    options: type[DeviceOptions]
    """Class of the options. Its fields are the options that the device takes for this kind of source."""
    open: Callable[..., Any]
    """Function of the source, the options and `progress` that returns the device."""
    scans: bool = False
    """Whether functions may be loops over links."""
