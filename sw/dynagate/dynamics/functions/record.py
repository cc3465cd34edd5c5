"""A row of the function table: inputs and outputs with their shapes, and the algorithms that compute the function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.base.nearest import nearest
from dynagate.dynamics.functions.spaces import Argument
from dynagate.dynamics.recursions.invertible import check_invertible
from dynagate.dynamics.tree import Tree, tree_of
from dynagate.robot import Robot, RobotError

SCAN = "scan"
"""The form that is a loop over links."""
SCANS = {
    "inverse_dynamics": "newton_euler",
    "forward_dynamics": "aba",
    "inverse_mass_product": "aba",
    "inverse_dynamics_vjp": "newton_euler",
    "forward_dynamics_vjp": "aba",
    "inverse_mass_product_vjp": "aba",
    "inverse_dynamics_jvp": "newton_euler",
    "forward_dynamics_jvp": "aba",
    "inverse_mass_product_jvp": "aba",
    "constrained_forward_dynamics": "articulated",
}
"""Functions that have an algorithm over links, and the form that it has when it is unrolled."""


Algorithm = Callable[..., Any]
TAU_OR_QDD = Argument("tau_or_qdd", "cotangent")
"""Input of functions together: τ in samples of a function that takes torques, q̈ in those of one that takes
accelerations."""
ACCELERATION = "frame_acceleration_"
"""Begins the functions that take accelerations and no forces."""
MASS_PRODUCT = "inverse_mass_product"
"""The function M⁻¹ τ, whose torques are those of no motion."""
CODE = Argument("function", "scalar")
"""Input of functions together: the code of the sample's function."""
EXTERNAL = Argument("f_ext", "wrenches")
"""Optional input: force on each link from outside, [moment; force] at the link's origin in the link's frame, in N m
and N."""


@dataclass(frozen=True)
class FunctionPart:
    """One of the functions that are computed together. code: of its samples, positive where it takes accelerations.
    inputs: its own inputs by name -> those of all together."""

    function: FunctionRow
    code: int
    inputs: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.function.name


@dataclass(frozen=True)
class FunctionRow:
    """One row of the function table. forms: the algorithms that compute it, by name, the default first.
    options: what the algorithms take besides their inputs, by form.
    checks: by form, what raises RobotError for robots that the form does not know.
    derivative_of: the function whose graph it is made from by differentiation (`graph.derived`); the forms are those of
    that function. parts: the functions that it computes together, each for samples of its own. at_once: those that it
    computes at one state. mimicking: forms that take a robot's own coordinates, where its joints mimic others; the
    others take those of all joints, and the spaces of inputs and outputs say how these are mapped."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    forms: dict[str, Algorithm]
    options: dict[str, tuple[str, ...]]
    checks: dict[str, Callable[[Tree], None]] = field(default_factory=dict)
    derivative_of: FunctionRow | None = None
    parts: tuple[FunctionPart, ...] = ()
    at_once: tuple[FunctionRow, ...] = ()
    mimicking: tuple[str, ...] = ()

    def forms_for(self, robot: Robot) -> list[str]:
        """The forms that know this robot, the default first."""
        tree = tree_of(robot)
        return [form for form in self.forms if self._knows(form, tree)]

    def _knows(self, form: str, tree: Tree) -> bool:
        try:
            self._check(form, tree)
        except RobotError:
            return False
        return True

    def _check(self, form: str, tree: Tree) -> None:
        """Raises RobotError: the form does not know the robot."""
        if not (tree.mimic.is_identity or self.at_once):
            self._check_mimics(tree, form)
        if form in self.checks:
            self.checks[form](tree)

    @property
    def needs_inverse(self) -> bool:
        """Whether the algorithms divide by what resists each joint."""
        outputs = (self.derivative_of or self).outputs
        return not {"qdd", "minv", "qd_next", "qd_after", "delassus"}.isdisjoint(argument.name for argument in outputs)

    @property
    def takes_external_forces(self) -> bool:
        if self.at_once:
            return any(function.takes_external_forces for function in self.at_once)
        moves = not {"qdd", "tau", TAU_OR_QDD.name}.isdisjoint(argument.name for argument in self.inputs)
        return moves and not self.name.startswith((ACCELERATION, MASS_PRODUCT))

    @property
    def takes_friction(self) -> bool:
        """Whether the results depend on what joints take of torques: where external forces matter too, and of the bias
        torques."""
        return self.takes_external_forces or "bias_torque" in [argument.name for argument in self.outputs]

    def check_friction(self) -> None:
        """Raise ArgumentError if the function does not depend on friction."""
        if not self.takes_friction:
            raise ArgumentError(f"{self.name} does not depend on friction; expected no forces")

    def inputs_with(self, external_forces: bool) -> tuple[Argument, ...]:
        """Return the inputs, f_ext last if requested. Raises ValueError: forces do not enter this function."""
        if external_forces and not self.takes_external_forces:
            raise ArgumentError(f"{self.name} does not depend on external forces")
        return (*self.inputs, EXTERNAL) if external_forces else self.inputs

    def __call__(
        self, robot: Robot | Tree, *inputs: Sequence[Any], form: str | None = None, **options: Any
    ) -> tuple[Any, ...]:
        """The outputs in order; f_ext (links, 6) may follow the inputs.

        Raises ValueError for a form or an option that the function does not have, and for a function that is made by
        differentiation, RobotError where the form does not know the robot, or M⁻¹ is needed and there is none."""
        self.check_options(form, options)
        if self.derivative_of:
            raise ArgumentError(f"{self.name} is made from a graph; expected dynagate.trace(robot, '{self.name}')")
        tree = robot if isinstance(robot, Tree) else tree_of(robot)
        form = form or next(iter(self.forms))
        self._check(form, tree)
        if self.needs_inverse:
            check_invertible(tree)
        if len(inputs) > len(self.inputs):
            options["external"] = inputs[-1]
        own = inputs[: len(self.inputs)]
        return self._results(tree, form, own, options)

    def _results(self, tree: Tree, form: str, inputs: Sequence[Any], options: dict[str, Any]) -> tuple[Any, ...]:
        """Return the outputs in a robot's own coordinates, from inputs in these."""
        maps = not (tree.mimic.is_identity or self.at_once or form in self.mimicking)
        to_joints = [argument.values.to_joints if maps else None for argument in self.inputs]
        own = [move(tree.mimic, x) if move else x for move, x in zip(to_joints, inputs, strict=True)]
        result = self.forms[form](tree, *own, **options)
        results = result if len(self.outputs) > 1 else (result,)
        if not maps:
            return results
        with scope("mimic"):
            moves = [argument.values.from_joints for argument in self.outputs]
            return tuple(move(tree.mimic, x) if move else x for move, x in zip(moves, results, strict=True))

    def _check_mimics(self, tree: Tree, form: str) -> None:
        """Raise RobotError if a form does not support a robot whose joints mimic others."""
        names = ", ".join(f"'{name}'" for name in tree.source.followers)
        of = self.derivative_of or self
        if of.parts:
            raise RobotError(
                f"joints {names} of robot '{tree.source.name}' mimic others, which functions together do not know; "
                "expected one function, or lock= for these joints"
            )
        if form not in of.mimicking and any(argument.values.is_solved for argument in of.outputs):
            expected = f"'{of.mimicking[0]}', or " if of.mimicking else ""
            raise RobotError(
                f"joints {names} of robot '{tree.source.name}' mimic others, which form '{form}' of {of.name} does not "
                f"know; expected {expected}lock= for these joints"
            )

    def chosen_outputs(self, names: Sequence[str] | None) -> tuple[Argument, ...]:
        """The outputs of these names, in the function's order; all for None. Raises ValueError: there is no such
        output, or none is chosen."""
        if names is None:
            return self.outputs
        if self.parts:
            raise ArgumentError(f"outputs of several functions ({self.name}); expected fewer functions instead")
        known = [argument.name for argument in self.outputs]
        for name in names:
            if name not in known:
                raise ArgumentError(
                    f"{self.name} has no output '{name}'{nearest(name, known)}; expected some of {', '.join(known)}"
                )
        if not names:
            raise ArgumentError(f"{self.name} without outputs; expected some of {', '.join(known)}")
        return tuple(argument for argument in self.outputs if argument.name in names)

    def check_options(self, form: str | None, options: Iterable[str]) -> None:
        """Raises ValueError for a form or an option that the function does not have."""
        form = form or next(iter(self.forms))
        if form == SCAN and self.name in SCANS:
            raise ArgumentError(
                f"form '{SCAN}' is a loop over links without a graph; expected dynagate.compile(robot, '{self.name}', "
                f"form='{SCAN}') on device 'cpu' or 'fixed', or for a graph one of {', '.join(self.forms)}"
            )
        if form not in self.forms:
            raise ArgumentError(
                f"{self.name} has no form '{form}'{nearest(form, self.forms)}; expected one of {', '.join(self.forms)}"
            )
        known = self.options.get(form, ())
        for option in options:
            if option not in known:
                listed = ", ".join(known) or "none"
                raise ArgumentError(
                    f"{self.name} ({form}) has no option '{option}'{nearest(option, known)}; expected one of: {listed}"
                )


def derivatives(of: FunctionRow) -> list[FunctionRow]:
    """Return the rows of products with a function's derivatives: λᵀ ∂outputs/∂inputs, and ∂outputs/∂inputs · δ."""
    moved = [argument for argument in of.inputs if argument.values.moves_in]
    weights = tuple(argument.weights() for argument in of.outputs)
    products = tuple(argument.product() for argument in moved)
    directions = tuple(argument.direction() for argument in moved)
    rates = tuple(argument.rate() for argument in of.outputs)
    return [
        derivative(of, f"{of.name}_vjp", (*of.inputs, *weights), (*of.outputs, *products)),
        derivative(of, f"{of.name}_jvp", (*of.inputs, *directions), (*of.outputs, *rates)),
    ]


def derivative(of: FunctionRow, name: str, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> FunctionRow:
    """Return the row of a function that is made from another one's graph."""
    return FunctionRow(name, tuple(inputs), tuple(outputs), of.forms, of.options, of.checks, of)
