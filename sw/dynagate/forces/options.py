"""Options of time steps, and of the algorithms that compute functions.

Functions that step a robot collect their keywords in one of these objects and pass the object on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dynagate.base.arguments import ABOVE_ZERO, check_flags, check_time_step, names_of, number, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import check_fields, explained
from dynagate.base.nearest import nearest
from dynagate.base.option import option
from dynagate.dynamics.recursions.poses import Frame
from dynagate.dynamics.steps.damping import check_damping, varied_in_step
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.dynamics.steps.step import DEFAULT_INTEGRATOR, DEFAULT_STEP
from dynagate.forces.listed import all_as_text, all_of_text
from dynagate.robot import Robot

IMPLICIT_DAMPING = "Evaluate joint damping at the velocity after each step, which is stable for any time step."
"""Help text of the option for joint damping in a step."""


@explained
@dataclass(frozen=True)
class StepOptions:
    """Options of a time step of a robot.

    Joint damping always acts.

    Raises:
        ArgumentError: An option is out of range, the integrator is unknown, or two options exclude each other.
        ArgumentTypeError: An option has another type.
    """

    dt: float | None = option("Use this time step, s.  [default: 0.001]", None, unit="SECONDS")
    """Time step in s; None for an input `dt` () of each step."""
    integrator: str | None = option(
        "Use this integrator. The last two solve an equation in each step of a rollout and need --units. They have "
        "options: 'position_based(order=3)'.  [default: semi_implicit_euler]",
        None,
    )
    """Name of an explicit integrator; None for "semi_implicit_euler"."""
    form: str | None = option(
        "Use this algorithm; `dynagate info` lists them.  [default: the first]", None, unit="FORM"
    )
    """Algorithm of forward dynamics; None for the first."""
    forces: Sequence[Any] = option(
        "Apply this force (repeatable): friction or 'Friction(0.3)', and in a rollout stops, "
        "'Limits(stiffness=100.0)' and others.",
        (),
        name="--force",
        unit="FORCE",
    )
    """Forces of `dynagate.forces`, including friction and stops, or their texts."""
    constrained: bool = option("Hold the robot's constraints in each step of a rollout.", False)
    """Whether to use constrained forward dynamics, with the input `active` (constraints,)."""
    implicit_damping: bool = option(IMPLICIT_DAMPING, False)
    """Whether joint damping is taken at the velocity after the step (`dynamics.steps.damping`)."""

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        object.__setattr__(self, "forces", all_of_text(self.forces))
        if self.dt is not None:
            check_time_step(self.dt)
        check_flags(**{each.name: getattr(self, each.name) for each in fields(self) if each.type == "bool"})
        self._check()

    def _check(self) -> None:
        """Raise ArgumentError if an option does not fit the others."""
        if self.method not in EXPLICIT_METHODS:
            near = nearest(self.method, EXPLICIT_METHODS)
            raise ArgumentError(
                f"integrator '{self.method}'{near}; expected one of {', '.join(EXPLICIT_METHODS)}", code="DG-FORCE-014"
            )
        check_damping(self.implicit_damping, self.method, self.dt)

    @property
    def method(self) -> str:
        """Name of the integrator."""
        return DEFAULT_INTEGRATOR if self.integrator is None else self.integrator

    @property
    def dynamics(self) -> str:
        """Name of the function that computes accelerations."""
        return "constrained_forward_dynamics" if self.constrained else "forward_dynamics"

    def in_step(self, robot: Robot) -> Robot:
        """Return the robot whose forward dynamics the step has."""
        return varied_in_step(robot, self.implicit_damping, self.dt)

    def of_step(self, **changes: Any) -> dict[str, Any]:
        """Return the options of the step by name, with some of them changed."""
        return {**{each.name: getattr(self, each.name) for each in fields(StepOptions)}, **changes}


@explained
@dataclass(frozen=True)
class AlgorithmOptions(StepOptions):
    """Options of a function's algorithm.

    A function accepts the options of its form (`Function.options`). The options of `StepOptions` apply to functions as
    follows:

    * form: the algorithm, as `dynagate info` lists them; None for the function's first.
    * dt: the time step in s; None for 1e-3.
    * integrator: "euler", "semi_implicit_euler", "rk2", "rk3" or "rk4", and for a rollout as a program also
      "variational" or "position_based"; None for "semi_implicit_euler".
    * forces: friction acts in functions too, the other forces in rollouts. Text is accepted, such as "Friction(0.3)".
    * constrained: an option of rollouts. Which constraints hold is an input of each step.

    Raises:
        ArgumentError: The function does not accept an option.
    """

    frame: Frame | None = option(
        "Express the gradients in this frame, by its name or by a link's index.", None, unit="FRAME"
    )
    """Frame in which the closed-form gradients express vectors: "base", "middle", "sparsest", "fewest", "accurate", the
    index of a link, or a map from the first link of each chain to the index of a link; None for "sparsest".
    """
    mass: str | None = option(
        "Express the mass matrix of the gradients in these frames.", None, choices=("body", "shared")
    )
    """Frames of the mass matrix in the gradients: "body" or "shared"; None for "body"."""
    prefix: bool = option("Use prefix products and sums in gradients: fewer levels, more operations.", False)
    """Whether the gradients use prefix products and sums, with fewer levels and more operations."""
    external_forces: bool = False
    """Whether forces on the links are the last input, f_ext (links, 6), in N m and N."""
    outputs: Sequence[str] | None = option(
        "Compute only these outputs.  [default: all]", None, unit="OUTPUT,OUTPUT,..."
    )
    """Names of the outputs to compute; None for all. Operations for other outputs are omitted."""
    linearize: bool = option("Also return ∂x⁺/∂x and ∂x⁺/∂τ for each step of a rollout.", False)
    """Whether a rollout's steps also return ∂x⁺/∂x and ∂x⁺/∂τ."""
    variable_dt: bool = option("Make the time step of a rollout an input, at most --dt.", False)
    """Whether dt is an input of each step; the option dt is then the largest time step."""
    tolerance: float | None = option(
        "Stop the iterations of a rollout's variational or position-based steps at this residual."
        "  [default: the smallest that the word allows]",
        None,
        unit="NUMBER",
    )
    """Residual at which a step of "variational" or "position_based" is solved; None for the smallest that the word
    allows.
    """

    def _check(self) -> None:
        """Raise an error if an option has another type or range. What fits together is for the function to check."""
        if self.outputs is not None:
            object.__setattr__(self, "outputs", names_of("outputs", self.outputs))
        if self.tolerance is not None:
            number("tolerance ", self.tolerance, ABOVE_ZERO.called("a number of more than 0"))
        check_fields(self)

    @classmethod
    def of_record(cls, options: Mapping[str, Any]) -> AlgorithmOptions:
        """Return the options that a record holds as JSON, as `as_dict` wrote them."""
        return cls(**{name: _from_json(value) for name, value in options.items()})

    def step(self, **changes: Any) -> StepOptions:
        """Return the options of the step, with some of them changed. Its dt is None if the time step is an input."""
        dt = DEFAULT_STEP if self.dt is None else self.dt
        return StepOptions(**self.of_step(**{"dt": None if self.variable_dt else dt, **changes}))

    def changed(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}

    def as_dict(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name, for a record. Forces are texts."""
        texts = {"forces": all_as_text(self.forces)} if self.forces else {}
        return {**self.changed(), **texts}


def _from_json(value: Any) -> Any:
    """Return JSON's lists as tuples, and a map of frames with numbers as keys."""
    if isinstance(value, dict):
        return {int(key): link for key, link in value.items()}
    return tuple(map(_from_json, value)) if isinstance(value, list) else value


DEFAULTS = AlgorithmOptions()
