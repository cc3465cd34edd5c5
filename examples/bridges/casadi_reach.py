"""A reach by CasADi and IPOPT: an external function in C beside the same equations as CasADi's own expressions.

    python examples/bridges/casadi_reach.py [two_joint_arm | PATH]

The same arm, cost and solver, and solve times of one run. C is called back through Python, once per knot.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import casadi
import numpy as np
from dynagate import FUNCTIONS, robots
from dynagate.mpc.casadi import casadi_function

KNOTS, DT = 20, 0.05
robot = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else "two_joint_arm"
arm = robots.load(robot)
n = arm.nv
start, target = (np.concatenate([np.resize(q, n), np.zeros(n)]) for q in ([0.3, 0.2], [-1.0, 1.1]))
external = casadi_function(arm, "forward_dynamics")


def its_own() -> casadi.Function:
    """The algorithm on CasADi's scalars."""
    symbols = [casadi.SX.sym(name, n) for name in ("q", "qd", "tau")]
    (qdd,) = FUNCTIONS["forward_dynamics"](arm, *(casadi.vertsplit(x) for x in symbols))
    return casadi.Function("qdd", symbols, [casadi.vertcat(*qdd)])


def solved(acceleration: Callable[..., Any]) -> tuple[float, int, float]:
    """Cost, iterations and seconds of IPOPT on the multiple-shooting problem."""
    x, u = casadi.MX.sym("x", 2 * n, KNOTS + 1), casadi.MX.sym("u", n, KNOTS)
    cost, gaps = 100.0 * casadi.sumsqr(x[:, KNOTS] - target), [x[:, 0] - start]
    for k in range(KNOTS):
        cost += DT * (casadi.sumsqr(x[:, k] - target) + 1e-2 * casadi.sumsqr(u[:, k]))
        speed = x[n:, k] + DT * acceleration(x[:n, k], x[n:, k], u[:, k])
        gaps.append(x[:, k + 1] - casadi.vertcat(x[:n, k] + DT * speed, speed))
    problem = {"x": casadi.vertcat(casadi.vec(x), casadi.vec(u)), "f": cost, "g": casadi.vertcat(*gaps)}
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    solver = casadi.nlpsol("reach", "ipopt", problem, quiet)
    guess = np.concatenate([np.tile(start, KNOTS + 1), np.zeros(n * KNOTS)])
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
