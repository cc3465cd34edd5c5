"""Position-based steps of small robots as a loop of graphs, on every backend that computes loops: Equation 5 of Pan &
Manocha (2018), and Equation 13 of 2019 where there is contact, by Levenberg-Marquardt.

A trajectory is a loop of steps; a step is a graph that begins it and a loop of iterations that ends by itself for each
trajectory. `position_based_energy` and `position_based_residual` have the same as loops over links.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.dynamics.mass_matrix import factorise, mass_matrix, solve
from dynagate.dynamics.spatial import Array, Scalar, array, select
from dynagate.dynamics.tree import Tree
from dynagate.graph import Graph
from dynagate.graph.derivatives import jacobian
from dynagate.graph.loop import Count, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.integrators import position_based_energy, position_based_residual
from dynagate.integrators.contact import Contact
from dynagate.integrators.position_based_graphs import (
    Model,
    begin,
    energy_and_slope,
    largest_over,
    scalar,
    size,
)
from dynagate.integrators.position_based_joints import Servo
from dynagate.robot import Robot


def trajectory_loop(
    robot: Robot,
    dt: float,
    scale: Sequence[float],
    iterations: int,
    *,
    contact: Contact | None = None,
    servo: Servo | None = None,
) -> Loop:
    """A loop over the steps of a trajectory: each the minimum of an energy or, with contact, a root of the forces.

    Inputs: q and before (nq,), the configurations at the start and one step before; tau (nv,) of each step, N m or N;
    with a servo target (nv,) of each step, rad or m.
    Kept of every step: best (nq,), the configuration at its end; counted (), its iterations; left (), the largest
    force left over its scale: 1 or less has converged.
    dt: s. scale (nv,): as in `Settings`. iterations: most of them a step.
    Raises RobotError: joints that mimic others; ValueError: a joint with a quaternion; ContactError: a point on no link
    of the robot, or a law with powers that are not whole.
    """
    model = Model(robot, dt, contact, servo)
    steps: tuple[Graph, ...]
    if contact:
        forces = _evaluation(model, "best", "residual")
        steps = (
            _evaluation(model, "trial", "trial_slope"),
            _decision(robot, scale, squares=True),
            jacobian(forces, inputs=["best"]),
            _step_to_root(robot),
        )
    else:
        steps = (_evaluation(model, "trial", "trial_slope"), _decision(robot, scale), _step(model))
    search = Loop(
        "search",
        robot.name,
        steps,
        {
            "next": "trial",
            "best": "held",
            "least": "lowest",
            "slope": "gradient",
            "relaxed": "damping",
            "counted": "count",
        },
        Until("left", 1.0, iterations + 1),
        last=("best", "counted", "left"),
    )
    return Loop(
        "position_based",
        robot.name,
        (begin(model), search),
        {"best": "q", "start": "before"},
        Count(),
        per_turn=("tau", "target") if servo else ("tau",),
        kept=("best", "counted", "left"),
    )


def _evaluation(model: Model, at: str, slope: str) -> Graph:
    """The configuration `at` (nv,), past, linear, with contact marks, to `slope` (nv,) and, without contact, energy."""
    robot, contact = model.robot, model.contact
    recording = Recording("evaluation", robot.name)
    q, linear = (recording.input(name, (robot.nq,)) for name in (at, "linear"))
    past = recording.input("past", (len(robot.links), 12))
    marks = recording.input("marks", (len(contact.points), 3)) if contact else None
    energy, forces = energy_and_slope(model, q, past, linear, marks)
    return recording.graph({slope: forces} if contact else {"energy": scalar(energy), slope: forces})


def _decision(robot: Robot, scale: Sequence[float], *, squares: bool = False) -> Graph:
    """Which is the best so far, and the next damping: a trial is accepted as `run_energy` does, or for the squares of
    forces as `run_residual` does.

    A graph of its own: passes drop a term that is negligible in random states, as a tolerance is beside the forces of
    such.
    """
    recording = Recording("decision", robot.name)
    vectors = ("trial", "held", "trial_slope", "gradient")
    trial, held, trial_slope, gradient = (recording.input(name, (robot.nq,)) for name in vectors)
    lowest, damping, count = (recording.input(name, ())[()] for name in ("lowest", "damping", "count"))
    left, before = largest_over(trial_slope, scale), largest_over(gradient, scale)
    within = select(left - 1.0, 0.0, 1.0)
    if squares:
        energy = trial_slope @ trial_slope
        better = select(lowest - energy, 1.0, 0.0) + within
    else:
        energy = recording.input("energy", ())[()]
        lower = select(lowest - energy, 1.0, 0.0)
        noise = 1e-13 * size(energy)
        as_low = select((lowest - energy) + noise, select(before - left, 1.0, 0.0), 0.0)
        better = lower + within + as_low
    return recording.graph(
        {
            "best": array([select(better, a, b) for a, b in zip(trial, held, strict=True)]),
            "slope": array([select(better, a, b) for a, b in zip(trial_slope, gradient, strict=True)]),
            "least": scalar(select(better, energy, lowest)),
            "relaxed": scalar(_next_damping(damping, better, squares=squares)),
            "left": scalar(select(better, left, before)),
            "counted": scalar(count + 1.0),
        }
    )


def _next_damping(damping: Scalar, better: Scalar, *, squares: bool) -> Scalar:
    rule = position_based_residual if squares else position_based_energy
    reduced = select(damping - rule.LEAST_DAMPING, rule.SHRINK * damping, 0.0)
    raised = select(5.0 * damping - rule.FIRST_DAMPING, 5.0 * damping, rule.FIRST_DAMPING)
    return select(better, reduced, raised)


def _step(model: Model) -> Graph:
    """best, slope, relaxed to next: best - (M/dt² + λ)⁻¹ slope, λ beside the mean of the diagonal."""
    robot = model.robot
    tree = Tree(robot)
    recording = Recording("step", robot.name)
    best, slope = (recording.input(name, (robot.nq,)) for name in ("best", "slope"))
    relaxed = recording.input("relaxed", ())[()]
    hessian = mass_matrix(tree, list(best)) * (1.0 / model.dt**2)
    for d in range(tree.nv):
        hessian[d, d] = hessian[d, d] + model.spring(tree, d)
    _damp(hessian, relaxed)
    return recording.graph({"next": best - array(solve(tree, factorise(tree, hessian), list(slope)))})


def _step_to_root(robot: Robot) -> Graph:
    """best, slope, relaxed and the Jacobian J of the forces to next: best - (JᵀJ + λ)⁻¹ Jᵀ slope, λ beside the mean of
    the diagonal."""
    n = robot.nv
    recording = Recording("step", robot.name)
    best, slope = (recording.input(name, (n,)) for name in ("best", "slope"))
    relaxed = recording.input("relaxed", ())[()]
    j = recording.input("dresidual_dbest", (n, n))
    square = j.T @ j
    _damp(square, relaxed)
    dense = _Dense(n)
    return recording.graph({"next": best - array(solve(dense, factorise(dense, square), list(j.T @ slope)))})


def _damp(hessian: Array, relaxed: Scalar) -> None:
    """Adds λ to the diagonal."""
    n = len(hessian)
    damping = relaxed * (sum(hessian[d, d] for d in range(n)) * (1.0 / n))
    for d in range(n):
        hessian[d, d] = hessian[d, d] + damping


class _Dense:
    """The `Elimination` of a matrix without zeros."""

    def __init__(self, nv: int) -> None:
        self.nv = nv
        self.chain = [list(range(d + 1)) for d in range(nv)]

    def where(self, d: int) -> tuple[str, ...]:
        return (f"row{d}",)
