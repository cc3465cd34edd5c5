"""Whole-body torque next to ProxQP on the same problems: `python -m dynagate.bench.whole_body`.

The friction cones are pyramids along x and y, which a quadratic program can state. ProxQP (Bambade et al., "ProxQP:
yet another quadratic programming solver for robotics and beyond", 2022) solves it with accelerations, torques and
forces as unknowns. Its time is that of its own setup and solution; the matrices are computed before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import MissingExtraError
from dynagate.bench.measure import paired
from dynagate.dynamics.configuration import neutral
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.host.whole_body import WholeBodyTorque
from dynagate.robot import Robot, robots

FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")
LEGS = (0.0, 0.6, -1.2, 0.0, 0.6, -1.2, 0.0, -0.6, 1.2, 0.0, -0.6, 1.2)
"""Joint angles of HyQ's stance, rad."""
FRICTIONS = (0.0, 0.4, 0.9)
"""Friction coefficients, one of which each foot of a problem has."""
ROUNDS, SEED = 5, 1
TIGHT, MOST = 1e-9, 1000
"""Largest residual of ProxQP's solutions, and its largest number of iterations."""


class QuadraticPrograms(NamedTuple):
    """Programs: minimize ½ xᵀ H x + gᵀ x with A x = b and low ≤ C x ≤ high. x has the accelerations, the driven torques
    and the forces. Torques and forces are in units of the solver.
    """

    hessian: Array
    """H (batch, n, n)."""
    slope: Array
    """g (batch, n)."""
    motion: Array
    """A (batch, nv, n)."""
    bias: Array
    """b (batch, nv)."""
    rows: Array
    """C (batch, m, n)."""
    low: Array
    """Lowest values (batch, m)."""
    high: Array
    """Highest values (batch, m)."""


def problems(robot: Robot, count: int) -> dict[str, Array]:
    """Return random problems (count, ...): states near the stance, feet in the air, without friction, out of reach."""
    random = np.random.default_rng(SEED)
    q = np.tile(neutral(robot), (count, 1))
    q[:, 7:] = np.array(LEGS) + random.uniform(-0.3, 0.3, (count, len(LEGS)))
    tilted = random.normal(size=(count, 4)) * [0.2, 0.2, 0.2, 0.0] + [0.0, 0.0, 0.0, 1.0]
    q[:, 3:7] = tilted / np.linalg.norm(tilted, axis=1, keepdims=True)
    return {
        "q": q,
        "qd": random.normal(size=(count, robot.nv)) * 0.5,
        "qdd": random.normal(size=(count, robot.nv)) * 4.0,
        "active": (random.uniform(size=(count, len(FEET))) < 0.8).astype(np.float64),
        "friction": random.choice(FRICTIONS, size=(count, len(FEET))),
    }


def programs(solver: WholeBodyTorque, x: Mapping[str, Array]) -> QuadraticPrograms:
    """Return problems of whole-body torque as quadratic programs, with normals along z."""
    options, problem, batch, nv = solver.options, solver.problem, len(x["q"]), solver.robot.nv
    driven, feet = problem.driven, problem.count
    first, last = nv + len(driven), nv + problem.size
    mass, bias, jacobian, drift = _terms(solver, x)
    unit = units(solver)
    away, slip = np.array(options.acceleration), np.repeat(x["active"], 3, axis=1) * options.contact
    hessian, slope = np.zeros((batch, last, last)), np.zeros((batch, last))
    hessian[:] = np.diag([*away, *[options.torque] * len(driven), *[options.force] * 3 * feet]) * unit * unit[:, None]
    hessian[:, :nv, :nv] += jacobian.swapaxes(1, 2) @ (slip[..., None] * jacobian)
    slope[:, :nv] = np.sum(jacobian * (slip * drift)[..., None], axis=1) - away * x["qdd"]
    torques = np.broadcast_to(np.eye(nv)[:, driven], (batch, nv, len(driven)))
    motion = np.concatenate([mass, -torques, -jacobian.swapaxes(1, 2)], axis=2) * unit
    rows = np.zeros((batch, len(driven) + 5 * feet, last))
    rows[:, : len(driven), nv:first] = np.eye(len(driven))
    for k in range(feet):
        at, height = len(driven) + 5 * k, first + 3 * k + 2
        for edge, (side, sign) in enumerate(((-2, 1.0), (-2, -1.0), (-1, 1.0), (-1, -1.0))):
            rows[:, at + edge, height], rows[:, at + edge, height + side] = x["friction"][:, k], sign
        rows[:, at + 4, height] = 1.0
    most = np.repeat(np.where(x["active"] > 0.0, np.inf, 0.0), 5, axis=1)
    low, high = (np.tile(np.array(end)[driven] / unit[nv:first], (batch, 1)) for end in (options.low, options.high))
    ends = np.concatenate([low, np.zeros_like(most)], axis=1), np.concatenate([high, most], axis=1)
    return QuadraticPrograms(hessian, slope, motion, -bias, rows, *ends)


def _terms(solver: WholeBodyTorque, x: Mapping[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Return the mass matrix, the bias torque, the Jacobian (batch, 3 contacts, nv) of contacts and its drift."""
    robot, state = solver.robot, {name: x[name] for name in ("q", "qd")}
    mass = evaluate(trace(robot, "mass_matrix"), {"q": x["q"]})["m"]
    (bias,) = evaluate(trace(robot, "bias_torque"), state).values()
    rows, drifts = [], []
    for foot in solver.options.contacts:
        (jacobian,) = evaluate(trace(robot, f"frame_jacobian_{foot}"), {"q": x["q"]}).values()
        (drift,) = evaluate(trace(robot, f"frame_bias_acceleration_{foot}"), state).values()
        rows.append(jacobian[:, 3:])
        drifts.append(drift[:, 3:])
    return mass, bias, np.concatenate(rows, axis=1), np.concatenate(drifts, axis=1)


def units(solver: WholeBodyTorque) -> Array:
    """Return the units (n,) of unknowns: 1 for accelerations, those of torques, and the weight of the robot."""
    problem = solver.problem
    return np.array([*[1.0] * solver.robot.nv, *problem.units, *[problem.weight] * 3 * problem.count])


def _solver_of_peer() -> Any:
    """Return the module of ProxQP. Raise MissingExtraError if the package proxsuite is not installed."""
    try:
        import proxsuite  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        raise MissingExtraError(
            "the comparison with ProxQP needs the module 'proxsuite'; pip install proxsuite", code="DG-BENCH-015"
        ) from None
    return proxsuite.proxqp


def proxqp(own: QuadraticPrograms) -> tuple[Array, Array]:
    """Return the solutions (batch, n) by ProxQP, and which problems it solved, (batch,).

    Raises:
        MissingExtraError: The package proxsuite is not installed.
    """
    peer = _solver_of_peer()
    batch, m, n = own.rows.shape
    low, high = np.maximum(own.low, -1e20), np.minimum(own.high, 1e20)
    result, solved = np.empty((batch, n)), np.empty(batch, bool)
    for k in range(batch):
        solve = peer.dense.QP(n, own.motion.shape[1], m)
        solve.settings.eps_abs, solve.settings.eps_rel = TIGHT, 0.0
        solve.settings.max_iter = MOST
        solve.init(own.hessian[k], own.slope[k], own.motion[k], own.bias[k], own.rows[k], low[k], high[k])
        solve.solve()
        result[k] = solve.results.x
        solved[k] = solve.results.info.status == peer.PROXQP_SOLVED
    return result, solved


def costs(own: QuadraticPrograms, x: Array) -> Array:
    """Return the costs (batch,) of unknowns (batch, n), without the part that does not depend on them."""
    curved = np.sum(x * (own.hessian @ x[..., None])[..., 0], axis=1)
    return np.asarray(0.5 * curved + np.sum(own.slope * x, axis=1))


def compared(count: int = 1000, timed: int = 100) -> dict[str, Any]:
    """Return how far torques and forces are from ProxQP's, and processor times of a problem in ns.

    Args:
        count: Number of problems.
        timed: Number of problems that are timed.

    Raises:
        MissingExtraError: The package proxsuite is not installed.
    """
    _solver_of_peer()
    robot = Robot.from_file(robots.path("hyq"), floating_base=True)
    with WholeBodyTorque(robot, FEET, shape="pyramid") as solver:
        x = problems(robot, count)
        own = programs(solver, x)
        solution, (reference, solved) = solver(**x), proxqp(own)
        driven = solver.problem.driven
        plan = np.concatenate([solution.qdd, solution.tau[:, driven], solution.force.reshape(count, -1)], axis=1)
        plan, chosen = plan / units(solver), slice(robot.nv, None)
        away = np.abs(plan - reference)[:, chosen].max(axis=1) / np.abs(reference)[:, chosen].max(axis=1)
        which = np.flatnonzero(solved)[:timed]
        some, single = ({name: value[rows] for name, value in x.items()} for rows in (which, which[:1]))
        part = QuadraticPrograms(*(value[which] for value in own))
        calls = {"ours": lambda: solver(**some), "proxqp": lambda: proxqp(part), "one": lambda: solver(**single)}
        taken = paired(calls, ROUNDS, repeats=3, clock=time.process_time_ns)
    above = (costs(own, plan) - costs(own, reference)) / np.maximum(np.abs(costs(own, reference)), 1.0)
    medians = {name: float(np.median(values)) / (1 if name == "one" else len(which)) for name, values in taken.items()}
    result = {"away": away[solved], "above": above[solved], "solved": solved}
    return {**result, "converged": solution.converged, "ns": medians}


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description="Compare whole-body torque of HyQ with ProxQP.")
    parser.add_argument("--count", type=int, default=1000, help="Solve this many problems. Default: 1000.")
    count = parser.parse_args().count
    try:
        result = compared(count, min(count, 100))
    except MissingExtraError as missing:
        raise SystemExit(str(missing)) from None
    away, above, ns = result["away"], result["above"], result["ns"]
    print(f"HyQ: {int(result['converged'].sum())} of {count} problems converged; ProxQP solved {len(away)}")
    print(f"distance from ProxQP, relative: largest {away.max():.1e}, {int((away < 1e-6).sum())} below 1e-6")
    print(f"cost above ProxQP's, relative: {above.min():.1e} to {above.max():.1e}")
    print(
        f"processor time of a problem in a batch {ns['ours'] / 1e3:.0f} us, in a call of one {ns['one'] / 1e3:.0f} us"
    )
    print(f"ProxQP {ns['proxqp'] / 1e3:.0f} us: {ns['proxqp'] / ns['ours']:.1f} times that of a batch")


if __name__ == "__main__":
    main()
