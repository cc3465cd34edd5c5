"""Position-based steps of small robots as a loop of graphs, on every backend that computes loops: Equation 5 of Pan &
Manocha (2018), and Equation 13 of 2019 where there is contact, by Levenberg-Marquardt.

A trajectory is a loop of steps; a step is a graph that begins it and a loop of iterations that ends by itself for each
trajectory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynagate.dynamics.factor import factorize, solve
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.spatial import array, chosen, select
from dynagate.dynamics.tree import Tree
from dynagate.graph import Graph
from dynagate.graph.derivatives import jacobian
from dynagate.graph.loop import Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.integrators.implicit.position_based import (
    Model,
    damp,
    evaluation,
    largest_over,
    next_damping,
    scalar,
    size,
)
from dynagate.integrators.implicit.position_based_root import root_search
from dynagate.integrators.implicit.position_based_search import ENERGY


def search(model: Model, scale: Sequence[float], iterations: int, *, full: bool = False) -> Loop:
    """From the values of `position_based_graphs.begin` to best ((K - 1) nv,), what leads from the step's begin to its
    nodes, counted (), its iterations, and rest (), the largest force left over its scale.

    full: of an energy, with its whole Hessian in place of M/dt², that of the part which is a square's. A root of forces
    has the whole Jacobian in any case."""
    if model.by_root:
        return root_search(model, scale, iterations)
    hessian = (jacobian(evaluation(model, "best", "again"), ["again"], ["best"]),) if full else ()
    return Loop(
        "search",
        model.robot.name,
        (evaluation(model, "trial", "trial_slope"), _decision(model, scale), *hessian, _step(model, full=full)),
        {
            "next": "trial",
            "best": "held",
            "least": "lowest",
            "slope": "gradient",
            "relaxed": "damping",
            "counted": "count",
        },
        Until("rest", 1.0, iterations + 1),
        last=("best", "counted", "rest"),
    )


def _decision(model: Model, scale: Sequence[float]) -> Graph:
    """Which is the best so far, and the next damping: a trial is accepted as `run_energy` does, the guess always."""
    robot, resolution = model.robot, model.resolution
    recording, sizes = Recording("decision", robot.name), typical_sizes(model.tree)
    trial, held = (model.away(recording, name) for name in ("trial", "held"))
    trial_slope, gradient = (recording.input(name, (robot.nv,), sizes["tau"]) for name in ("trial_slope", "gradient"))
    energy, lowest = (recording.input(name, (), sizes["tau"] @ sizes["q"])[()] for name in ("energy", "lowest"))
    damping, count = (recording.input(name, ())[()] for name in ("damping", "count"))
    left, before = (largest_over(slope, scale, numbers=resolution is not None) for slope in (trial_slope, gradient))
    first = select(count + 0.5, 0.0, 1.0)
    lower = select(lowest - energy, 1.0, 0.0)
    within = select(left - 1.0, 0.0, 1.0)
    noise = (resolution or 1e-13) * size(energy)
    as_low = select((lowest - energy) + noise, select(before - left, 1.0, 0.0), 0.0)
    better = lower + within + as_low + first
    return recording.graph(
        {
            "best": chosen(better, trial, held),
            "slope": chosen(better, trial_slope, gradient),
            "least": scalar(select(better, energy, lowest)),
            "relaxed": scalar(next_damping(ENERGY, damping, better)),
            "rest": scalar(select(better, left, before)),
            "counted": scalar(count + 1.0),
        }
    )


def _step(model: Model, *, full: bool) -> Graph:
    """best, slope, relaxed to next: best - (M/dt² + λ)⁻¹ slope, λ relative to the mean of the diagonal. full: with the
    input dagain_dbest (nv, nv), the Hessian, in place of M/dt², which takes start too."""
    robot = model.robot
    tree = Tree(robot)
    recording, sizes = Recording("step", robot.name), typical_sizes(tree)
    best, slope = model.away(recording, "best"), recording.input("slope", (robot.nv,), sizes["tau"])
    relaxed = recording.input("relaxed", ())[()]
    if full:
        size_of_one = np.outer(sizes["tau"], 1.0 / sizes["delta_q"])
        hessian = array(list(recording.input("dagain_dbest", (tree.nv, tree.nv), size_of_one)))
    else:
        (q,) = model.reached(model.configuration(recording, "start"), best)
        hessian = mass_matrix(tree, list(q)) * (1.0 / model.dt**2)
        for d in range(tree.nv):
            hessian[d, d] = hessian[d, d] + model.spring(d)
    damp(hessian, relaxed)
    return recording.graph({"next": best - array(solve(tree, factorize(tree, hessian), list(slope)))})
