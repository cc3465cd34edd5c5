"""The rollouts of model-predictive path integral control as one loop, and the weights of their costs.

Reference:
    Williams, Aldrich & Theodorou, "Model predictive path integral control: from theory to parallel computation", 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control.cost import Cost, CostGraphs
from dynagate.control.forward import carried, recorded, stepped, with_cost
from dynagate.control.joint_bounds import WITHIN, JointBounds
from dynagate.control.knot_step import KnotStep
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot


def sampled_loop(
    robot: Robot,
    cost: Cost,
    options: StepOptions,
    knots: int,
    joints: JointBounds | None = None,
    temperature: float = 1.0,
) -> Loop:
    """Return the loop of a rollout with its cost.

    Its inputs are q0 (nq,), qd0 (nv,), the torques tau (knots, nv), total = 0 and the inputs of the cost. Its output is
    the `cost` () of the motion.

    Args:
        robot: The robot.
        cost: The cost.
        options: Options of the step from knot to knot.
        knots: Number of knots.
        joints: Bounds of joints. The largest violation, from the input most = 0, costs `temperature` for each
            WITHIN.
        temperature: Difference of cost that reduces the weight by a factor of e.
    """
    costs, step = CostGraphs(robot, cost, options.dt), KnotStep(robot, options)
    per_iteration = ("tau", *step.inputs, *costs.each)
    unsolved = () if step.unsolved is None else (step.unsolved,)
    ends: tuple[str, ...] = ("q_end", "qd_end", "total_next", *unsolved)
    steps, carry = stepped(costs, step, "tau"), carried(step)
    if joints is not None:
        steps, carry, ends = (*steps, _most(robot, joints)), {**carry, "most_next": "most"}, (*ends, "most_next")
    forward = Loop("forward", robot.name, steps, carry, Count(knots), per_iteration, (), ends)

    def record(recording: Recording, values: dict[str, Array]) -> Mapping[str, Any]:
        total = recording.input("total_next", ())[()] + costs.final.value(recording, values)
        total = step.infinite_if_unsolved(recording, total)
        if joints is not None:
            total = total + recording.input("most_next", ())[()] * (temperature / WITHIN)
        return {"cost": total}

    end = with_cost(costs, "end", True, record).named({"q": "q_end", "qd": "qd_end"}, {})
    return Loop(f"mppi_{knots}", robot.name, (forward, end), {}, Count(1), last=("cost",))


def _most(robot: Robot, joints: JointBounds) -> Graph:
    """Return the graph of the largest violation of the bounds so far, as a fraction of a joint's range."""

    def record(x: Mapping[str, Array]) -> Mapping[str, Any]:
        state = joints.of_state(x["q_end"], x["qd_end"])
        return {"most_next": joints.largest(joints.outside(state), x["most"][()])}

    return recorded("most", robot.name, {"q_end": (robot.nq,), "qd_end": (robot.nv,), "most": ()}, record, "bounds")


def weights(cost: Array, temperature: float) -> tuple[Array, Array]:
    """Return the weights exp(-(cost - least) / temperature) of samples, normalized to sum 1.

    A cost that is not finite has no weight. If all are so, the least cost is infinite and all weights are 0.

    Args:
        cost: Costs (batch, samples).
        temperature: Difference of cost that reduces the weight by a factor of e.

    Returns:
        The weights (batch, samples), and the least cost of each problem, (batch,).
    """
    known = np.where(np.isfinite(cost), cost, np.inf)
    least = known.min(axis=1)
    above = known - np.where(np.isfinite(least), least, 0.0)[:, None]
    share = np.exp(above / -temperature)
    total = share.sum(axis=1)
    return share / np.where(total > 0.0, total, 1.0)[:, None], least
