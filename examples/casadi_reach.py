"""A reach by CasADi and IPOPT: an external function in C beside the same equations as CasADi's own expressions.

The same arm, cost and solver, and solve times of one run. C is called back through Python, once per knot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import casadi
import numpy as np
from dynagate import FUNCTIONS, robots
from dynagate.mpc.casadi import casadi_function

KNOTS, DT = 20, 0.05
start, target = np.array([0.3, 0.2, 0.0, 0.0]), np.array([-1.0, 1.1, 0.0, 0.0])
external = casadi_function("two_joint_arm", "forward_dynamics")


def its_own() -> casadi.Function:
    """The algorithm on CasADi's scalars."""
    symbols = [casadi.SX.sym(name, 2) for name in ("q", "qd", "tau")]
    (qdd,) = FUNCTIONS["forward_dynamics"](robots.load("two_joint_arm"), *(casadi.vertsplit(x) for x in symbols))
    return casadi.Function("qdd", symbols, [casadi.vertcat(*qdd)])


def solved(acceleration: Callable[..., Any]) -> tuple[float, int, float]:
    """Cost, iterations and seconds of IPOPT on the multiple-shooting problem."""
    x, u = casadi.MX.sym("x", 4, KNOTS + 1), casadi.MX.sym("u", 2, KNOTS)
    cost, gaps = 100.0 * casadi.sumsqr(x[:, KNOTS] - target), [x[:, 0] - start]
    for k in range(KNOTS):
        cost += DT * (casadi.sumsqr(x[:, k] - target) + 1e-2 * casadi.sumsqr(u[:, k]))
        speed = x[2:, k] + DT * acceleration(x[:2, k], x[2:, k], u[:, k])
        gaps.append(x[:, k + 1] - casadi.vertcat(x[:2, k] + DT * speed, speed))
    problem = {"x": casadi.vertcat(casadi.vec(x), casadi.vec(u)), "f": cost, "g": casadi.vertcat(*gaps)}
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    solver = casadi.nlpsol("reach", "ipopt", problem, quiet)
    guess = np.concatenate([np.tile(start, KNOTS + 1), np.zeros(2 * KNOTS)])
    begin = time.perf_counter()
    result = solver(x0=guess, lbg=0.0, ubg=0.0)
    seconds = time.perf_counter() - begin
    assert solver.stats()["success"]
    return float(result["f"]), int(solver.stats()["iter_count"]), seconds


peer, ours = solved(its_own()), solved(external)
if __name__ == "__main__":
    for name, (cost, iterations, seconds) in (("CasADi's own", peer), ("dynagate's", ours)):
        print(f"{name:18} cost {cost:.6f}, {iterations} iterations, {1e3 * seconds:.1f} ms")
    print(f"ratio per iteration {ours[2] / ours[1] / (peer[2] / peer[1]):.2f}")
