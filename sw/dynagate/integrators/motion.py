"""The motion of a robot by an integrator: a loop over its steps, which every executor of loops runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.integrators.adjoint import StepEquations, equations_vjp_graph
from dynagate.robot import Robot


@dataclass(frozen=True)
class Motion:
    """The steps of a robot by an integrator."""

    loop: Loop
    """Loop over the steps, from q (nq,), the other values of `begin`, and tau and inputs of forces (nv,) of each step.
    It keeps `states` of every step or every this many, with linearize a and b, and `failed`.
    """
    states: tuple[str, str] = ("q_next", "qd_next")
    """Names of q and qd after a step."""
    begin: Loop | None = None
    """Loop of one iteration from q, qd and the constants to the other initial values of the first step; None if there
    are no others.
    """
    constants: Mapping[str, float] = field(default_factory=dict)
    """Inputs () of both loops."""
    failed: str | None = None
    """Name of the value () that counts steps without convergence; None for an integrator that solves no
    equations.
    """
    ends: bool = False
    """Whether states after the first step without convergence are meaningless."""
    zeros: Mapping[str, int] = field(default_factory=dict)
    """Values that are 0 before the first step, and their lengths."""
    extras: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Field of `Trajectories` -> the value that the loop keeps for it, and its shape."""
    solved: tuple[str, ...] = ()
    """Fields of `extras` that the reverse sweep takes."""
    in_float32: bool = False
    """Whether it can be computed in float32."""
    reach: Mapping[str, float] = field(default_factory=dict)
    """Values that may exceed those in a few steps, and their largest magnitude, for formats of integers."""
    scattered: tuple[str, ...] = ()
    """Fields of `extras` whose few largest values are far above the others. Formats of integers do not hold these."""


@explained
class Integrator(ABC):
    """A method that steps a robot through time, with its options, for `dynagate.Rollout(integrator=...)`.

    An integrator of your own is a frozen dataclass of its parameters and a row in `methods.METHODS`.
    """

    name: ClassVar[str]
    """Name in errors and designs."""
    linearizes: ClassVar[bool] = False
    """Whether it is explicit."""
    keeps_stops: ClassVar[bool] = False
    """Whether it accepts `forces.Stops`."""
    largest_tolerance: ClassVar[float] = 0.0
    """Largest tolerance of a step in integers that `dynagate.build` chooses, in the unit of the tolerance."""

    faster: ClassVar[float] = 1.0
    """Largest speeds after a step that formats hold, relative to the region's. An impact may exceed those of the start.
    """

    unsolved: ClassVar[float] = 1e-3
    """Largest share of the steps that float64 solves and integers need not solve to a tolerance that `dynagate.build`
    chooses.
    """

    @abstractmethod
    def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
        """Return the motion of a robot by this integrator.

        Args:
            robot: The robot.
            options: Options of a step, with dt in seconds.
            linearize: Include the derivatives of every step.
            every: Keep the state after every this many steps only.

        Raises:
            ArgumentError: The integrator does not accept an option, a force or a joint.
        """

    def equations(self, robot: Robot, options: StepOptions) -> StepEquations | None:
        """Return the equations that a step of a robot with these options solves, for its gradient; None for none."""
        return None

    def reverse(self, robot: Robot, options: StepOptions) -> Graph:
        """Return the reverse of a step of a robot with these options, as `step_vjp.step_vjp_graph`.

        Raises:
            ArgumentError: The integrator states no equations.
        """
        equations = self.equations(robot, options)
        if equations is None:
            raise ArgumentError(
                f"integrator '{self.name}' has no reverse sweep; expected one with equations, as 'rk4'",
                code="DG-ROLLOUT-072",
            )
        return equations_vjp_graph(robot, options, equations)

    @property
    def _has_equations(self) -> bool:
        return type(self).equations is not Integrator.equations

    def with_tolerance(self, tolerance: float) -> Integrator:
        """Return the integrator with another tolerance of the equations that it solves."""
        return replace(self, tolerance=tolerance)  # type: ignore[type-var]

    def starts(self, robot: Robot, q: Floats, ends: tuple[Floats, Floats], seed: int) -> Floats:
        """Return the configurations (count, nq) near q from which a motion can begin.

        Args:
            robot: The robot.
            q: Configurations (count, nq), rad or m.
            ends: Lower and upper limits (nq,), rad or m.
            seed: Seed of what is drawn.
        """
        return q

    def least_residual(self, robot: Robot, dt: float, word: int) -> float:
        """Return the residual, in the unit of the tolerance, that rounding leaves in a step; 0.0 if it is not known.

        Args:
            robot: The robot.
            dt: Time step, s.
            word: Word length in bits.
        """
        return 0.0

    def in_words(self, word: int | None) -> Integrator:
        """Return the integrator for integers of a word length in bits, or with None for their reference in float64."""
        return self

    @property
    def in_errors(self) -> str:
        """Return how errors call the integrator."""
        return f"integrator '{self.name}'"

    def refused(self, options: StepOptions, *, linearize: bool) -> dict[str, tuple[bool, str]]:
        """Return the options that the integrator does not accept: whether one is chosen, and what is accepted.

        Args:
            options: Options of the steps.
            linearize: Whether the call asks for the derivatives of each step.
        """
        if self.linearizes:
            return {}
        return {
            "linearize": (linearize and not self._has_equations, "a method with derivatives, such as 'rk4'"),
            "forces.Stops": (any(f.after_steps for f in options.forces), "forces=[dynagate.forces.Limits(stiffness)]"),
            "form": (options.form is not None, "none"),
            "dt=None": (options.dt is None, "a constant time step"),
            "constrained": (options.constrained, "an explicit method, such as 'rk4'"),
            "implicit_damping=True": (options.implicit_damping, "none: damping is in the equations that it solves"),
        }

    def check(self, options: StepOptions, *, linearize: bool) -> None:
        """Raise ArgumentError if the options of a step, or linearize, do not fit the integrator."""
        for name, (chosen, expected) in self.refused(options, linearize=linearize).items():
            if chosen:
                raise ArgumentError(f"{self.in_errors} takes no {name}; expected {expected}", code="DG-ROLLOUT-073")


def reverse_loop(method: Integrator, robot: Robot, options: StepOptions) -> Loop:
    """Return the loop of a rollout's gradient, from the last step to the first.

    Args:
        method: The integrator.
        robot: The robot.
        options: Options of the step.
    """
    graph, ends = method.reverse(robot, options), ("lam_q_next", "lam_qd_next")
    carry = {port.name: port.name.removesuffix("_next") for port in graph.outputs if port.name.startswith("lam_")}
    shared = [port.name for port in graph.inputs if port.parameter or port.name == "dt"]
    per_iteration = tuple(port.name for port in graph.inputs if port.name not in (*carry.values(), *shared))
    sums = [f"lam_{name}_next" for name in shared]
    name = f"rollout_{method.name}_vjp"
    kept = tuple(port.name for port in graph.outputs if port.name.startswith("vjp_"))
    return Loop(name, robot.name, (graph,), carry, Count(), per_iteration, kept, (*ends, *sums), backwards=True)
