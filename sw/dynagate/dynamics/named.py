"""What the name of a function means: one that is listed, several of them, or one of a frame."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.nearest import suggested
from dynagate.dynamics import named_frames, step
from dynagate.dynamics.constrained_functions import CONSTRAINED
from dynagate.dynamics.function_row import CODE, TAU_OR_QDD, Algorithm, Argument, Function, Part, arguments
from dynagate.dynamics.listed import FUNCTIONS, LISTED
from dynagate.dynamics.options import OF_ROLLOUTS
from dynagate.dynamics.together import State, Together
from dynagate.dynamics.tree import Tree

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
    arguments("q qd tau"),
    arguments("q_next qd_next"),
    step.FORMS,
    dict.fromkeys(step.FORMS, (*step.OPTIONS, *OF_ROLLOUTS)),
)


ALIASES = {
    "rnea": "inverse_dynamics",
    "nle": "bias_torque",
    "ccrba": "centroidal_momentum_matrix",
    "crba": "mass_matrix",
    "aba": "forward_dynamics",
    "center_of_mass": "center_of_mass",
    "com": "center_of_mass",
    "com_jacobian": "center_of_mass_jacobian",
    "minv": "mass_matrix_inverse",
}
"""Names that people type -> the functions that they mean. `aba` is the function, in its first form; the form of this
name is an option."""


MEANT = {
    "fk": "frame_pose_FRAME",
    "forwardkinematics": "frame_pose_FRAME",
    "framesforwardkinematics": "frame_pose_FRAME",
    "updateframeplacements": "frame_pose_FRAME",
    "updateframeplacement": "frame_pose_FRAME",
    "jacobian": "frame_jacobian_FRAME",
    "computejointjacobians": "link_jacobians",
    "getjointjacobian": "link_jacobians",
    "computeframejacobian": "frame_jacobian_FRAME",
    "getframejacobian": "frame_jacobian_FRAME",
    "getframevelocity": "frame_velocity_FRAME",
    "getframeacceleration": "frame_acceleration_FRAME",
    "gravity": "gravity_torque",
    "computegeneralizedgravity": "gravity_torque",
    "coriolis": "coriolis_torque",
    "computecoriolismatrix": "coriolis_torque",
    "nonlineareffects": "bias_torque",
    "bias": "bias_torque",
    "inertia": "mass_matrix",
    "computeminverse": "mass_matrix_inverse",
    "computeabaderivatives": "forward_dynamics_gradient",
    "computerneaderivatives": "inverse_dynamics_gradient",
    "computekineticenergy": "kinetic_energy",
    "computepotentialenergy": "potential_energy",
    "jacobiancenterofmass": "center_of_mass_jacobian",
    "computecentroidalmomentum": "centroidal_momentum",
    "id": "inverse_dynamics",
    "fd": "forward_dynamics",
    "constraintdynamics": "constrained_forward_dynamics",
}
"""Names of Pinocchio's functions and of textbooks, in lower case without _, -> what is called so here, for errors."""


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
        names = suggested(name, [*LISTED, *ALIASES, ALL, ROLLOUT, *(f"{row}_FRAME" for row in FRAME_FUNCTIONS)], MEANT)
        near = f" (did you mean {' or '.join(repr(each) for each in names)}?)" if names else ""
        raise ArgumentError(
            f"no function {shown(name)}{near}; expected one of {', '.join(TOGETHER)}, or another one of the table in "
            "docs/functions.md, which dynagate.dynamics.LISTED holds"
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


def full_name(name: str) -> str:
    """Return the name of a function from which any process can make the function again: a cut name in full."""
    return AND.join(_CUT[name]) if name in _CUT else name


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
        at_once=tuple(rows),
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
        arguments(inputs),
        arguments(outputs),
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
        parts.append(Part(row, next(codes["qdd" in own]), tuple((name, own[name].name) for name in own)))
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
