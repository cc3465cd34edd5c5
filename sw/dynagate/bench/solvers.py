"""Benchmark of iLQR against Crocoddyl's SolverDDP on the same problems, and of MPPI against its rollouts.

Both solvers begin with the same torques, take the same number of iterations, and use one thread. Their costs are
compared. Figures are processor time. Calls alternate, so that other load on the machine affects all of them equally.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.extras import install
from dynagate.bench import sampling
from dynagate.bench.measure import paired
from dynagate.control import Cost
from dynagate.graph.region import Region
from dynagate.host.ilqr import Ilqr
from dynagate.robot import Robot

KNOTS, DT, ITERATIONS, PROBLEMS, SEED = 50, 0.02, 10, 1024, 1
ROUNDS = 5
CALLS = 100_000
"""Number of calls with one iteration each, among which the slowest is searched."""
LARGEST = 14
"""Largest number of degrees of freedom for which the solver is compiled."""
POSITION, SPEED, TORQUE, LAST = 1.0, 0.1, 1e-2, 100.0
"""Weights of the running cost, and how much more the last state counts."""
AWAY = 0.5
"""Largest distance of starts from the middle of the region, and of goals from the starts, rad or m."""


def measured(robot: Robot, region: Region, *, crocoddyl: bool = True) -> dict[str, Any] | str:
    """Return the ns of an iteration and problem, or the reason why nothing is measured.

    `one` is a single problem, `many` is PROBLEMS in a call, and `single` is the same in float32. `crocoddyl` is
    Crocoddyl's time or the reason why it is missing. `cost` is the largest relative difference of the costs after
    ITERATIONS. `tail` holds CALLS calls as in a closed loop. Calls of MPPI have the names of `sampling.turns`.
    """
    if robot.nq != robot.nv or robot.followers or robot.nv > LARGEST:
        return f"expected at most {LARGEST} joints of one degree of freedom that mimic no other"
    undamped = replace(robot, links=tuple(replace(x, joint=replace(x.joint, damping=0.0)) for x in robot.links))
    cost = Cost.quadratic(q=POSITION, qd=SPEED, tau=TORQUE, final=LAST)
    problem: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": cost, "tolerance": 1e-12}
    solver = Ilqr(undamped, iterations=ITERATIONS, **problem)
    single = Ilqr(undamped, iterations=ITERATIONS, dtype="float32", **problem)
    q0, goal = _problems(region, robot.nv)
    tau, still = solver.holding(q0), np.zeros((PROBLEMS, robot.nv))
    turns: dict[str, Callable[[], int]] = {
        "one": lambda: int(solver(q0[:1], still[:1], tau[:1], goal=goal[:1]).iterations.sum()),
        "many": lambda: int(solver(q0, still, tau, goal=goal).iterations.sum()),
        "single": lambda: int(single(q0, still, tau, goal=goal).iterations.sum()),
    }
    result: dict[str, Any] = {"problems": PROBLEMS, "knots": KNOTS, "iterations": ITERATIONS}
    peer: Any = _peer(undamped, q0[0], goal[0], tau[0]) if crocoddyl else "not requested"
    if isinstance(peer, str):
        result["crocoddyl"] = peer
    else:
        turns["crocoddyl"] = lambda: peer()[0]
        ours, theirs = solver(q0[0], still[0], tau[0], goal=goal[0]).cost, peer()[1]
        result["cost"] = abs(float(ours) / theirs - 1.0)
    turns |= dict(sampling.turns(undamped, cost, q0[0], goal[0]))
    once = Ilqr(undamped, iterations=1, **problem)
    result["tail"] = _tail(once, q0[0], goal[0])
    taken = paired(turns, ROUNDS, clock=time.process_time_ns, count=int)
    return result | {name: {"ns": float(np.median(each))} for name, each in taken.items()}


def _tail(solver: Ilqr, q0: Array, goal: Array) -> dict[str, Any]:
    """Return the median, the 99.9 % quantile and the largest time of calls from Python in ns, each from the last
    plan.
    """
    ns, still = np.empty(CALLS), np.zeros(len(q0))
    plan = solver(q0, still, goal=goal)
    for k in range(CALLS):
        start = time.perf_counter_ns()
        plan = solver(q0, still, goal=goal, warm=plan)
        ns[k] = time.perf_counter_ns() - start
    quantiles = np.quantile(ns, [0.5, 0.999, 1.0])
    return {"calls": CALLS, **dict(zip(("median_ns", "per_mille_ns", "worst_ns"), quantiles.tolist(), strict=True))}


def _problems(region: Region, n: int) -> tuple[Array, Array]:
    """Return starts and goals (PROBLEMS, nv) within the region."""
    random = np.random.default_rng(SEED)
    low, high = np.array(region.lower), np.array(region.upper)
    start = np.clip(np.clip(0.0, low, high) + random.uniform(-AWAY, AWAY, (PROBLEMS, n)), low, high)
    return start, np.clip(start + random.uniform(-AWAY, AWAY, (PROBLEMS, n)), low, high)


def _peer(robot: Robot, q0: Array, goal: Array, tau: Array) -> Callable[[], tuple[int, float]] | str:
    """Return a call of Crocoddyl's solver on a problem, which returns its iterations and cost, or the reason why it is
    missing.
    """
    try:
        import crocoddyl
        import pinocchio
    except ImportError:
        return f"Crocoddyl is not installed: {install('mpc')}"
    model, order = _model(robot, pinocchio)
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    activation = crocoddyl.ActivationModelWeightedQuad(np.repeat([POSITION, SPEED], robot.nv))
    zero = np.zeros(robot.nv)
    target = crocoddyl.ResidualModelState(state, np.concatenate([goal[order], zero]), robot.nv)
    away = crocoddyl.CostModelResidual(state, activation, target)
    torque = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, robot.nv))
    running, last = crocoddyl.CostModelSum(state, robot.nv), crocoddyl.CostModelSum(state, robot.nv)
    running.addCost("away", away, 1.0)
    running.addCost("torque", torque, TORQUE)
    last.addCost("away", away, LAST)
    models = []
    for costs, dt in ((running, DT), (last, 0.0)):
        motion = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        motion.armature = np.array(model.armature)
        models.append(crocoddyl.IntegratedActionModelEuler(motion, dt))
    problem = crocoddyl.ShootingProblem(np.concatenate([q0[order], zero]), [models[0]] * KNOTS, models[1])
    problem.nthreads = 1
    solver = crocoddyl.SolverDDP(problem)
    solver.th_stop = 1e-12
    torques = list(tau[:, order])
    states = list(problem.rollout(torques))

    def solve() -> tuple[int, float]:
        solver.solve(states, torques, ITERATIONS, True)
        return int(solver.iter), float(solver.cost)

    return solve


def _model(robot: Robot, pinocchio: Any) -> tuple[Any, Sequence[int]]:
    """Return the robot in Pinocchio, built joint by joint, and the indices of its degrees of freedom in ours."""
    kinds = {"prismatic": pinocchio.JointModelPrismaticUnaligned}
    model = pinocchio.Model()
    model.gravity = pinocchio.Motion(np.array(robot.gravity), np.zeros(3))
    ids: list[int] = []
    for link in robot.links:
        joint = link.joint
        placement = pinocchio.SE3(np.array(joint.rotation), np.array(joint.translation))
        kind = kinds.get(joint.type, pinocchio.JointModelRevoluteUnaligned)(np.array(joint.axis))
        ids.append(model.addJoint(ids[link.parent] if link.parent >= 0 else 0, kind, placement, joint.name))
        body = pinocchio.Inertia(link.mass, np.array(link.com), np.array(link.inertia))
        model.appendBodyToJoint(ids[-1], body, pinocchio.SE3.Identity())
        model.armature[model.joints[ids[-1]].idx_v] = joint.armature
    places = {model.joints[id].idx_v: v.start for id, (_, _, v) in zip(ids, robot.slices(), strict=True)}
    return model, [places[k] for k in range(robot.nv)]


def text(result: dict[str, Any] | str) -> str:
    """Return a table of the figures, with ratios to Crocoddyl's."""
    if isinstance(result, str):
        return f"iLQR is not measured: {result}"
    lines = [
        f"iLQR, {result['knots']} knots, {result['iterations']} iterations, one thread, processor time",
        f"{'':<34}{'µs an iteration':>16}{'Crocoddyl / ours':>18}",
    ]
    peer = result["crocoddyl"]
    known = not isinstance(peer, str)
    lines.append(f"{'Crocoddyl, SolverDDP':<34}" + (f"{peer['ns'] / 1e3:>16.1f}" if known else f"  {peer}"))
    many = f"each of {result['problems']} problems"
    for name, label in (("one", "one problem"), ("many", many), ("single", f"{many}, float32")):
        ratio = f"{peer['ns'] / result[name]['ns']:>18.1f}" if known else ""
        lines.append(f"{label:<34}{result[name]['ns'] / 1e3:>16.1f}{ratio}")
    tail = result["tail"]
    each = "".join(f"{tail[name] / 1e3:>12.1f}" for name in ("median_ns", "per_mille_ns", "worst_ns"))
    lines.append(f"{tail['calls']:,} calls of an iteration, µs by the clock: median, 99.9 %, worst{each}")
    if known:
        lines.append(f"costs after the last iteration differ by {result['cost']:.0e}")
    return "\n".join([*lines, "", *sampling.text(result)])
