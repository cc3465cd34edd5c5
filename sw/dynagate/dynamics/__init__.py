"""Rigid-body algorithms as plain mathematics over any scalar, and the functions of one robot that they make.

`FUNCTIONS` is the one list of what can be traced, evaluated and built: names, inputs and outputs with their shapes.
`CONSTRAINED` has those of robots with constraints.
"""

from __future__ import annotations

import hashlib
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.nearest import nearest
from dynagate.dynamics import (
    articulated,
    body_columns,
    constrained,
    constrained_links,
    constraint_forces,
    coupled,
    forward_dynamics,
    gradients,
    inverse_dynamics,
    kinematics,
    mass_matrix,
    momentum,
    named_frames,
    serial,
    step,
)
from dynagate.dynamics.options import OF_ROLLOUTS, AlgorithmOptions
from dynagate.dynamics.parameters import COUNT
from dynagate.dynamics.spatial import array
from dynagate.dynamics.together import State, Together
from dynagate.dynamics.tree import Tree
from dynagate.robot import Robot, RobotError

CONFIGURATION, VECTOR, MATRIX, SYMMETRIC, FORCES = "configuration", "vector", "matrix", "symmetric", "forces"
SCALAR, POINT, POINTS, JACOBIANS, TURNS = "scalar", "point", "points", "jacobians", "turns"
ROTATION, TWIST, JACOBIAN, POINT_JACOBIAN = "rotation", "twist", "jacobian", "point_jacobian"
PARAMETERS = "parameters"
SWITCHES, ROWS, ROWS_BY_VECTOR = "switches", "rows", "rows_by_vector"
RATIOS, ROWS_BY_ROWS = "ratios", "rows_by_rows"


@dataclass(frozen=True)
class Argument:
    """An input or output of a function. kind: configuration (nq,), vector (nv,), matrix (nv, nv), symmetric (nv, nv),
    forces (links, 6), scalar (), point (3,), rotation (3, 3), twist (6,), jacobian (6, nv), point_jacobian (3, nv),
    points (links, 3), jacobians (links, 6, nv), turns (nv, 2), cosine and sine of each joint, parameters (10,),
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
            PARAMETERS: (COUNT,),
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


def parameters_input(link: str) -> Argument:
    """The inertial parameters of a variable link."""
    return Argument(link, PARAMETERS)


Algorithm = Callable[..., Any]
TAU_OR_QDD = Argument("tau_or_qdd", VECTOR)
"""Input of functions together: τ in samples of a function that takes torques, q̈ in those of one that takes
accelerations."""
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

    name: str
    code: int
    inputs: tuple[tuple[str, str], ...]

    @property
    def function(self) -> Function:
        return FUNCTIONS[self.name]


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
    derivative_of: str = ""
    parts: tuple[Part, ...] = ()
    at_once: tuple[str, ...] = ()

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
            coupled.check(tree, self.derivative_of or self.name, form, next(iter(self.forms)))
        if form in self.checks:
            self.checks[form](tree)

    @property
    def needs_inverse(self) -> bool:
        """Whether the algorithms divide by what resists each joint."""
        outputs = LISTED[self.derivative_of].outputs if self.derivative_of else self.outputs
        return not {"qdd", "minv", "qd_next", "qd_after", "delassus"}.isdisjoint(argument.name for argument in outputs)

    @property
    def takes_external_forces(self) -> bool:
        if self.at_once:
            return any(function(name).takes_external_forces for name in self.at_once)
        moves = not {"qdd", "tau", TAU_OR_QDD.name}.isdisjoint(argument.name for argument in self.inputs)
        return moves and not self.name.startswith((ACCELERATION, MASS_PRODUCT))

    @property
    def takes_friction(self) -> bool:
        """Whether the results depend on what joints take of torques: where external forces matter too, and of the bias
        torques."""
        return self.takes_external_forces or "bias_torque" in [argument.name for argument in self.outputs]

    def check_friction(self) -> None:
        """Raises ValueError: friction does not enter this function."""
        if not self.takes_friction:
            raise ArgumentError(f"{self.name} does not depend on friction; expected the option left out")

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
            mass_matrix.check_invertible(tree)
        if len(inputs) > len(self.inputs):
            options["external"] = inputs[-1]
        own = inputs[: len(self.inputs)]
        if tree.coupling and not self.at_once:
            names = [argument.name for argument in self.inputs], [argument.name for argument in self.outputs]
            result = coupled.results(tree, self.name, self.forms[form], names, own, options)
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


def _arguments(names: str) -> tuple[Argument, ...]:
    kinds = {
        "q": CONFIGURATION,
        "q_next": CONFIGURATION,
        "qd_next": VECTOR,
        "minv": SYMMETRIC,
        "m": SYMMETRIC,
        "kinetic_energy": SCALAR,
        "potential_energy": SCALAR,
        "centre_of_mass": POINT,
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
        "centre_of_mass_velocity": POINT,
        "centre_of_mass_jacobian": POINT_JACOBIAN,
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


def _derivatives(of: Function, output: str) -> list[Function]:
    """Rows of products with a function's derivative: λᵀ ∂output/∂inputs, and ∂output/∂inputs · δ."""
    inputs = [argument.name for argument in of.inputs]
    state, directions = " ".join(inputs), " ".join(f"delta_{name}" for name in inputs)
    products = " ".join(f"vjp_{name}" for name in inputs)
    rows = [
        (f"{of.name}_vjp", f"{state} lam_{output}", f"{output} {products}"),
        (f"{of.name}_jvp", f"{state} {directions}", f"{output} jvp_{output}"),
    ]
    return [_derivative(of, *row) for row in rows]


def _derivative(of: Function, name: str, inputs: str, outputs: str) -> Function:
    return Function(name, _arguments(inputs), _arguments(outputs), of.forms, of.options, of.checks, of.name)


def _gradient_by_columns(tree: Tree, q: Any, qd: Any, qdd: Any, minv: Any, external: Any = None) -> tuple[Any, ...]:
    return gradients.solved_for_acceleration(minv, *body_columns.inverse_dynamics_gradient(tree, q, qd, qdd, external))


def _whole_gradient_by_columns(tree: Tree, q: Any, qd: Any, tau: Any, external: Any = None) -> tuple[Any, ...]:
    """Everything on chip in body frames: direct M⁻¹, q̈ from it, then the columns."""
    minv = articulated.mass_matrix_inverse(tree, q)
    bias = inverse_dynamics.inverse_dynamics(tree, q, qd, [0.0] * tree.nv, external)
    qdd = list(minv @ array([t - b for t, b in zip(tau, bias, strict=True)]))
    return qdd, *_gradient_by_columns(tree, q, qd, qdd, minv, external), minv


_KINEMATICS: list[tuple[str, str, Algorithm]] = [
    ("kinetic_energy", "q qd", kinematics.kinetic_energy),
    ("potential_energy", "q", kinematics.potential_energy),
    ("centre_of_mass", "q", kinematics.centre_of_mass),
    ("link_positions", "q", kinematics.link_positions),
    ("link_jacobians", "q", kinematics.link_jacobians),
]
FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in [
        Function(
            "inverse_dynamics",
            _arguments("q qd qdd"),
            _arguments("tau"),
            {
                "newton_euler": inverse_dynamics.inverse_dynamics,
                "spatial": body_columns.inverse_dynamics,
                "prefix": serial.inverse_dynamics,
            },
            {},
            {"prefix": serial.check_serial},
        ),
        Function(
            "mass_matrix",
            _arguments("q"),
            _arguments("m"),
            {"composite_bodies": mass_matrix.mass_matrix},
            {},
        ),
        Function(
            "mass_matrix_inverse",
            _arguments("q"),
            _arguments("minv"),
            {
                "ltdl": mass_matrix.mass_matrix_inverse,
                "direct": articulated.mass_matrix_inverse,
            },
            {},
        ),
        Function(
            "forward_dynamics",
            _arguments("q qd tau"),
            _arguments("qdd"),
            {
                "mass_matrix_solve": forward_dynamics.forward_dynamics,
                "aba": articulated.forward_dynamics,
                "jsiia": serial.by_joint_space_inertia,
                "abia": serial.by_articulated_inertia,
                "cfa": constraint_forces.forward_dynamics,
            },
            {},
            {
                "jsiia": serial.check_serial,
                "abia": serial.check_serial,
                "cfa": constraint_forces.check_bodies,
            },
        ),
        Function(
            MASS_PRODUCT,
            _arguments("q tau"),
            _arguments("qdd"),
            {"aba": articulated.inverse_mass_product},
            {},
        ),
        Function(
            "step",
            _arguments("q qd tau"),
            _arguments("q_next qd_next"),
            step.FORMS,
            dict.fromkeys(step.FORMS, ("dt", "integrator")),
        ),
        Function(
            "inverse_dynamics_gradient",
            _arguments("q qd qdd"),
            _arguments("dtau_dq dtau_dqd"),
            {
                "closed_form": gradients.inverse_dynamics_gradient,
                "body_columns": body_columns.inverse_dynamics_gradient,
            },
            {"closed_form": ("frame", "prefix")},
        ),
        Function(
            "forward_dynamics_gradient",
            _arguments("q qd tau"),
            _arguments("qdd dqdd_dq dqdd_dqd minv"),
            {
                "closed_form": gradients.forward_dynamics_gradient,
                "body_columns": _whole_gradient_by_columns,
            },
            {"closed_form": ("frame", "mass", "prefix")},
        ),
        Function(
            "forward_dynamics_gradient_given_minv",
            _arguments("q qd qdd minv"),
            _arguments("dqdd_dq dqdd_dqd"),
            {"closed_form": gradients.forward_dynamics_gradient_given_minv, "body_columns": _gradient_by_columns},
            {"closed_form": ("frame", "prefix")},
        ),
        *(
            Function(name, _arguments(inputs), _arguments(name), {"recursive": f}, {})
            for name, inputs, f in _KINEMATICS
        ),
    ]
}
"""The functions of a robot by name: inputs and outputs with their shapes, and the forms of each."""


FUNCTIONS |= {
    f.name: f
    for f in [
        *_derivatives(FUNCTIONS["inverse_dynamics"], "tau"),
        *_derivatives(FUNCTIONS["forward_dynamics"], "qdd"),
        *_derivatives(FUNCTIONS[MASS_PRODUCT], "qdd"),
        _derivative(
            FUNCTIONS["forward_dynamics"],
            "forward_dynamics_second_order",
            "q qd tau lam_qdd",
            "qdd d2_dq_dq d2_dq_dqd d2_dqd_dqd d2_dq_dtau",
        ),
    ]
}


_CONSTRAINED = Function(
    "constrained_forward_dynamics",
    _arguments("q qd tau active"),
    _arguments("qdd force"),
    {
        "blocks": constrained.forward_dynamics,
        "single_pivots": partial(constrained.forward_dynamics, pivots=1),
        "articulated": constrained_links.forward_dynamics,
    },
    {},
    {
        **dict.fromkeys(("blocks", "single_pivots"), constrained.check_independent),
        "articulated": constrained.check_articulated,
    },
)
_CONSTRAINED_INVERSE = Function(
    "constrained_inverse_dynamics",
    _arguments("q qd qdd active"),
    _arguments("tau force"),
    {"least_forces": constrained.inverse_dynamics},
    {},
    {"least_forces": constrained.check_any},
)
_IMPACT = Function(
    "impact",
    _arguments("q qd active restitution"),
    _arguments("qd_after impulse"),
    {"blocks": constrained.impact, "single_pivots": partial(constrained.impact, pivots=1)},
    {},
    dict.fromkeys(("blocks", "single_pivots"), constrained.check_independent),
)
CONSTRAINED: dict[str, Function] = {
    f.name: f
    for f in [
        _CONSTRAINED,
        _derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_vjp",
            "q qd tau active lam_qdd lam_force",
            "qdd force vjp_q vjp_qd vjp_tau",
        ),
        _derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_jvp",
            "q qd tau active delta_q delta_qd delta_tau",
            "qdd force jvp_qdd jvp_force",
        ),
        _derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_gradient",
            "q qd tau active",
            "qdd force dqdd_dq dqdd_dqd dqdd_dtau dforce_dq dforce_dqd dforce_dtau",
        ),
        _CONSTRAINED_INVERSE,
        _derivative(
            _CONSTRAINED_INVERSE,
            "constrained_inverse_dynamics_vjp",
            "q qd qdd active lam_tau lam_force",
            "tau force vjp_q vjp_qd vjp_qdd",
        ),
        _derivative(
            _CONSTRAINED_INVERSE,
            "constrained_inverse_dynamics_jvp",
            "q qd qdd active delta_q delta_qd delta_qdd",
            "tau force jvp_tau jvp_force",
        ),
        _IMPACT,
        _derivative(
            _IMPACT,
            "impact_vjp",
            "q qd active restitution lam_qd_after lam_impulse",
            "qd_after impulse vjp_q vjp_qd",
        ),
        _derivative(
            _IMPACT,
            "impact_jvp",
            "q qd active restitution delta_q delta_qd",
            "qd_after impulse jvp_qd_after jvp_impulse",
        ),
        *(
            Function(name, _arguments(inputs), _arguments(name), {form: f}, {}, {form: constrained.check_any})
            for name, inputs, form, f in (
                ("delassus", "q", "ltdl", constrained.delassus),
                ("constraint_drift", "q qd", "newton_euler", constrained.drift),
            )
        ),
        Function(
            "contact_jacobian",
            _arguments("q"),
            _arguments("contact_jacobian"),
            {"named_frames": constrained.contact_jacobian},
            {},
            {"named_frames": constrained.check_any},
        ),
    ]
}
"""Functions of robots with constraints (`Robot.with_contact`, `Robot.with_loop`), by name."""

CONSTRAINED_SOLUTION = Function(
    "constrained_solution",
    _arguments("q qd tau active acceleration"),
    _CONSTRAINED.outputs,
    _CONSTRAINED.forms,
    {},
    _CONSTRAINED.checks,
)
"""`constrained_forward_dynamics` with accelerations that the frames are to have, for its derivatives."""
CONSTRAINED_RESIDUAL = Function(
    "constrained_residual",
    _arguments("q qd qdd force"),
    _arguments("tau acceleration"),
    {"newton_euler": constrained.residual},
    {},
)
"""What is left of the equations that it solves, to be differentiated."""

QUANTITIES: dict[str, Function] = {
    name: Function(name, _arguments(inputs), _arguments(name), {"recursive": algorithm}, {})
    for name, inputs, algorithm in (
        ("gravity_torque", "q", momentum.gravity_torque),
        ("coriolis_torque", "q qd", momentum.coriolis_torque),
        ("bias_torque", "q qd", momentum.bias_torque),
        ("centroidal_momentum", "q qd", momentum.centroidal_momentum),
        ("centroidal_momentum_matrix", "q", momentum.centroidal_momentum_matrix),
        ("centre_of_mass_velocity", "q qd", momentum.centre_of_mass_velocity),
        ("centre_of_mass_jacobian", "q", momentum.centre_of_mass_jacobian),
    )
}
"""What controllers ask for besides, by name."""

LISTED: Mapping[str, Function] = ChainMap(CONSTRAINED, QUANTITIES, FUNCTIONS)
"""All functions that have a name of their own, those that know every robot first."""


TOGETHER = (
    "inverse_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "forward_dynamics",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
)
"""Functions that can be computed together, and are under the name `ALL`."""
ALL = "all"
ROLLOUT = "rollout"
"""A step whose state stays on the chip, turn after turn: a function of designs."""
_TURN = Function(
    ROLLOUT,
    _arguments("q qd tau"),
    _arguments("q_next qd_next"),
    step.FORMS,
    dict.fromkeys(step.FORMS, ("dt", "integrator", *OF_ROLLOUTS)),
)


ALIASES = {
    "rnea": "inverse_dynamics",
    "nle": "bias_torque",
    "ccrba": "centroidal_momentum_matrix",
    "crba": "mass_matrix",
    "aba": "forward_dynamics",
    "center_of_mass": "centre_of_mass",
    "com": "centre_of_mass",
    "com_jacobian": "centre_of_mass_jacobian",
    "minv": "mass_matrix_inverse",
}
"""Names that people type -> the functions that they mean. `aba` is the function, in its first form; the form of this
name is an option."""


def function(name: str | Sequence[str]) -> Function:
    """The function with this name, or with one of ALIASES; several names with commas between them, or "all", are
    functions together, each for samples of its own; several names in a list, or with + between them, are one function
    that computes all at one state; FRAME_FUNCTIONS with _ and a frame's name are of that frame (`Robot.frame`). Raises
    ValueError that lists the names; TypeError: it is no name."""
    if not isinstance(name, str):
        if not (isinstance(name, Sequence) and name and all(isinstance(each, str) for each in name)):
            raise ArgumentTypeError(f"function {shown(name)}; expected the name of one, or a list of names")
        return function(name[0]) if len(name) == 1 else functions_at_once(tuple(name))
    pieces = _at_once().split(name)
    if len(pieces) > 1 or name in _CUT:
        return functions_at_once(tuple(pieces))
    name = ALIASES.get(name, name)
    for row in FRAME_FUNCTIONS:
        if name.startswith(f"{row}_") and "," not in name:
            return _frame_function(row, name.removeprefix(f"{row}_"))
    if name == ALL or "," in name:
        return functions_together(TOGETHER if name == ALL else name.split(","))
    if name == ROLLOUT:
        return _TURN
    if name not in LISTED:
        near = nearest(name, [*LISTED, *ALIASES, ALL, ROLLOUT, *FRAME_FUNCTIONS])
        raise ArgumentError(
            f"no function '{name}'{near}; expected one of {', '.join(LISTED)}, several of them, '{ALL}', '{ROLLOUT}', "
            f"or {', '.join(FRAME_FUNCTIONS)} with _ and the name of a frame; or some of them with + between"
        )
    return LISTED[name]


AND = "_and_"
"""Between the names of functions at one state, in the name of all: a part of an identifier, as + is not."""


@lru_cache(maxsize=1)
def _at_once() -> re.Pattern[str]:
    """What is between functions at one state: +, or AND before the name of another function."""
    return re.compile(rf"\+|{AND}(?=(?:{'|'.join([*LISTED, *ALIASES])})(?:{AND}|$)|(?:{'|'.join(FRAME_FUNCTIONS)})_)")


LONGEST = 180
"""Letters of the name of functions at one state that still fit the name of a file. A longer one is cut and has a number
that tells it from others."""
_CUT: dict[str, tuple[str, ...]] = {}
"""Names that were cut, in this process -> the functions."""


@lru_cache(maxsize=256)
def functions_at_once(names: tuple[str, ...]) -> Function:
    """The row of functions that are computed at one state, in one graph: inputs and outputs are those of all, outputs
    of a frame with _ and its name behind theirs. Raises ValueError: a name is unknown or there twice, is of a function
    that is made by differentiation or of several, or one's output is another one's input."""
    if AND.join(names) in _CUT:
        names = _CUT[AND.join(names)]
    rows = [function(name) for name in names]
    for row in rows:
        if row.derivative_of or row.parts or row.name == ROLLOUT or row.name in CONSTRAINED:
            raise ArgumentError(f"{row.name} cannot be computed at one state with others; expected a call of its own")
        if [other.name for other in rows].count(row.name) > 1:
            raise ArgumentError(f"{row.name} is named twice; expected each function once")
    inputs = {argument.name: argument for row in rows for argument in row.inputs}
    results = [_outputs_at_once(row) for row in rows]
    for row, own in zip(rows, results, strict=True):
        for argument in own:
            if argument.name in inputs:
                taker = next(r.name for r in rows if argument.name in [a.name for a in r.inputs])
                raise ArgumentError(f"{row.name} gives {argument.name}, which {taker} takes; expected a call of each")
    outputs = {argument.name: argument for own in results for argument in own}
    ordered = [inputs.pop(name) for name in ("q", "qd", "qdd", "tau") if name in inputs] + list(inputs.values())

    def at_once(tree: Tree, *values: Any, external: Any = None) -> Any:
        state = dict(zip((argument.name for argument in ordered), values, strict=True))
        by_name: dict[str, Any] = {}
        for row, own in zip(rows, results, strict=True):
            taken = [state[argument.name] for argument in row.inputs]
            taken += [external] if external is not None and row.takes_external_forces else []
            by_name |= dict(zip((argument.name for argument in own), row(tree, *taken), strict=True))
        answers = tuple(by_name[name] for name in outputs)
        return answers if len(answers) > 1 else answers[0]

    name = AND.join(row.name for row in rows)
    if len(name) > LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        name = f"{name[:LONGEST].rpartition('_')[0]}_{digest}"
        _CUT[name] = tuple(row.name for row in rows)
    return Function(
        name,
        tuple(ordered),
        tuple(outputs.values()),
        {"at_once": at_once},
        {},
        at_once=tuple(row.name for row in rows),
    )


def _outputs_at_once(row: Function) -> list[Argument]:
    """The outputs of a function beside those of others: those of a frame with its name."""
    for prefix in sorted(FRAME_FUNCTIONS, key=len, reverse=True):
        if row.name.startswith(f"{prefix}_"):
            return [replace(a, name=f"{a.name}_{row.name.removeprefix(f'{prefix}_')}") for a in row.outputs]
    return list(row.outputs)


FRAME_FUNCTIONS: dict[str, tuple[str, str, Algorithm]] = {
    "frame_pose": ("q", "frame_position frame_rotation", named_frames.pose),
    "frame_velocity": ("q qd", "frame_velocity", named_frames.velocity),
    "frame_jacobian": ("q", "frame_jacobian", named_frames.jacobian),
    "frame_acceleration": ("q qd qdd", "frame_acceleration", named_frames.acceleration),
    "frame_bias_acceleration": ("q qd", "frame_bias_acceleration", named_frames.bias_acceleration),
}
"""Functions of one frame, whose name follows theirs, as in frame_pose_tool0."""
ACCELERATION = "frame_acceleration_"
"""Begins the functions that take accelerations and no forces."""
LONGEST_FRAME = 100
"""Letters of a frame's name that still fit the name of a file."""


@lru_cache(maxsize=64)
def _frame_function(row: str, frame: str) -> Function:
    """Raises ValueError: the name cannot be part of an identifier."""
    if not (frame.isascii() and f"_{frame}".isidentifier() and len(frame) <= LONGEST_FRAME):
        raise ArgumentError(
            f"frame '{frame}' cannot be part of a function's name; give it one of up to {LONGEST_FRAME} letters, "
            f"digits and _ by robot.with_frame('name', on='{frame}')"
        )
    inputs, outputs, algorithm = FRAME_FUNCTIONS[row]
    return Function(
        f"{row}_{frame}",
        _arguments(inputs),
        _arguments(outputs),
        {"recursive": partial(algorithm, name=frame)},
        {},
        {"recursive": partial(named_frames.check, name=frame)},
    )


def functions_together(names: Sequence[str]) -> Function:
    """The row of several functions whose samples share one graph. Raises ValueError: a name is unknown, occurs twice,
    or is of a function that cannot be computed with others."""
    names = [function(name).name for name in names]
    for name in names:
        if name not in TOGETHER:
            raise ArgumentError(
                f"{name} cannot be computed with others; expected some of {', '.join(TOGETHER)}, or + instead of "
                "commas: all at one state"
            )
        if names.count(name) > 1:
            raise ArgumentError(f"{name} is named {names.count(name)} times; expected each function once")
    rows = [FUNCTIONS[name] for name in TOGETHER if name in names]
    if len(rows) == 1:
        return rows[0]
    takes = [{argument.name for argument in row.inputs} for row in rows]
    both = any("qdd" in own for own in takes) and any("tau" in own for own in takes)
    parts, inputs, outputs = [], dict[str, Argument](), dict[str, Argument]()
    codes = {True: iter(range(1, len(rows) + 1)), False: iter(range(0, -len(rows), -1))}
    for row in rows:
        own = {a.name: TAU_OR_QDD if both and a.name in ("tau", "qdd") else a for a in row.inputs}
        parts.append(Part(row.name, next(codes["qdd" in own]), tuple((name, own[name].name) for name in own)))
        inputs |= {argument.name: argument for argument in own.values()}
        outputs |= {argument.name: argument for argument in row.outputs}
    ordered = [inputs[name] for name in ("q", "qd", "qdd", "tau", TAU_OR_QDD.name) if name in inputs]
    names_of_inputs = (*(argument.name for argument in ordered), CODE.name)

    def together(tree: Tree, *values: Any, external: Any = None, **options: Any) -> tuple[Any, ...]:
        by_name: dict[str, Any] = dict(zip(names_of_inputs, values, strict=True))
        either = by_name.get(TAU_OR_QDD.name)
        state = State(
            by_name["q"],
            by_name.get("qd"),
            by_name.get("tau", either),
            by_name.get("qdd", either),
            None if either is None else by_name[CODE.name],
            external,
        )
        return tuple(Together(tree, state, tuple(outputs), **options).results())

    return Function(
        ALL if len(rows) == len(TOGETHER) else ",".join(row.name for row in rows),
        (*ordered, CODE),
        tuple(outputs.values()),
        {"together": together},
        {"together": ("frame", "prefix")},
        parts=tuple(parts),
    )


__all__ = [
    "ALIASES",
    "ALL",
    "CODE",
    "CONSTRAINED",
    "CONSTRAINED_RESIDUAL",
    "CONSTRAINED_SOLUTION",
    "EXTERNAL",
    "FRAME_FUNCTIONS",
    "FUNCTIONS",
    "LISTED",
    "QUANTITIES",
    "ROLLOUT",
    "SWITCHES",
    "TAU_OR_QDD",
    "TOGETHER",
    "AlgorithmOptions",
    "Argument",
    "Function",
    "Part",
    "Tree",
    "function",
    "parameters_input",
]
