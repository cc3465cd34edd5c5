"""Options of the algorithm that computes a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from dynagate.base.arguments import ABOVE_ZERO, check_flags, check_time_step, names_of, number, store_plain_numbers
from dynagate.base.explained import check_fields, explained
from dynagate.base.option import option
from dynagate.dynamics.recursions.poses import Frame

DEFAULT_FUNCTION = "forward_dynamics_gradient"
"""Function that is computed if none is named."""
IMPLICIT_DAMPING = "Take joint damping at the velocity after each step, so that no step is too long for it."
"""Help of the option for joint damping in a step."""
FLAGS = ("prefix", "external_forces", "linearize", "variable_dt", "implicit_damping")
"""Options that are True or False."""
OF_ROLLOUTS = ("linearize", "variable_dt", "tolerance")
"""Options that only rollouts have."""


@explained
@dataclass(frozen=True)
class AlgorithmOptions:
    """Options of a function's algorithm. A function in one of its forms takes some of them (`Function.options`). Raises
    ValueError naming one that none takes.

    form: the algorithm's name, as `dynagate info` lists them; None is the function's first.
    frame: where the closed-form gradients express vectors: "base", "middle", "sparsest", "fewest", "accurate", a link's
    index, or a map from the first link of each chain to a link's index; None is "sparsest".
    mass: "body" or "shared", the frames in which the gradients take M; None is "body".
    prefix: prefix products and sums in the gradients: fewer levels, more operations.
    dt: seconds of a step through time; None is 1e-3.
    integrator: "euler", "semi_implicit_euler", "rk2", "rk3" or "rk4"; of a rollout as a program also
    "variational" or "position_based"; None is "semi_implicit_euler". tolerance: with which these two have solved a
    step; None is the smallest that the word allows.
    implicit_damping: a step takes joint damping at the velocity after it (`dynamics.steps.damping`).
    linearize: a rollout's turns give ∂x⁺/∂x and ∂x⁺/∂τ too. variable_dt: dt is an input of each turn, and the option dt
    the largest.
    forces: as text, such as "Limits(stiffness=100.0)" or "Friction(0.3)". Friction acts in functions too, the others in
    rollouts. Damping acts in any case.
    external_forces: take the forces on the links as a last input f_ext (links, 6), in N m and N.
    outputs: names of the function's outputs to compute; None for all. What only the others need is left out.
    """

    form: str | None = option(
        "Use this algorithm; `dynagate info` lists them.  [default: the first]", None, unit="FORM"
    )
    frame: Frame | None = option(
        "Express the gradients in this frame, by its name or by a link's index.", None, unit="FRAME"
    )
    mass: str | None = option(
        "Express the mass matrix of the gradients in these frames.", None, choices=("body", "shared")
    )
    prefix: bool = option("Use prefix products and sums in gradients: fewer levels, more operations.", False)
    external_forces: bool = False
    outputs: Sequence[str] | None = option(
        "Compute only these outputs.  [default: all]", None, unit="OUTPUT,OUTPUT,..."
    )
    dt: float | None = option("Step by this time.  [default: 0.001]", None, unit="SECONDS")
    integrator: str | None = option(
        "Step by this integrator. The last two solve an equation in each step of a rollout and need --units."
        "  [default: semi_implicit_euler]",
        None,
    )
    linearize: bool = option("Also return ∂x⁺/∂x and ∂x⁺/∂τ of each step of a rollout.", False)
    variable_dt: bool = option("Make the time step of a rollout an input, at most --dt.", False)
    forces: Sequence[str] = option(
        "Apply this force (repeatable): friction or 'Friction(0.3)', and in a rollout stops, "
        "'Limits(stiffness=100.0)' and others.",
        (),
        name="--force",
        unit="FORCE",
    )
    tolerance: float | None = option(
        "End the search of a variational or position-based step at this residual."
        "  [default: the smallest that the word allows]",
        None,
        unit="NUMBER",
    )
    implicit_damping: bool = option(IMPLICIT_DAMPING, False)

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        if self.outputs is not None:
            object.__setattr__(self, "outputs", names_of("outputs", self.outputs))
        object.__setattr__(self, "forces", names_of("forces", self.forces))
        if self.dt is not None:
            check_time_step(self.dt)
        if self.tolerance is not None:
            number("tolerance ", self.tolerance, ABOVE_ZERO.called("a number of more than 0"))
        check_flags(**{name: getattr(self, name) for name in FLAGS})
        check_fields(self)

    def as_dict(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}


DEFAULTS = AlgorithmOptions()
