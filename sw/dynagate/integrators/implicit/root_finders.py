"""Root finders of implicit steps, as loops of graphs: each iterates on an unknown until a residual is small.

A step that solves equations is a residual, a root finder of this file, and the adjoint of the residual
(`integrators.adjoint`). A residual is a graph that evaluates what the step makes 0 at a trial; it does not know how the
trial was found, and the adjoint does not either.

| root finder | iterates | for |
|---|---|---|
| `quasi_newton` | a factor of the mass matrix in place of the Jacobian | variational steps (RIQN) |
| `least_energy` | Levenberg-Marquardt on an energy and its gradient | position-based steps that have an energy |
| `least_squares` | Levenberg-Marquardt on the residual and its Jacobian | other position-based steps |
| `sweeps` | the solution for one pair of bodies after another | rigid contact (semismooth equations) |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.dynamics.factor import Dense, Elimination, factorize, solve, solve_square
from dynagate.dynamics.spatial import Array, Scalar, absolute, array, chosen, largest, select, zeros
from dynagate.graph import Graph
from dynagate.graph.derivatives import jacobian
from dynagate.graph.loop import Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

ALMOST_ONE = 1.0 + 2.0**-20
"""`select` takes numbers above 0 only, and a residual that equals the tolerance is within it."""

FAR = 1e30
"""Above any bound of a comparison: a residual that is not a number, and squares before the first iteration."""


class SearchDamping(NamedTuple):
    """λ relative to the mean of the diagonal, of Levenberg-Marquardt iterations."""

    least: float
    """Below this λ is 0."""
    first: float
    """λ after the first rejected step. A further one multiplies it by five."""
    most: float
    """Beyond this the search ends."""
    shrink: float
    """Factor of λ after an accepted step."""


ENERGY = SearchDamping(1e-6, 1e-4, 1e12, 0.5)
"""Damping of the search for an energy's minimum, relative to its Hessian."""

FORCES = SearchDamping(1e-12, 1e-10, 1e6, 0.2)
"""Damping of the search for a root of forces, relative to JᵀJ."""

MEMORY = 5
"""Accepted iterations whose largest square of the residual bounds the next. On long chains Newton passes through larger
squares, as torques near the base outweigh all others."""


@dataclass(frozen=True)
class Unknown:
    """Unknown of a search. The residual has as many numbers as the unknown."""

    robot: Robot
    sizes: Floats
    """Typical sizes (n,) of the unknown."""
    residuals: Floats
    """Typical sizes (n,) of the residual."""
    scale: Sequence[float]
    """Residuals (n,) below which the search has converged."""
    iterations: int
    """Largest number of iterations."""

    def trial(self, recording: Recording, name: str) -> Array:
        """Return a new input with a value of the unknown (n,)."""
        return recording.input(name, (len(self.sizes),), self.sizes)

    def residual(self, recording: Recording, name: str) -> Array:
        """Return a new input with a value of the residual (n,)."""
        return recording.input(name, (len(self.residuals),), self.residuals)


def converged(rest: Scalar) -> Scalar:
    """Return 1 if a residual relative to its tolerance is 1 or less, else 0, also if it is not a number."""
    return select(ALMOST_ONE - rest, 1.0, 0.0)


# ---- quasi-Newton, and sweeps ----------------------------------------------------------------------------------------


def quasi_newton(iteration: Graph, excess: str, iterations: int) -> Loop:
    """Return the loop of an iteration from `increment` to `next`.

    Args:
        iteration: Graph of an iteration, which also returns `brought` and `turned`.
        excess: Output () of the iteration, the squared residual relative to its limit.
        iterations: Largest number of iterations.
    """
    last = ("next", "brought", "turned", excess)
    return Loop("riqn", iteration.robot, (iteration,), {"next": "increment"}, Until(excess, 1.0, iterations), last=last)


def sweeps(sweep: Graph, tolerance: float, most: int) -> Loop:
    """Return the loop of sweeps over pairs, from impulses r and s to `swept` and `lifted`.

    Args:
        sweep: Graph of a sweep, which also returns `counted` and `moved`.
        tolerance: Largest change of a velocity by the last sweep, m/s.
        most: Largest number of sweeps.
    """
    carry = {"swept": "r", "lifted": "s", "counted": "count"}
    last = ("swept", "lifted", "counted", "moved")
    return Loop("sweeps", sweep.robot, (sweep,), carry, Until("moved", tolerance, most), last=last)


# ---- Levenberg-Marquardt ---------------------------------------------------------------------------------------------

Evaluation = Callable[[str, str], Graph]
"""evaluation(at, residual): the graph from the unknown `at` to `residual` and, for a search of an energy, `energy`."""


class Hessian(NamedTuple):
    """A matrix with positive pivots in place of an energy's Hessian."""

    order: Elimination | None
    """Order in which it is factorized; None for a complete Jacobian that is not symmetric."""
    matrix: Callable[[Recording, Array], Array]
    """matrix(recording, best): the matrix (n, n) at an unknown (n,)."""


def least_energy(
    unknown: Unknown, evaluation: Evaluation, hessian: Hessian, *, full: bool, resolution: float | None
) -> Loop:
    """Return the loop that minimizes an energy whose gradient is the residual.

    It gives best (n,), the unknown, counted (), the number of iterations, and rest (), the largest residual relative to
    its scale.

    Args:
        unknown: The unknown.
        evaluation: Energy and residual.
        hessian: Matrix in place of the Hessian.
        full: Use the complete Hessian of the energy instead.
        resolution: In fixed point, the smallest change of the energy that counts, relative to its size. None in
            floating point, where results may be NaN.
    """
    complete = (jacobian(evaluation("best", "again"), ["again"], ["best"], robot=unknown.robot),) if full else ()
    return Loop(
        "search",
        unknown.robot.name,
        (
            evaluation("trial", "trial_slope"),
            _least_energy(unknown, resolution),
            *complete,
            _damped_step(unknown, hessian, full=full),
        ),
        {
            "next": "trial",
            "best": "held",
            "least": "lowest",
            "slope": "gradient",
            "relaxed": "damping",
            "counted": "count",
        },
        Until("rest", 1.0, unknown.iterations + 1),
        last=("best", "counted", "rest"),
    )


def _least_energy(unknown: Unknown, resolution: float | None) -> Graph:
    """Select the best unknown so far, and the next damping. The guess is always accepted."""
    recording = Recording("decision", unknown.robot.name)
    trial, held = (unknown.trial(recording, name) for name in ("trial", "held"))
    trial_slope, gradient = (unknown.residual(recording, name) for name in ("trial_slope", "gradient"))
    energies = unknown.residuals @ unknown.sizes
    energy, lowest = (recording.input(name, (), energies)[()] for name in ("energy", "lowest"))
    damping, count = (recording.input(name, ())[()] for name in ("damping", "count"))
    left, before = (largest_over(x, unknown.scale, numbers=resolution is not None) for x in (trial_slope, gradient))
    first = select(count + 0.5, 0.0, 1.0)
    lower = select(lowest - energy, 1.0, 0.0)
    within = select(left - 1.0, 0.0, 1.0)
    noise = (resolution or 1e-13) * absolute(energy)
    as_low = select((lowest - energy) + noise, select(before - left, 1.0, 0.0), 0.0)
    better = lower + within + as_low + first
    return recording.graph(
        {
            "best": chosen(better, trial, held),
            "slope": chosen(better, trial_slope, gradient),
            "least": scalar(select(better, energy, lowest)),
            "relaxed": scalar(_next_damping(ENERGY, damping, better)),
            "rest": scalar(select(better, left, before)),
            "counted": scalar(count + 1.0),
        }
    )


def _damped_step(unknown: Unknown, hessian: Hessian, *, full: bool) -> Graph:
    """Return best, slope and relaxed to next: best - (H + λ)⁻¹ slope, λ relative to the mean of the diagonal.

    full: H is the input dagain_dbest (n, n), the complete Hessian, and not `hessian`.
    """
    recording = Recording("step", unknown.robot.name)
    best, slope = unknown.trial(recording, "best"), unknown.residual(recording, "slope")
    relaxed = recording.input("relaxed", ())[()]
    if full:
        sizes = np.outer(unknown.residuals, 1.0 / unknown.sizes)
        matrix = array(list(recording.input("dagain_dbest", sizes.shape, sizes)))
    else:
        matrix = hessian.matrix(recording, best)
    _damp(matrix, relaxed)
    if hessian.order is None:
        return recording.graph({"next": best - solve_square(matrix, slope, [*reversed(range(len(matrix)))])})
    factor = factorize(hessian.order, matrix)
    return recording.graph({"next": best - array(solve(hessian.order, factor, list(slope)))})


LEAST_SQUARES = {
    "next": "trial",
    "now": "held",
    "slope": "gradient",
    "squares": "recent",
    "turned": "slot",
    "relaxed": "damping",
    "counted": "count",
    "finest": "least_away",
    "least": "lowest",
    "least_left": "lowest_left",
}
"""Values that an iteration of `least_squares` hands to the next one."""


def least_squares(unknown: Unknown, evaluation: Evaluation) -> Loop:
    """Return the loop that finds a root of the residual. It gives the values of `least_energy`."""
    return Loop(
        "search",
        unknown.robot.name,
        (
            evaluation("trial", "trial_slope"),
            _least_squares(unknown),
            jacobian(evaluation("now", "forces"), inputs=["now"], robot=unknown.robot),
            _gauss_newton_step(unknown),
        ),
        LEAST_SQUARES,
        Until("left", 1.0, unknown.iterations + 1),
        last=("best", "counted", "rest"),
    )


def begin_of_least_squares(count: int) -> dict[str, Array]:
    """Return the values before the first iteration of `least_squares`. count: n."""
    memory = zeros(MEMORY)
    return {
        "least_away": zeros(count),
        "lowest_left": scalar(FAR),
        "recent": memory + FAR,
        "slot": array([1.0, *memory[1:]]),
    }


def _least_squares(unknown: Unknown) -> Graph:
    """Record the decision of an iteration: the next point, the point with the smallest forces, the bound on their
    squares, and the damping.

    recent: squares of the forces in the last accepted iterations; slot: 1 at the next entry to overwrite. The search
    returns best: the point itself if it has converged, else the point with the smallest squares.
    """
    recording, scale = Recording("decision", unknown.robot.name), unknown.scale
    trial, held, least_away = (unknown.trial(recording, name) for name in ("trial", "held", "least_away"))
    trial_slope, gradient = (unknown.residual(recording, name) for name in ("trial_slope", "gradient"))
    square = unknown.residuals @ unknown.residuals
    recent = recording.input("recent", (MEMORY,), square)
    slot = recording.input("slot", (MEMORY,))
    lowest = recording.input("lowest", (), square)[()]
    damping, count, lowest_left = (recording.input(name, ())[()] for name in ("damping", "count", "lowest_left"))
    value = trial_slope @ trial_slope
    rest = largest_over(trial_slope, scale)
    first = select(count + 0.5, 0.0, 1.0)  # the guess
    farthest = [max(scale) / s for s in scale]  # 1 rad, or the robot's reach
    near = select(largest_over(trial - held, farthest) - 1.0, 0.0, 1.0)
    within = select(rest - 1.0, 0.0, 1.0)
    better = first + near * (select(largest(list(recent)) - value, 1.0, 0.0) + within)
    left = select(better, rest, largest_over(gradient, scale))
    lower = better * select(lowest - value, 1.0, 0.0)
    now, finest = chosen(better, trial, held), chosen(lower, trial, least_away)
    least_left = select(lower, rest, lowest_left)
    noted = [select(first + better * s, value, r) for s, r in zip(slot, recent, strict=True)]
    return recording.graph(
        {
            "now": now,
            "slope": chosen(better, trial_slope, gradient),
            "squares": array(noted),
            "turned": array([slot[-1], *slot[:-1]]),
            "finest": finest,
            "least": scalar(select(lower, value, lowest)),
            "least_left": scalar(least_left),
            "best": chosen(left - 1.0, finest, now),
            "rest": scalar(select(left - 1.0, least_left, left)),
            "relaxed": scalar(_next_damping(FORCES, damping, better)),
            "left": scalar(left),
            "counted": scalar(count + 1.0),
        }
    )


def _gauss_newton_step(unknown: Unknown) -> Graph:
    """Return now, slope, relaxed and the Jacobian J to next: now - (JᵀJ + λ)⁻¹ Jᵀ slope, λ relative to the mean of the
    diagonal."""
    recording = Recording("step", unknown.robot.name)
    now, slope = unknown.trial(recording, "now"), unknown.residual(recording, "slope")
    relaxed = recording.input("relaxed", ())[()]
    sizes = np.outer(unknown.residuals, 1.0 / unknown.sizes)
    j = recording.input("dforces_dnow", sizes.shape, sizes)
    square = j.T @ j
    _damp(square, relaxed)
    dense = Dense(len(square))
    return recording.graph({"next": now - array(solve(dense, factorize(dense, square), list(j.T @ slope)))})


def scalar(value: Scalar) -> Array:
    """Return a number as an output ()."""
    result = np.empty((), dtype=object)
    result[()] = value
    return result


def largest_over(residual: Array, scale: Sequence[float], *, numbers: bool = False) -> Scalar:
    """Return the largest residual relative to its scale; FAR if one is not a number. numbers: all are numbers."""
    ratios = [absolute(x) * (1.0 / s) for x, s in zip(residual, scale, strict=True)]
    return largest(ratios) if numbers else select(sum(ratios, 1.0), largest(ratios), FAR)


def _next_damping(rule: SearchDamping, damping: Scalar, better: Scalar) -> Scalar:
    """Return the damping after an iteration that was accepted or rejected."""
    reduced = select(damping - rule.least, rule.shrink * damping, 0.0)
    raised = select(5.0 * damping - rule.first, 5.0 * damping, rule.first)
    return select(better, reduced, raised)


def _damp(hessian: Array, relaxed: Scalar) -> None:
    """Add λ to the diagonal. relaxed: λ relative to the mean of the diagonal."""
    n = len(hessian)
    damping = relaxed * (sum(hessian[d, d] for d in range(n)) * (1.0 / n))
    for d in range(n):
        hessian[d, d] = hessian[d, d] + damping
