"""Choice of the measurements of a run: all for a small robot, the most valuable ones for a large robot.

Compilers and schedulers take most of the time of a run, and their time grows with the operations of a graph. A limit on
operations therefore bounds the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dynagate.bench.codegen import OUTPUTS
from dynagate.bench.gpu import GRADIENT
from dynagate.bench.paper import STEPS

MAX_OPERATIONS = 160_000
"""Number of operations that a run compiles by default, in about two minutes on one core.

The gradient of Atlas on a floating base has 115,000 operations.
"""

STAGES = ("inverse_dynamics", "forward_dynamics", "mass_matrix_inverse", "inverse_dynamics_gradient", GRADIENT)

FLOAT32, FLOAT64, PACKED32, PACKED64 = "float32", "float64", "packed float32", "packed float64"
ROLLOUTS, NUMPY, DEFAULT_FRAME = "rollouts", "numpy", "the default frame's accuracy"
CASADI, CARD, DATAPATHS = "CasADi", "the GPU", "datapaths, boards and the deadline"

TIMES: Mapping[str, float] = {ROLLOUTS: 3.0, NUMPY: 0.3, DEFAULT_FRAME: 2.0, CASADI: 2.0, CARD: 3.0, DATAPATHS: 2.0}
"""Cost of a measurement as a multiple of the operations of its functions, such that an arm with seven joints has all.
"""


@dataclass(frozen=True)
class Selection:
    """Measurements of a run."""

    operations: int
    """Sum of the operations."""
    left_out: Mapping[str, tuple[str, ...]]
    """For each measurement, the functions that are left out; an empty tuple if it is left out completely."""

    def has(self, what: str, function: str = "") -> bool:
        """Return whether a measurement is made, for a function."""
        return what not in self.left_out or (self.left_out[what] != () and function not in self.left_out[what])

    def text(self) -> str:
        """Return a line about what is left out, or ""."""
        if not self.left_out:
            return ""
        things = [f"{what} of {', '.join(names)}" if names else what for what, names in self.left_out.items()]
        return (
            f"left out: {'; '.join(things)}. All counts as {self.operations:,} operations to compile, "
            f"a run has {MAX_OPERATIONS:,}; --all brings it"
        )


def choose(operations: Callable[[str], int], *, card: bool, peers: bool, everything: bool) -> Selection:
    """Choose what to measure for a robot: the gradient in float32, then other measurements by value while operations
    remain.

    Args:
        operations: Function that returns the number of operations of a function.
        card: Whether there is a GPU.
        peers: Whether peers are requested.
        everything: Whether to measure everything.
    """
    left, whole = float(MAX_OPERATIONS), 0.0
    left_out: dict[str, tuple[str, ...]] = {}
    measured = set()
    for what, function, needed in _candidates(operations, card, peers):
        whole += needed
        if everything or needed <= left or (what, function) == (FLOAT32, GRADIENT):
            left -= needed
            measured.add(what)
        else:
            left_out[what] = (*left_out.get(what, ()), function)
    return Selection(round(whole), {what: names if what in measured else () for what, names in left_out.items()})


def _candidates(operations: Callable[[str], int], card: bool, peers: bool) -> Iterator[tuple[str, str, float]]:
    """Yield (measurement, its function or "", operations), the most valuable first.

    The last function of the steps has nearly as many operations as the gradient and is traced for nothing else, so the
    operations of the gradient count instead.
    """
    gradient = operations(GRADIENT)
    known = {GRADIENT: gradient, **dict.fromkeys(STEPS, gradient), **{name: operations(name) for name in STAGES}}
    small = sorted(STAGES, key=lambda name: known[name])
    of = {
        ROLLOUTS: known["forward_dynamics"],
        NUMPY: gradient,
        DEFAULT_FRAME: gradient,
        CASADI: sum(known[name] for name in OUTPUTS) if peers else 0,
        CARD: gradient if card else 0,
        DATAPATHS: sum(known.values()),
    }
    yield FLOAT32, GRADIENT, gradient
    yield from (
        (dtype, name, known[name])
        for dtype in (FLOAT32, FLOAT64)
        for name in small
        if (dtype, name) != (FLOAT32, GRADIENT)
    )
    for what in (ROLLOUTS, NUMPY):
        yield what, "", TIMES[what] * of[what]
    yield from ((dtype, name, known[name]) for dtype in (PACKED32, PACKED64) for name in small)
    yield from ((dtype, STEPS[-1], known[STEPS[-1]]) for dtype in (FLOAT32, FLOAT64))
    for what in (DEFAULT_FRAME, DATAPATHS, CASADI, CARD):
        yield what, "", TIMES[what] * of[what]
