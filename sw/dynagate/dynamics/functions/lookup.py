"""Look up a function by its name: a listed function, several functions computed together, or a function of a frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.nearest import suggested
from dynagate.dynamics.functions.aliases import ELSEWHERE, WITH_FRAME, accepted, plain
from dynagate.dynamics.functions.constrained import CONSTRAINED
from dynagate.dynamics.functions.function_table import FUNCTIONS, LISTED
from dynagate.dynamics.functions.record import CODE, TAU_OR_QDD, Algorithm, FunctionPart, FunctionRow
from dynagate.dynamics.functions.spaces import Argument, arguments
from dynagate.dynamics.functions.together import SampleState, Together
from dynagate.dynamics.recursions import frames
from dynagate.dynamics.steps import step
from dynagate.dynamics.tree import Tree
from dynagate.robot.parts import Frame, Link

TOGETHER = (
    "inverse_dynamics",
    "mass_matrix",
    "mass_matrix_inverse",
    "forward_dynamics",
    "inverse_dynamics_gradient",
    "forward_dynamics_gradient",
)
"""Functions that can be computed together with each sample selecting one of them. `ALL` stands for all of these."""
ALL = "all"
"""Name that stands for every function of `TOGETHER`."""
ROLLOUT = "rollout"
"""Name of a function of designs: a simulation step whose state stays on the chip between steps."""
_TURN = FunctionRow(
    ROLLOUT,
    arguments("q qd tau"),
    arguments("q_next qd_next"),
    step.FORMS,
    dict.fromkeys(step.FORMS, (*step.OPTIONS, *step.ROLLOUT_OPTIONS, "forces")),
    mimicking=FUNCTIONS["step"].mimicking,
)


MOTION_CALLS = {ROLLOUT: "dynagate.Rollout(robot, ...)", "ilqr": "dynagate.ilqr(...)", "mppi": "dynagate.mppi(...)"}
"""Python calls for motions, by the name of the command-line function."""
SOLVER_HINTS = dict.fromkeys(
    ("inversekinematics", "ik", "solveik"),
    "inverse kinematics is a solver; write dynagate.inverse_kinematics(robot, frames=['NAME']), and for its design "
    "dynagate.hw.ChipIk",
)
"""Hints for names that users search for among the functions, by name without case and signs."""


def requested(name: str | Sequence[str], *, of_design: bool = False, per_sample: bool = False) -> FunctionRow:
    """Return the function that a Python call requests, by one name or a list of names.

    Args:
        name: Name of a function here, or of the same function in Pinocchio, MuJoCo or a textbook (`aliases.ELSEWHERE`).
            The functions in a list are computed together, at one state.
        of_design: Whether a design computes the function, so that "rollout" is a function too.
        per_sample: Whether each sample selects one function of the list, instead of computing all of them.

    Raises:
        ArgumentError: There is no such function; or only the command line has the name: several functions in one
            text, or the name of a motion or solver.
        ArgumentTypeError: The argument is neither a name nor a list of names.
    """
    names = [name] if isinstance(name, str) else name
    if not (isinstance(names, Sequence) and names and all(isinstance(each, str) for each in names)):
        raise ArgumentTypeError(
            f"function {shown(name)}; expected the name of a function, or a list of names", code="DG-FUNCTION-011"
        )
    for each in names:
        if each == ALL or "," in each or "+" in each:
            several = TOGETHER if each == ALL else re.split(r"\s*[,+]\s*", each)
            raise ArgumentError(
                f"function {shown(each)} is for the command line; write a list: {list(several)}", code="DG-FUNCTION-012"
            )
        if each in MOTION_CALLS and not (each == ROLLOUT and of_design):
            raise ArgumentError(
                f"function '{each}' computes motions; write {MOTION_CALLS[each]}", code="DG-FUNCTION-013"
            )
    if per_sample and len(names) > 1:
        return functions_together(names)
    return function(names[0]) if len(names) == 1 else functions_at_once(tuple(names))


def check_named(function: str | Sequence[str], of_design: bool = False) -> None:
    """Raise an error if there is no function with these names, like `requested`. Names of frames may be missing."""
    names = [function] if isinstance(function, str) else function
    if isinstance(names, Sequence):
        names = [f"{each}_{PLACEHOLDER}" if each in FRAME_FUNCTIONS else each for each in names]
    requested(names, of_design=of_design)


def of_frame(name: Any, frame: Any) -> tuple[Any, Any]:
    """Append the name of a frame to the requested functions that need one.

    Args:
        name: Name of a function, or a list of names, as `requested` accepts it. The name of the frame may be missing.
        frame: Name of a frame or link of the robot, or the frame or link itself, for functions of a frame. For other
            functions, the expression frame of gradients, or None.

    Returns:
        The names with that of the frame, and the expression frame of gradients that remains.

    Raises:
        ArgumentError: A function of a frame has no frame, or two.
        ArgumentTypeError: The frame is neither a name nor a frame.
    """
    names = [name] if isinstance(name, str) else name
    if not (isinstance(names, Sequence) and all(isinstance(each, str) for each in names)):
        return name, frame  # `requested` raises the error
    if frame is not None:
        names = [each if each in LISTED else WITH_FRAME.get(plain(each), each) for each in names]
    bare = next((each for each in names if each in FRAME_FUNCTIONS), None)
    if bare is None:
        named = next((each for each in names if each.startswith(_OF_FRAMES)), None)
        if named is not None and frame is not None:
            raise ArgumentError(
                f"function '{named}' with frame={shown(frame)}; expected the frame once", code="DG-FUNCTION-014"
            )
        return name, frame
    if frame is None:
        raise ArgumentError(
            f"function '{bare}' without a frame; expected frame='NAME', the name of a frame or link",
            code="DG-FUNCTION-015",
        )
    own = frame.name if isinstance(frame, Frame | Link) else frame
    if not (isinstance(own, str) and own):
        raise ArgumentTypeError(
            f"frame={shown(frame)} of '{bare}'; expected the name of a frame or link", code="DG-FUNCTION-016"
        )
    framed = [f"{each}_{own}" if each in FRAME_FUNCTIONS else each for each in names]
    return (framed[0] if isinstance(name, str) else framed), None


def function(name: str | Sequence[str]) -> FunctionRow:
    """Return the row of a function by its name, as the command line and design.json write it.

    Args:
        name: A name here, or an accepted name of the same function elsewhere (`aliases.ELSEWHERE`). With commas between
            names, or "all", each sample selects one function. In a list, or with + between names, all are computed
            at one state. FRAME_FUNCTIONS followed by _ and the name of a frame are functions of that frame
            (`Robot.frame`).

    Raises:
        ArgumentError: There is no such function; the message lists the names.
        ArgumentTypeError: The argument is not a name.
    """
    if not isinstance(name, str):
        if not (isinstance(name, Sequence) and name and all(isinstance(each, str) for each in name)):
            raise ArgumentTypeError(
                f"function {shown(name)}; expected the name of one, or a list of names", code="DG-FUNCTION-017"
            )
        return function(name[0]) if len(name) == 1 else functions_at_once(tuple(name))
    pieces = _at_once().split(name)
    if len(pieces) > 1:
        return functions_at_once(tuple(pieces))
    for row in FRAME_FUNCTIONS:
        if name.startswith(f"{row}_") and "," not in name:
            return _frame_function(row, name.removeprefix(f"{row}_"))
    if name == ALL or "," in name:
        return functions_together(TOGETHER if name == ALL else name.split(","))
    if name == ROLLOUT:
        return _TURN
    name = name if name in LISTED else accepted(name)
    if name not in LISTED:
        raise ArgumentError(f"no function {shown(name)}{_hint(name)}", code="DG-FUNCTION-018")
    return LISTED[name]


def _hint(name: str) -> str:
    """Return the hint of an error about an unknown function: the most similar name, and where to find all names."""
    if plain(name) in SOLVER_HINTS:
        return f"; {SOLVER_HINTS[plain(name)]}"
    known = ELSEWHERE.get(plain(name))
    if known is not None:
        return f"; it is called {known.function!r} here: {known.differs}"
    if name in FRAME_FUNCTIONS:
        return f" without a frame; write {name}_NAME, or in Python frame='NAME', the name of a frame or link"
    if name.startswith("frame_"):
        return f"; functions of a frame are {', '.join(FRAME_FUNCTIONS)}, with frame='NAME'"
    names = suggested(name, [*LISTED, ALL, ROLLOUT, *FRAME_FUNCTIONS])
    near = f" (did you mean {' or '.join(repr(each) for each in names)}?)" if names else ""
    return f"{near}; expected one of {', '.join(TOGETHER)}, or another of dynagate.FUNCTIONS"


AND = "_and_"
"""Separator between the names of functions at one state in a combined name, because + is not valid in an identifier."""


@lru_cache(maxsize=1)
def _at_once() -> re.Pattern[str]:
    """Return the pattern that separates functions at one state: +, or AND before the name of another function."""
    return re.compile(rf"\+|{AND}(?=(?:{'|'.join([*LISTED, *ELSEWHERE])})(?:{AND}|$)|(?:{'|'.join(FRAME_FUNCTIONS)})_)")


@lru_cache(maxsize=256)
def functions_at_once(names: tuple[str, ...]) -> FunctionRow:
    """Return the row of functions that are computed at one state in one graph.

    It has the inputs and outputs of all functions. Outputs of a frame end with _ and the frame's name.

    Raises:
        ArgumentError: A name is unknown or repeated; a function is made by differentiation or combines several; or an
            output of one function is an input of another.
    """
    rows = [function(name) for name in names]
    for row in rows:
        if row.derivative_of or row.parts or row.name == ROLLOUT or row.name in CONSTRAINED:
            raise ArgumentError(
                f"{row.name} cannot be computed at one state with others; expected a call of its own",
                code="DG-FUNCTION-019",
            )
        if [other.name for other in rows].count(row.name) > 1:
            raise ArgumentError(f"{row.name} is named twice; expected each function once", code="DG-FUNCTION-020")
    inputs = {argument.name: argument for row in rows for argument in row.inputs}
    results = [_outputs_at_once(row) for row in rows]
    for row, own in zip(rows, results, strict=True):
        for argument in own:
            if argument.name in inputs:
                taker = next(r.name for r in rows if argument.name in [a.name for a in r.inputs])
                raise ArgumentError(
                    f"{row.name} gives {argument.name}, which {taker} takes; expected a call of each",
                    code="DG-FUNCTION-021",
                )
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

    return FunctionRow(
        AND.join(row.name for row in rows),
        tuple(ordered),
        tuple(outputs.values()),
        {"at_once": at_once},
        {},
        at_once=tuple(rows),
    )


def _outputs_at_once(row: FunctionRow) -> list[Argument]:
    """Return the outputs of a function within a combination: outputs of a frame get the frame's name."""
    for prefix in sorted(FRAME_FUNCTIONS, key=len, reverse=True):
        if row.name.startswith(f"{prefix}_"):
            return [replace(a, name=f"{a.name}_{row.name.removeprefix(f'{prefix}_')}") for a in row.outputs]
    return list(row.outputs)


FRAME_FUNCTIONS: dict[str, tuple[str, str, Algorithm]] = {
    "frame_pose": ("q", "frame_position frame_rotation", frames.pose),
    "frame_velocity": ("q qd", "frame_velocity", frames.velocity),
    "frame_jacobian": ("q", "frame_jacobian", frames.jacobian),
    "frame_acceleration": ("q qd qdd", "frame_acceleration", frames.acceleration),
    "frame_bias_acceleration": ("q qd", "frame_bias_acceleration", frames.bias_acceleration),
}
"""Functions of one frame. The frame's name follows theirs, for example frame_pose_tool0."""
PLACEHOLDER = "frame"
"""Stand-in for the name of a frame that is not known yet."""
_OF_FRAMES = tuple(f"{name}_" for name in FRAME_FUNCTIONS)
LONGEST_FRAME = 100
"""Largest number of letters in a frame's name, so that the function's name fits a file name."""


@lru_cache(maxsize=64)
def _frame_function(row: str, frame: str) -> FunctionRow:
    """Return the row of a function of one frame. Raise ArgumentError if the frame's name cannot be part of an
    identifier.
    """
    if not (frame.isascii() and f"_{frame}".isidentifier() and len(frame) <= LONGEST_FRAME):
        raise ArgumentError(
            f"frame '{frame}' cannot be part of a function's name; give it one of up to {LONGEST_FRAME} letters, "
            f"digits and _ by robot.with_frame('name', on='{frame}')",
            code="DG-FUNCTION-022",
        )
    inputs, outputs, algorithm = FRAME_FUNCTIONS[row]
    return FunctionRow(
        f"{row}_{frame}",
        arguments(inputs),
        arguments(outputs),
        {"recursive": partial(algorithm, name=frame)},
        {},
        {"recursive": partial(frames.check, name=frame)},
    )


def functions_together(names: Sequence[str]) -> FunctionRow:
    """Return the row of several functions whose samples share one graph.

    Raises:
        ArgumentError: A name is unknown or repeated, or the function cannot be computed with others.
    """
    names = [function(name).name for name in names]
    for name in names:
        if name not in TOGETHER:
            raise ArgumentError(
                f"{name} cannot be one of several functions of a design; expected some of {', '.join(TOGETHER)}, or "
                "all functions at one state",
                code="DG-FUNCTION-023",
            )
        if names.count(name) > 1:
            raise ArgumentError(
                f"{name} is named {names.count(name)} times; expected each function once", code="DG-FUNCTION-024"
            )
    rows = [FUNCTIONS[name] for name in TOGETHER if name in names]
    if len(rows) == 1:
        return rows[0]
    takes = [{argument.name for argument in row.inputs} for row in rows]
    both = any("qdd" in own for own in takes) and any("tau" in own for own in takes)
    parts, inputs, outputs = [], dict[str, Argument](), dict[str, Argument]()
    codes = {True: iter(range(1, len(rows) + 1)), False: iter(range(0, -len(rows), -1))}
    for row in rows:
        own = {a.name: TAU_OR_QDD if both and a.name in ("tau", "qdd") else a for a in row.inputs}
        parts.append(FunctionPart(row, next(codes["qdd" in own]), tuple((name, own[name].name) for name in own)))
        inputs |= {argument.name: argument for argument in own.values()}
        outputs |= {argument.name: argument for argument in row.outputs}
    ordered = [inputs[name] for name in ("q", "qd", "qdd", "tau", TAU_OR_QDD.name) if name in inputs]
    names_of_inputs = (*(argument.name for argument in ordered), CODE.name)

    def together(tree: Tree, *values: Any, external: Any = None, **options: Any) -> tuple[Any, ...]:
        by_name: dict[str, Any] = dict(zip(names_of_inputs, values, strict=True))
        either = by_name.get(TAU_OR_QDD.name)
        state = SampleState(
            by_name["q"],
            by_name.get("qd"),
            by_name.get("tau", either),
            by_name.get("qdd", either),
            None if either is None else by_name[CODE.name],
            external,
        )
        return tuple(Together(tree, state, tuple(outputs), **options).results())

    return FunctionRow(
        ALL if len(rows) == len(TOGETHER) else ",".join(row.name for row in rows),
        (*ordered, CODE),
        tuple(outputs.values()),
        {"together": together},
        {"together": ("frame", "prefix")},
        parts=tuple(parts),
    )
