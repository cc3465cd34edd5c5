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
"""Name of the algorithm that is a loop over links."""
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
"""Functions with an algorithm over links -> the algorithm's name when it is unrolled."""


Algorithm = Callable[..., Any]
TAU_OR_QDD = Argument("tau_or_qdd", "cotangent")
"""Input of combined functions: τ for samples of functions that take torques, q̈ for those that take accelerations."""
ACCELERATION = "frame_acceleration_"
"""Prefix of the functions that take accelerations but no forces."""
MASS_PRODUCT = "inverse_mass_product"
"""The function M⁻¹ τ, whose torques do not belong to a motion."""
CODE = Argument("function", "scalar")
"""Input of combined functions: the code of the function that a sample selects."""
EXTERNAL = Argument("f_ext", "wrenches")
"""Optional input: the external force on each link, [moment; force] at the link's origin in its frame, N m and N."""


@dataclass(frozen=True)
class FunctionPart:
    """One of several functions that are computed together."""

    function: FunctionRow
    """Row of the function."""
    code: int
    """Code of its samples, positive if it takes accelerations."""
    inputs: tuple[tuple[str, str], ...]
    """Pairs of the function's input name and the combined function's input name."""

    @property
    def name(self) -> str:
        return self.function.name


@dataclass(frozen=True)
class FunctionRow:
    """One row of the function table."""

    name: str
    """Name of the function."""
    inputs: tuple[Argument, ...]
    """Inputs in order."""
    outputs: tuple[Argument, ...]
    """Outputs in order."""
    forms: dict[str, Algorithm]
    """Algorithms that compute the function, by name, with the default first."""
    options: dict[str, tuple[str, ...]]
    """Names of the options that each algorithm accepts."""
    checks: dict[str, Callable[[Tree], None]] = field(default_factory=dict)
    """Checks by algorithm. A check raises RobotError for a robot that the algorithm does not support."""
    derivative_of: FunctionRow | None = None
    """The function whose graph is differentiated to obtain this one (`graph.derived`), or None."""
    parts: tuple[FunctionPart, ...] = ()
    """The functions that it computes together if each sample selects one."""
    at_once: tuple[FunctionRow, ...] = ()
    """The functions that it computes together at one state."""
    mimicking: tuple[str, ...] = ()
    """Algorithms that accept the robot's own coordinates if joints mimic others.

        Other algorithms use the coordinates of all joints, and the spaces of inputs and outputs define the conversion.
    """

    def forms_for(self, robot: Robot) -> list[str]:
        """Return the algorithms that support a robot, with the default first."""
        tree = tree_of(robot)
        return [form for form in self.forms if self._knows(form, tree)]

    def _knows(self, form: str, tree: Tree) -> bool:
        """Return whether an algorithm supports a robot."""
        try:
            self._check(form, tree)
        except RobotError:
            return False
        return True

    def _check(self, form: str, tree: Tree) -> None:
        """Raise RobotError if an algorithm does not support a robot."""
        if not (tree.mimic.is_identity or self.at_once):
            self._check_mimics(tree, form)
        if form in self.checks:
            self.checks[form](tree)

    @property
    def needs_inverse(self) -> bool:
        """Whether the algorithms divide by the inertia of a joint."""
        outputs = (self.derivative_of or self).outputs
        return not {"qdd", "minv", "qd_next", "qd_after", "delassus"}.isdisjoint(argument.name for argument in outputs)

    @property
    def takes_external_forces(self) -> bool:
        """Whether the function accepts external forces on the links."""
        if self.at_once:
            return any(function.takes_external_forces for function in self.at_once)
        moves = not {"qdd", "tau", TAU_OR_QDD.name}.isdisjoint(argument.name for argument in self.inputs)
        if any(argument.space == "torques_by_parameters" for argument in self.outputs):
            return False
        return moves and not self.name.startswith((ACCELERATION, MASS_PRODUCT))

    @property
    def takes_friction(self) -> bool:
        """Whether the results depend on joint friction."""
        return self.takes_external_forces or "bias_torque" in [argument.name for argument in self.outputs]

    def check_friction(self) -> None:
        """Raise ArgumentError if the function does not depend on friction."""
        if not self.takes_friction:
            raise ArgumentError(f"{self.name} does not depend on friction; expected no forces", code="DG-FUNCTION-025")

    def inputs_with(self, external_forces: bool) -> tuple[Argument, ...]:
        """Return the inputs, with f_ext as the last one if requested. Raise ArgumentError if forces do not affect the
        function.
        """
        if external_forces and not self.takes_external_forces:
            raise ArgumentError(f"{self.name} does not depend on external forces", code="DG-FUNCTION-026")
        return (*self.inputs, EXTERNAL) if external_forces else self.inputs

    def __call__(
        self, robot: Robot | Tree, *inputs: Sequence[Any], form: str | None = None, **options: Any
    ) -> tuple[Any, ...]:
        """Return the outputs in order.

        Args:
            robot: The robot or its tree.
            inputs: Values of the inputs in order; f_ext (links, 6) may follow.
            form: Name of the algorithm; None for the default.
            options: Options of the algorithm.

        Raises:
            ArgumentError: The function has no such algorithm or option, or is made by differentiation.
            RobotError: The algorithm does not support the robot, or M⁻¹ is needed and does not exist.
        """
        self.check_options(form, options)
        if self.derivative_of:
            raise ArgumentError(
                f"{self.name} is made from a graph; expected dynagate.trace(robot, '{self.name}')",
                code="DG-FUNCTION-027",
            )
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
        """Return the outputs in a robot's own coordinates, from inputs in the same coordinates."""
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
        """Raise RobotError if an algorithm does not support a robot whose joints mimic others."""
        names = ", ".join(f"'{name}'" for name in tree.source.followers)
        of = self.derivative_of or self
        if of.parts:
            raise RobotError(
                f"joints {names} of robot '{tree.source.name}' mimic others, which functions together do not know; "
                "expected one function, or lock= for these joints",
                code="DG-FUNCTION-028",
            )
        if form not in of.mimicking and any(argument.values.is_solved for argument in of.outputs):
            expected = f"'{of.mimicking[0]}', or " if of.mimicking else ""
            raise RobotError(
                f"joints {names} of robot '{tree.source.name}' mimic others, which form '{form}' of {of.name} does not "
                f"know; expected {expected}lock= for these joints",
                code="DG-FUNCTION-029",
            )

    def chosen_outputs(self, names: Sequence[str] | None) -> tuple[Argument, ...]:
        """Return the outputs with these names in the function's order, or all for None.

        Raises:
            ArgumentError: There is no such output, or the list is empty.
        """
        if names is None:
            return self.outputs
        if self.parts:
            raise ArgumentError(
                f"outputs of several functions ({self.name}); expected fewer functions instead", code="DG-FUNCTION-030"
            )
        known = [argument.name for argument in self.outputs]
        for name in names:
            if name not in known:
                raise ArgumentError(
                    f"{self.name} has no output '{name}'{nearest(name, known)}; expected some of {', '.join(known)}",
                    code="DG-FUNCTION-031",
                )
        if not names:
            raise ArgumentError(
                f"{self.name} without outputs; expected some of {', '.join(known)}", code="DG-FUNCTION-032"
            )
        return tuple(argument for argument in self.outputs if argument.name in names)

    def check_options(self, form: str | None, options: Iterable[str]) -> None:
        """Raise ArgumentError if the function does not have this algorithm or one of these options."""
        form = form or next(iter(self.forms))
        if form == SCAN and self.name in SCANS:
            raise ArgumentError(
                f"form '{SCAN}' is a loop over links without a graph; expected dynagate.compile(robot, '{self.name}', "
                f"form='{SCAN}') on device 'cpu' or 'fixed', or for a graph one of {', '.join(self.forms)}",
                code="DG-FUNCTION-033",
            )
        if form not in self.forms:
            raise ArgumentError(
                f"{self.name} has no form '{form}'{nearest(form, self.forms)}; expected one of {', '.join(self.forms)}",
                code="DG-FUNCTION-034",
            )
        known = self.options.get(form, ())
        for option in options:
            if option not in known:
                listed = ", ".join(known) or "none"
                raise ArgumentError(
                    f"{self.name} ({form}) has no option '{option}'{nearest(option, known)}; expected one of: {listed}",
                    code="DG-FUNCTION-035",
                )


def derivatives(of: FunctionRow) -> list[FunctionRow]:
    """Return the rows of the products with a function's derivatives: λᵀ ∂outputs/∂inputs and ∂outputs/∂inputs · δ."""
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
    """Return the row of a function that is obtained by differentiating another function's graph."""
    return FunctionRow(name, tuple(inputs), tuple(outputs), of.forms, of.options, of.checks, of)
