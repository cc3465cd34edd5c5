"""The request for a design: a robot, a function and all options."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.arguments import check_flags, store_plain_numbers
from dynagate.base.errors import ArgumentError, OptionError
from dynagate.base.explained import check_fields, explained
from dynagate.design.verilog_list import STYLES
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import PROVED
from dynagate.forces.options import DEFAULTS, AlgorithmOptions
from dynagate.graph.certificate import check_certificate
from dynagate.hw.options import DesignOptions
from dynagate.hw.plan.schedule import check_interval
from dynagate.integrators.methods import with_own_tolerance
from dynagate.robot import Robot
from dynagate.robot.checked import robot_of


@dataclass(frozen=True)
class _Computed:
    """First fields of a request."""

    robot: Robot
    """Robot, its name or its path."""
    function: str
    """Name of the function; several are separated by commas."""


@explained
@dataclass(frozen=True)
class DesignRequest(DesignOptions, _Computed):
    """Everything that `dynagate.build` needs except the folder of the design.

    Raises:
        ArgumentError: An option does not fit the function, or two options contradict each other.
    """

    algorithm: AlgorithmOptions = DEFAULTS
    """Options of the algorithm."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "robot", robot_of(self.robot))
        object.__setattr__(self, "algorithm", with_own_tolerance(self.algorithm))
        store_plain_numbers(self)
        check_interval(self.ii)
        check_flags(certificate=self.certificate)
        check_fields(self)
        if self.style not in STYLES:
            raise OptionError("style", f"{self.style!r:.40}; expected {' or '.join(STYLES)}", code="DG-HW-035")
        if self.certificate:
            check_certificate(self.function, self.algorithm, self.robot)
        if self.goal is not None and self.formats is not None:
            raise ArgumentError("a goal and a file of formats; expected one of them", code="DG-HW-021")
        if self.goal is not None and self.policy is not None and self.policy.ranges == PROVED:
            raise ArgumentError(
                "a goal and proved ranges; expected one of them: a goal is a promise about samples", code="DG-HW-022"
            )
        if self.function == ROLLOUT and self.goal is not None:
            text = "of a rollout; expected policy=Policy(word=...) (--word BITS): errors add up over its steps"
            raise OptionError("goal", text, code="DG-HW-023")
        if self.function == ROLLOUT and self.policy is not None and self.policy.ranges == PROVED:
            text = "of a rollout; expected ranges='sampled' (--proved left out): its states may leave the region"
            raise OptionError("ranges='proved'", text, code="DG-HW-024")
        if self.function == ROLLOUT and self.axi is not None and self.axi.choice:
            raise ArgumentError("a rollout has no outputs to choose; expected choice left out", code="DG-HW-025")
