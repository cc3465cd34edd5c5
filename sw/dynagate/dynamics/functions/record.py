"""A row of the function table: inputs and outputs with their shapes, and the algorithms that compute the function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.dynamics.functions import mimicking
from dynagate.dynamics.recursions import crba
from dynagate.dynamics.tree import Tree
from dynagate.robot import Robot, RobotError

CONFIGURATION, VECTOR, MATRIX, SYMMETRIC, FORCES = "configuration", "vector", "matrix", "symmetric", "forces"
SCALAR, POINT, POINTS, JACOBIANS, TURNS = "scalar", "point", "points", "jacobians", "turns"
ROTATION, TWIST, JACOBIAN, POINT_JACOBIAN = "rotation", "twist", "jacobian", "point_jacobian"
SWITCHES, ROWS, ROWS_BY_VECTOR = "switches", "rows", "rows_by_vector"
RATIOS, ROWS_BY_ROWS = "ratios", "rows_by_rows"


SCAN = "scan"
"""The form that is a loop over links."""
SCANS = {
    "inverse_dynamics": "newton_euler",
    "forward_dynamics": "aba",
    "inverse_mass_product": "aba",
    "inverse_dynamics_vjp": "newton_euler",
    "forward_dynamics_vjp": "aba",
    "inverse_mass_product_vjp": "aba",
    "constrained_forward_dynamics": "articulated",
}
"""Functions that have an algorithm over links, and the form that it has when it is unrolled."""


@dataclass(frozen=True)
class Argument:
    """An input or output of a function. kind: configuration (nq,), vector (nv,), matrix (nv, nv), symmetric (nv, nv),
    forces (links, 6), scalar (), point (3,), rotation (3, 3), twist (6,), jacobian (6, nv), point_jacobian (3, nv),
    points (links, 3), jacobians (links, 6, nv), turns (nv, 2), cosine and sine of each joint,
    switches (constraints,), 0 or 1 each, ratios (constraints,), rows (rows,), of all that the constraints hold,
    rows_by_vector (rows, nv), or rows_by_rows (rows, rows), symmetric.
    like: the input of the listed functions that has numbers of the same size, where the name is not one of theirs."""

    name: str
    kind: str
    like: str = ""

    def shape(self, robot: Robot) -> tuple[int, ...]:
        nv, links = robot.nv, len(robot.links)
        shapes: dict[str, tuple[int, ...]] = {
            CONFIGURATION: (robot.nq,),
            VECTOR: (nv,),
            MATRIX: (nv, nv),
            SYMMETRIC: (nv, nv),
            FORCES: (links, 6),
            SCALAR: (),
            POINT: (3,),
            ROTATION: (3, 3),
            TWIST: (6,),
            JACOBIAN: (6, nv),
            POINT_JACOBIAN: (3, nv),
            POINTS: (links, 3),
            JACOBIANS: (links, 6, nv),
            TURNS: (nv, 2),
            SWITCHES: (len(robot.constraints),),
            RATIOS: (len(robot.constraints),),
            ROWS: (robot.constraint_rows,),
            ROWS_BY_ROWS: (robot.constraint_rows, robot.constraint_rows),
            ROWS_BY_VECTOR: (robot.constraint_rows, nv),
        }
        return shapes[self.kind]

    def unit_vectors(self, robot: Robot) -> tuple[tuple[int, int], ...]:
        """Begin and end of the entries, in row-major order, that have length 1 together."""
        if self.kind == TURNS:
            return tuple((2 * d, 2 * d + 2) for d in range(robot.nv))
        return tuple((part.start, part.stop) for part in robot.quaternions()) if self.name == "q" else ()


Algorithm = Callable[..., Any]
TAU_OR_QDD = Argument("tau_or_qdd", VECTOR)
"""Input of functions together: τ in samples of a function that takes torques, q̈ in those of one that takes
accelerations."""
ACCELERATION = "frame_acceleration_"
"""Begins the functions that take accelerations and no forces."""
MASS_PRODUCT = "inverse_mass_product"
"""The function M⁻¹ τ, whose torques are those of no motion."""
CODE = Argument("function", SCALAR)
"""Input of functions together: the code of the sample's function."""
EXTERNAL = Argument("f_ext", FORCES)
"""Optional input: force on each link from outside, [moment; force] at the link's origin in the link's frame, in N m
and N."""


@dataclass(frozen=True)
class Part:
    """One of the functions that are computed together. code: of its samples, positive where it takes accelerations.
    inputs: its own inputs by name -> those of all together."""

    function: Function
    code: int
    inputs: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.function.name


@dataclass(frozen=True)
class Function:
    """One row of the function table. forms: the algorithms that compute it, by name, the default first.
    options: what the algorithms take besides their inputs, by form.
    checks: by form, what raises RobotError for robots that the form does not know.
    derivative_of: the function whose graph it is made from by differentiation (`graph.derived`); the forms are those of
    that function. parts: the functions that it computes together, each for samples of its own. at_once: those that it
    computes at one state."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    forms: dict[str, Algorithm]
    options: dict[str, tuple[str, ...]]
    checks: dict[str, Callable[[Tree], None]] = field(default_factory=dict)
    derivative_of: Function | None = None
    parts: tuple[Part, ...] = ()
    at_once: tuple[Function, ...] = ()

    def forms_for(self, robot: Robot) -> list[str]:
        """The forms that know this robot, the default first."""
        tree = Tree(robot)
        return [form for form in self.forms if self._knows(form, tree)]

    def _knows(self, form: str, tree: Tree) -> bool:
        try:
            self._check(form, tree)
        except RobotError:
            return False
        return True

    def _check(self, form: str, tree: Tree) -> None:
        """Raises RobotError: the form does not know the robot."""
        if tree.coupling and not self.at_once:
            mimicking.check(tree, (self.derivative_of or self).name, form, next(iter(self.forms)))
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
        """The inputs, f_ext last where asked for. Raises ValueError: forces do not enter this function."""
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
        tree = robot if isinstance(robot, Tree) else Tree(robot)
        form = form or next(iter(self.forms))
        self._check(form, tree)
        if self.needs_inverse:
            crba.check_invertible(tree)
        if len(inputs) > len(self.inputs):
            options["external"] = inputs[-1]
        own = inputs[: len(self.inputs)]
        if tree.coupling and not self.at_once:
            names = [argument.name for argument in self.inputs], [argument.name for argument in self.outputs]
            result = mimicking.results(tree, self.name, self.forms[form], names, own, options)
        else:
            result = self.forms[form](tree, *own, **options)
        return result if len(self.outputs) > 1 else (result,)

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


def arguments(names: str) -> tuple[Argument, ...]:
    """Inputs or outputs by their names, of which each has its kind."""
    kinds = {
        "q": CONFIGURATION,
        "q_next": CONFIGURATION,
        "qd_next": VECTOR,
        "minv": SYMMETRIC,
        "m": SYMMETRIC,
        "kinetic_energy": SCALAR,
        "potential_energy": SCALAR,
        "center_of_mass": POINT,
        "link_positions": POINTS,
        "link_jacobians": JACOBIANS,
        "frame_position": POINT,
        "frame_rotation": ROTATION,
        "frame_velocity": TWIST,
        "frame_jacobian": JACOBIAN,
        "frame_acceleration": TWIST,
        "frame_bias_acceleration": TWIST,
        "centroidal_momentum": TWIST,
        "centroidal_momentum_matrix": JACOBIAN,
        "center_of_mass_velocity": POINT,
        "center_of_mass_jacobian": POINT_JACOBIAN,
        **dict.fromkeys(("gravity_torque", "coriolis_torque", "bias_torque"), VECTOR),
        "active": SWITCHES,
        "restitution": RATIOS,
        "qd_after": VECTOR,
        "delassus": ROWS_BY_ROWS,
        **dict.fromkeys(("force", "acceleration", "constraint_drift", "lam_force", "jvp_force"), ROWS),
        **dict.fromkeys(("impulse", "lam_impulse", "jvp_impulse"), ROWS),
        **dict.fromkeys(("contact_jacobian", "dforce_dq", "dforce_dqd", "dforce_dtau"), ROWS_BY_VECTOR),
    }

    def kind(name: str) -> str:
        start = name.split("_")[0]
        return kinds.get(name, VECTOR if start in ("lam", "delta", "vjp", "jvp") or start == name else MATRIX)

    return tuple(Argument(name, kind(name)) for name in names.split())


def derivatives(of: Function, output: str) -> list[Function]:
    """Rows of products with a function's derivative: λᵀ ∂output/∂inputs, and ∂output/∂inputs · δ."""
    inputs = [argument.name for argument in of.inputs]
    state, directions = " ".join(inputs), " ".join(f"delta_{name}" for name in inputs)
    products = " ".join(f"vjp_{name}" for name in inputs)
    rows = [
        (f"{of.name}_vjp", f"{state} lam_{output}", f"{output} {products}"),
        (f"{of.name}_jvp", f"{state} {directions}", f"{output} jvp_{output}"),
    ]
    return [derivative(of, *row) for row in rows]


def derivative(of: Function, name: str, inputs: str, outputs: str) -> Function:
    """The row of a function that is made from another one's graph."""
    return Function(name, arguments(inputs), arguments(outputs), of.forms, of.options, of.checks, of)
