"""What is to be designed, in one object."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dynagate.base.arguments import check_flags
from dynagate.base.errors import ArgumentError
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.options import DEFAULTS, AlgorithmOptions
from dynagate.fixedpoint.assign import PROVED, Policy
from dynagate.fixedpoint.goal import Goal
from dynagate.graph.certificate import check_certificate
from dynagate.graph.region import Region
from dynagate.hw.axi import Axi, check_goal
from dynagate.hw.cost import Budget
from dynagate.hw.plan import Stages
from dynagate.hw.schedule import check_interval
from dynagate.robot import Robot


@dataclass(frozen=True)
class DesignRequest:
    """What `dynagate.build` is asked for, but for the folder where the design goes. Raises ValueError.

    robot, function: what is computed; several functions have commas between them.
    ii: a new sample may enter every so many cycles, 1 to `schedule.LONGEST_INTERVAL`.
    policy: word length and binary points (24 bits by default). With proved ranges no state of the region overflows.
    goal: an accuracy, for which word lengths of least cost are found instead, with the policy's samples.
    formats: a file of formats instead; a policy with proved ranges has them proved.
    axi: write the datapath's shell too. budget: what the plan may take. stages: more registers, for a target that wants
    them. region: the states the formats are for (inside the URDF's limits by default).
    algorithm: the algorithm's options. certificate: forward dynamics has an output "certificate", a bound of the error
    of each q̈.
    """

    robot: Robot
    function: str = "forward_dynamics_gradient"
    ii: int = 8
    policy: Policy | None = None
    goal: Goal | None = None
    formats: str | os.PathLike[str] | None = None
    axi: Axi | None = None
    budget: Budget | None = None
    stages: Stages | None = None
    region: Region | None = None
    algorithm: AlgorithmOptions = DEFAULTS
    certificate: bool = False

    def __post_init__(self) -> None:
        check_interval(self.ii)
        check_flags(certificate=self.certificate)
        if self.certificate:
            check_certificate(self.function, self.algorithm)
        if self.goal is not None and self.formats is not None:
            raise ArgumentError("a goal and a file of formats; expected one of them")
        if self.goal is not None and self.policy is not None and self.policy.ranges == PROVED:
            raise ArgumentError("a goal and proved ranges; expected one of them: a goal is a promise about samples")
        if self.function == ROLLOUT and self.goal is not None:
            raise ArgumentError("a rollout takes no goal for single turns; expected a policy, or --word BITS")
        if self.function == ROLLOUT and self.axi is not None and self.axi.choice:
            raise ArgumentError("a rollout has no outputs to choose; expected choice left out")
        if self.goal is not None and self.axi is not None:
            check_goal(self.goal, self.axi.words)
