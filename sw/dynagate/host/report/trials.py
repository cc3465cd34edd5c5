"""Problems with which a solver's program is measured, and the results of it that are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.chip import ChipSolver
from dynagate.control.chip_ik import SOLUTION, ChipIk
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.cost import Cost
from dynagate.control.ik import IkOptions, errors_graph
from dynagate.control.ilqr import IlqrOptions
from dynagate.control.targets import FramePose
from dynagate.dynamics.configuration import integrate, normalized
from dynagate.forces.options import StepOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host.ilqr import ILQR
from dynagate.host.solver import bounds_of
from dynagate.integrators.limits import ranges

FORMAT_PROBLEMS = 24
"""Number of problems that choose the formats."""
COST_ERROR, RESULT_ERROR = 0.01, 1e-3
"""Relative errors that the cost, and gains or torques, may have."""
MOST, TOLERANCE = 50, 1e-3
"""Iterations of iLQR, and the fall of the cost below which a problem has converged."""
REGULARIZATION = (1e-7, 1.0)
"""Smallest and largest regularization of iLQR: words of 27 bits resolve this smallest one next to the largest."""
TEMPERATURE, ACCELERATION = 1.0, 1.0
"""Temperature of MPPI; and acceleration of a single joint, rad/s² or m/s², whose torque is the deviation of torques."""
FAR, FAST = 0.5, 0.05
"""Starts and goals in this share of the limits, rad within π; speeds up to this share of the limits."""
RESULTS = {"gain": "gains", "tau": "torques"}
"""Result that is compared besides the cost -> what a report calls its numbers."""
POSE_WORD, POSE_TOLERANCE, LEAST_TOLERANCE = 27, 1e-3, 1e-6
"""Word length with the tolerance of inverse kinematics, m and rad, which halves with each bit; and the least one."""
FORMAT_POSES = 256
"""Number of poses that choose the formats."""
POSE_ITERATIONS = 16
"""Largest number of iterations of inverse kinematics."""
NEAR = 0.5
"""Largest distance of each joint's start from a configuration that reaches the pose, rad or m."""


@dataclass(frozen=True)
class Compared:
    """A result of a solver's program, compared for each problem."""

    name: str
    """Name of its line in a report."""
    error: Array
    """The error of each problem, (batch,)."""
    most: float
    """Largest error of a problem that counts as near."""
    text: str
    """Text of the line, with the fields {median} and {largest}."""

    @property
    def line(self) -> str:
        return self.text.format(median=f"{np.median(self.error):.1e}", largest=f"{self.error.max():.1e}")


@dataclass(frozen=True)
class SolverTrial(ABC):
    """A solver with the problems that measure it."""

    solver: ChipSolver
    """The solver as a program."""
    region: Region
    """Operating region of the robot."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The problem, for the title of a report."""

    @property
    def format_problems(self) -> int:
        """Number of problems that choose the formats."""
        return FORMAT_PROBLEMS

    @property
    @abstractmethod
    def near(self) -> str:
        """The problems that count as near, as the subject of a rule."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """Advice that makes more problems near."""

    @property
    @abstractmethod
    def refused(self) -> str:
        """Overflows that are counted, although no result depends on them."""

    @abstractmethod
    def problems(self, batch: int, seed: int) -> dict[str, Array]:
        """Return inputs of problems, (batch, ·) by name.

        Args:
            batch: Number of problems.
            seed: Seed of the problems.
        """

    @abstractmethod
    def compared(
        self, inputs: Mapping[str, Array], got: Mapping[str, Array], exact: Mapping[str, Array]
    ) -> Sequence[Compared]:
        """Return the results that are compared.

        Args:
            inputs: Inputs of the problems by name.
            got: Results of the chip by name.
            exact: All values of the calls in float64 by name.
        """


@dataclass(frozen=True)
class Reaching(SolverTrial):
    """A solver of optimal control that brings a robot to a goal."""

    result: str
    """Result that is compared with float64 besides the cost."""
    against: Callable[[Mapping[str, Array]], Array]
    """Function that returns what the error of this result is relative to, (batch,), from all values of a call in
    float64.
    """

    @classmethod
    def of(cls, function: str, region: Region, knots: int, step: StepOptions, samples: int) -> Reaching:
        """Return a solver that brings a robot to goals.

        Args:
            function: "ilqr", whose gains of the first knot are compared, or "mppi", whose torques of the first knot
                are.
            region: Operating region of the robot.
            knots: Number of torques of the horizon.
            step: Options of a step.
            samples: Number of samples of "mppi".

        Returns:
            The solver.

        Raises:
            ArgumentError: The solver refuses an option.
        """
        robot, cost = region.robot, Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
        if function == ILQR:
            options = IlqrOptions(knots, step, MOST, TOLERANCE, *REGULARIZATION, bounds_of(robot, None))
            solver = ChipIlqr.of(robot, cost, options)
            return cls(solver, region, "gain", lambda exact: np.abs(exact["gains_new"]).max(axis=(1, 2, 3)))
        mass = evaluate(trace(robot, "mass_matrix"), {"q": _drawn(region, FORMAT_PROBLEMS, 0)["q"]})["m"]
        spread = ACCELERATION * np.diagonal(mass, axis1=1, axis2=2).mean(axis=0)
        own = MppiOptions(knots, step, samples, TEMPERATURE, spread)
        sampler = ChipMppi.of(robot, cost, own)
        return cls(sampler, region, "tau", lambda exact: np.abs(exact["tau"]).max(axis=1))

    @property
    def title(self) -> str:
        options = self.solver.options
        return f"{options.knots} knots of {options.step.dt:g} s"

    @property
    def near(self) -> str:
        return (
            f"near float64, whose cost is within {COST_ERROR:g} and whose gains or torques are within {RESULT_ERROR:g},"
        )

    @property
    def remedy(self) -> str:
        return "use a longer --word, fewer --knots, or another cost, by ChipIlqr or ChipMppi"

    @property
    def refused(self) -> str:
        return "what a line search refuses is among them"

    def compared(
        self, inputs: Mapping[str, Array], got: Mapping[str, Array], exact: Mapping[str, Array]
    ) -> Sequence[Compared]:
        """Return the relative errors of the cost, and of gains or torques."""
        difference = np.abs(got[self.result] - exact[self.result])
        error = np.asarray(difference.reshape(len(difference), -1).max(axis=1) / self.against(exact))
        cost = np.abs(got["cost"] / exact["cost"] - 1.0)
        return (
            Compared("cost", cost, COST_ERROR, "{median} from float64's, {largest} at most, relative"),
            Compared(RESULTS[self.result], error, RESULT_ERROR, "{median} of the largest, {largest} at most"),
        )

    def problems(self, batch: int, seed: int) -> dict[str, Array]:
        """Return problems, of which a third begins at rest.

        Args:
            batch: Number of problems.
            seed: Seed of the problems.

        Returns:
            Start states, goals and guesses of torques, which hold the robot in its start, (batch, ·); for "mppi" also
            the seed and the number of the draw.
        """
        drawn = _drawn(self.region, batch, seed)
        zero = 0.0 * drawn["qd"]
        holding = evaluate(trace(self.region.robot, "inverse_dynamics"), {"q": drawn["q"], "qd": zero, "qdd": zero})
        known = {**drawn, "guess": holding["tau"], "draw": np.arange(batch), "seed": np.full(batch, seed)}
        return {name: x for name, x in known.items() if name in self.solver.blocks.loop.per_iteration}


def _drawn(region: Region, batch: int, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    low, high = (np.clip(np.array(x), -np.pi, np.pi) for x in (region.lower, region.upper))
    middle, half = (low + high) / 2, (high - low) / 2
    q = middle + FAR * half * random.uniform(-1.0, 1.0, (batch, len(low)))
    goal = np.clip(q + random.uniform(-FAR, FAR, q.shape), middle - half, middle + half)
    for part in region.robot.quaternions():
        for each in (q, goal):
            each[:, part] /= np.linalg.norm(each[:, part], axis=1, keepdims=True)
    speed = np.array(region.velocity)
    qd = FAST * speed * random.uniform(-1.0, 1.0, (batch, len(speed)))
    qd[::3] = 0.0
    return {"q": q, "qd": qd, "goal": goal}


@dataclass(frozen=True)
class Posing(SolverTrial):
    """Inverse kinematics that brings a frame to poses."""

    frame: str
    """Name of the frame."""

    @classmethod
    def of(cls, frame: str, region: Region, word: int) -> Posing:
        """Return the solver that brings a frame to poses.

        Args:
            frame: Name of the frame or link.
            region: Operating region of the robot.
            word: Word length in bits, which decides the tolerance.

        Returns:
            The solver.

        Raises:
            ArgumentError: The solver refuses an option.
            RobotError: The robot has no such frame.
        """
        region.robot.frame(frame)
        tolerance = max(POSE_TOLERANCE * 2.0 ** (POSE_WORD - word), LEAST_TOLERANCE)
        options = IkOptions((FramePose(frame),), None, POSE_ITERATIONS, tolerance)
        return cls(ChipIk.of(region.robot, options), region, frame)

    @property
    def format_problems(self) -> int:
        return FORMAT_POSES

    @property
    def title(self) -> str:
        return f"{self.frame} within {self.solver.options.tolerance:.2g}"

    @property
    def near(self) -> str:
        return f"whose solution is within {self._most:.2g} m and rad of the pose, by kinematics in float64,"

    @property
    def remedy(self) -> str:
        return "use a longer --word, or another tolerance or number of iterations, by ChipIk"

    @property
    def refused(self) -> str:
        return "what a rejected step computes is among them"

    @property
    def _most(self) -> float:
        return 2.0 * float(self.solver.options.tolerance)

    def problems(self, batch: int, seed: int) -> dict[str, Array]:
        """Return starts, and poses that the frame has near them: within NEAR rad or m of each joint's start."""
        region, random = self.region, np.random.default_rng(seed)
        goal = _drawn(region, batch, seed)["q"]
        away = random.uniform(-NEAR, NEAR, (batch, region.robot.nv))
        start = np.clip(integrate(region.robot, goal, away), *ranges(region.robot))
        return {"q": start, **self._poses(goal)}

    def _poses(self, q: Array) -> dict[str, Array]:
        """Return the position (batch, 3) and rotation (batch, 3, 3) of the frame, by the names of a call's inputs."""
        pose = evaluate(trace(self.region.robot, f"frame_pose_{self.frame}"), {"q": q})
        (target,) = self.solver.options.targets
        position, rotation = target.parts
        return {position: pose["frame_position"], rotation: pose["frame_rotation"]}

    def compared(
        self, inputs: Mapping[str, Array], got: Mapping[str, Array], exact: Mapping[str, Array]
    ) -> Sequence[Compared]:
        """Return the distances and angles from the solutions to the poses, by kinematics in float64."""
        robot, targets = self.region.robot, self.solver.options.targets
        (target,) = targets
        poses = {name: inputs[name] for name in target.parts}
        errors = evaluate(errors_graph(robot, targets), {"q": normalized(robot, got[SOLUTION].copy()), **poses})[
            "errors"
        ]
        text = "{median} m and rad from the target, {largest} at most"
        return (Compared("pose", target.sizes(errors), self._most, text),)
