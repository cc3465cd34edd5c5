"""Costs of constrained motions next to IPOPT's optima: `python -m dynagate.bench.constrained`.

IPOPT solves the same problems over all states and torques, in CasADi's expressions of the same graphs. It starts near
our plan, since other optima exist farther away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control import Constraint, Cost, sqrt
from dynagate.control.cost import Knot, knot_graph
from dynagate.forces import Ramp
from dynagate.graph import Graph, trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.ops import OPS
from dynagate.host.ilqr import Ilqr
from dynagate.host.solution import Solution
from dynagate.robot import Robot, robots

NEAR = 0.01
"""Standard deviation of the numbers of IPOPT's start, as a part of those of our plan."""
ROUNDED = 1.0
"""Force in N by which the tip of the cone is rounded: a cone has no slope at its tip."""
FRICTION = 0.3
"""Friction coefficient of the leg's foot."""


@dataclass(frozen=True)
class ConstrainedMotion:
    """A motion with constraints. The running and the final cost are residuals of a knot."""

    name: str
    robot: Robot
    knots: int
    dt: float
    running: Callable[[Knot], Any]
    final: Callable[[Knot], Any]
    constraints: Sequence[Constraint]
    start: Array
    tau: Array
    """Torques, or rates of torques, that the search starts with, (knots, nv)."""
    bounds: tuple[Array, Array]
    """Lowest and highest torques, or rates of torques, (nv,)."""
    active: Array | None = None
    """Whether the foot is on the ground at each knot, (knots, 1), or None without a foot."""
    ramp: Array | None = None
    """First torques (nv,) of a motion that is planned by rates of torques."""
    inputs: Mapping[str, Any] = field(default_factory=dict)


def ours(problem: ConstrainedMotion) -> Solution:
    """Return the plan of `dynagate.ilqr`."""
    options: dict[str, Any] = {"constrained": True} if problem.active is not None else {}
    options |= {"forces": [Ramp()]} if problem.ramp is not None else {}
    cost = Cost(problem.running, problem.final)
    passed: dict[str, Any] = {} if problem.active is None else {"active": problem.active}
    passed |= {} if problem.ramp is None else {"ramp": problem.ramp}
    with Ilqr(
        problem.robot,
        knots=problem.knots,
        dt=problem.dt,
        cost=cost,
        constraints=list(problem.constraints),
        bounds=problem.bounds,
        iterations=800,
        **options,
    ) as solver:
        return solver(problem.start, np.zeros(problem.robot.nv), problem.tau, **passed)


def expression(graph: Graph, casadi: Any) -> Any:
    """Return a graph as a CasADi function of its inputs, each as a vector."""
    symbols = [casadi.SX.sym(port.name, len(port.nodes)) for port in graph.inputs]
    values: list[Any] = [None] * len(graph)
    for port, symbol in zip(graph.inputs, symbols, strict=True):
        for i, entry in zip(port.nodes, casadi.vertsplit(symbol), strict=True):
            values[i] = entry
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            constant = [] if node.constant is None else [node.constant]
            values[i] = OPS[node.op].real(*(values[a] for a in node.args), *constant)
    results = [casadi.vertcat(*(values[i] for i in port.nodes)) for port in graph.outputs]
    return casadi.Function(graph.name, symbols, results, [port.name for port in graph.inputs], ["o"])


def ipopt(problem: ConstrainedMotion, plan: Solution) -> tuple[float, bool]:
    """Return the least cost by IPOPT near a plan, and whether IPOPT converged."""
    import casadi

    robot, n, dt, nv = problem.robot, problem.knots, problem.dt, problem.robot.nv
    name = "forward_dynamics" if problem.active is None else "constrained_forward_dynamics"
    dynamics = expression(trace(robot, name, outputs=["qdd"]), casadi)
    running, final = (
        expression(knot_graph("term", robot, {}, term, last), casadi)
        for term, last in ((problem.running, False), (problem.final, True))
    )
    q, qd, u = (casadi.MX.sym(key, nv, n + more) for key, more in (("q", 1), ("qd", 1), ("u", 0)))
    rules: list[Any] = []
    low: list[float] = []
    high: list[float] = []
    cost: Any = 0.0
    torque: Any = problem.ramp
    for k in range(n + 1):
        last = k == n
        state = {"q": q[:, k], "qd": qd[:, k]}
        if not last:
            torque = u[:, k] if problem.ramp is None else torque + dt * u[:, k]
            motion = {**state, "tau": torque}
            if problem.active is not None:
                motion["active"] = problem.active[k]
            after = qd[:, k] + dt * dynamics(**motion)["o"]
            rules += [qd[:, k + 1] - after, q[:, k + 1] - q[:, k] - dt * after]
            low += [0.0] * (2 * nv)
            high += [0.0] * (2 * nv)
            state["tau"] = u[:, k]
        residuals = _value(final if last else running, state)
        cost = cost + casadi.sumsqr(residuals) * (0.5 if last else 0.5 * dt)
        for constraint in problem.constraints:
            if constraint.holds(last):
                graph = knot_graph("constraint", robot, {}, constraint.function, last)
                rule = _value(expression(graph, casadi), state)
                rules.append(rule)
                low += [0.0 if constraint.equal else -math.inf] * rule.shape[0]
                high += [0.0] * rule.shape[0]
    unknown = casadi.vertcat(casadi.vec(q), casadi.vec(qd), casadi.vec(u))
    options = {"ipopt.print_level": 0, "print_time": False, "ipopt.tol": 1e-9, "ipopt.max_iter": 3000}
    solve = casadi.nlpsol("solve", "ipopt", {"x": unknown, "f": cost, "g": casadi.vertcat(*rules)}, options)
    start = np.concatenate([part.ravel() for part in (plan.q, plan.qd, plan.tau)])
    start = start * (1.0 + NEAR * np.random.default_rng(0).normal(size=len(start)))
    states = np.full((2, n + 1, nv), math.inf)
    states[0, 0], states[1, 0] = problem.start, 0.0
    most = np.concatenate([states.ravel(), np.tile(problem.bounds[1], n)])
    states[:, 1:] = -math.inf
    least = np.concatenate([states.ravel(), np.tile(problem.bounds[0], n)])
    result = solve(x0=start, lbx=least, ubx=most, lbg=low, ubg=high)
    return float(result["f"]), bool(solve.stats()["success"])


def _value(function: Any, values: Mapping[str, Any]) -> Any:
    """Return the result of a function that reads some of these values."""
    return function(**{name: values[name] for name in function.name_in()})["o"]


def problems() -> list[ConstrainedMotion]:
    """Return the five problems."""
    return [*_arm_problems(), *_leg_problems()]


def _arm_problems() -> list[ConstrainedMotion]:
    arm = robots.load("two_joint_arm", damping=False).with_frame("tip", on="forearm", translation=(0.0, 0.0, 0.36))
    goal, center, place = np.array([1.5, 0.4]), np.array([0.62, 0.55]), np.array([0.55, 0.45])
    free = (np.full(2, -math.inf), np.full(2, math.inf))

    def residuals(knot: Knot) -> Any:
        heavy = 10.0 if knot.last else 1.0
        moving = [(q - g) * heavy for q, g in zip(knot.q, goal, strict=True)]
        return [*moving, *(0.3 * heavy * x for x in knot.qd), *([] if knot.last else [0.1 * x for x in knot.tau])]

    def smooth(knot: Knot) -> Any:
        heavy = 10.0 if knot.last else 1.0
        moving = [(q - g) * heavy for q, g in zip(knot.q, goal, strict=True)]
        return [*moving, *(0.3 * heavy * x for x in knot.qd), *([] if knot.last else [1e-3 * x for x in knot.tau])]

    def ball(knot: Knot) -> Any:
        x, _, z = knot.position("tip")
        return 0.15**2 - (x - center[0]) * (x - center[0]) - (z - center[1]) * (z - center[1])

    shared: dict[str, Any] = {"knots": 20, "dt": 0.025, "start": np.array([0.1, 0.2])}
    held = evaluate(
        trace(arm, "inverse_dynamics"), {name: shared["start"][None] * (name == "q") for name in ("q", "qd", "qdd")}
    )["tau"]
    still: dict[str, Any] = {**shared, "tau": np.tile(held, (20, 1)), "bounds": free}
    rate = np.full(2, 150.0)
    return [
        ConstrainedMotion(
            "obstacle",
            arm,
            running=residuals,
            final=residuals,
            constraints=[Constraint(ball, at="all", scale=0.1)],
            **still,
        ),
        ConstrainedMotion(
            "end pose",
            arm,
            running=residuals,
            final=residuals,
            constraints=[
                Constraint(lambda knot: knot.position("tip")[::2] - place, equal=True, at="end", scale=0.1),
                Constraint(lambda knot: knot.qd, equal=True, at="end"),
            ],
            **still,
        ),
        ConstrainedMotion(
            "torque rate",
            arm,
            running=smooth,
            final=smooth,
            constraints=[],
            tau=np.zeros((20, 2)),
            bounds=(-rate, rate),
            ramp=held[0],
            **shared,
        ),
    ]


def leg_robot() -> Robot:
    """Return a body that slides in all directions on a leg of three joints, with its foot on the ground."""

    def link(name: str, mass: float, down: float, inertia: float) -> str:
        turn = " ".join(f'{axis}="{inertia}"' for axis in ("ixx", "iyy", "izz"))
        return (
            f'<link name="{name}"><inertial><origin xyz="0 0 {-down}"/><mass value="{mass}"/>'
            f'<inertia {turn} ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )

    def joint(name: str, kind: str, links: tuple[str, str], axis: str, down: float = 0.0) -> str:
        return (
            f'<joint name="{name}" type="{kind}"><parent link="{links[0]}"/><child link="{links[1]}"/>'
            f'<origin xyz="0 0 {-down}"/><axis xyz="{axis}"/>'
            '<limit lower="-9" upper="9" effort="200" velocity="90"/></joint>'
        )

    text = "".join(
        (
            '<robot name="leg"><link name="ground"/><link name="foot"/>',
            *(link(name, 0.01, 0.0, 1e-5) for name in ("along", "across")),
            link("body", 6.0, 0.0, 0.05) + link("hip", 0.8, 0.02, 0.002),
            link("thigh", 1.0, 0.12, 0.006) + link("shank", 0.4, 0.12, 0.003),
            joint("x", "prismatic", ("ground", "along"), "1 0 0")
            + joint("y", "prismatic", ("along", "across"), "0 1 0"),
            joint("z", "prismatic", ("across", "body"), "0 0 1")
            + joint("sideways", "revolute", ("body", "hip"), "1 0 0"),
            joint("swing", "revolute", ("hip", "thigh"), "0 1 0")
            + joint("knee", "revolute", ("thigh", "shank"), "0 1 0", 0.25),
            '<joint name="ankle" type="fixed"><parent link="shank"/><child link="foot"/>',
            '<origin xyz="0 0 -0.25"/></joint></robot>',
        )
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "leg.urdf"
        path.write_text(text)
        return Robot.from_file(path).with_contact("foot", damping=20.0)


def _leg_problems() -> list[ConstrainedMotion]:
    leg, knots = leg_robot(), 20
    start = np.array([0.0, 0.0, 0.0, 0.0, 0.6, -1.2])
    still = np.zeros((1, 6))
    inverse = trace(leg, "constrained_inverse_dynamics", outputs=["tau"])
    held = evaluate(inverse, {"q": start[None], "qd": still, "qdd": still, "active": np.ones((1, 1))})["tau"]
    held[:, :3] = 0.0
    ends = np.array([0.0, 0.0, 0.0, 120.0, 120.0, 120.0])
    shared: dict[str, Any] = {"knots": knots, "dt": 0.02, "start": start, "bounds": (-ends, ends)}

    def cone(knot: Knot) -> Any:
        x, y, z = knot.constraint_force()
        return sqrt(x * x + y * y + ROUNDED * ROUNDED) - z * FRICTION

    def towards(goal: Array, speed: float, weight: float) -> Callable[[Knot], Any]:
        def residuals(knot: Knot) -> Any:
            heavy = weight if knot.last else 1.0
            moving = [(q - g) * heavy * 3.0 for q, g in zip(knot.q, goal, strict=True)]
            rates = [0.1 * heavy * x for x in knot.qd]
            if knot.last and speed:
                rates[2] = (knot.qd[2] - speed) * 3.0
            return [*moving, *rates, *([] if knot.last else [0.01 * x for x in knot.tau])]

        return residuals

    forward, up = start + np.array([0.15, 0.0, -0.02, 0.0, 0.0, 0.0]), start
    rough, fine = (Constraint(cone, scale=scale) for scale in (300.0, 30.0))
    slide, jump = towards(forward, 0.0, 10.0), towards(up, 1.5, 1.0)
    common: dict[str, Any] = {"robot": leg, "tau": np.tile(held, (knots, 1)), "active": np.ones((knots, 1)), **shared}
    return [
        ConstrainedMotion("friction cone", running=slide, final=slide, constraints=[rough], **common),
        ConstrainedMotion("jump of a leg", running=jump, final=jump, constraints=[fine], **common),
    ]


def main() -> None:
    """Print a line for each problem."""
    print("| problem | our cost | IPOPT's | ours / IPOPT's - 1 | largest violation | iterations |")
    print("|---|---|---|---|---|---|")
    for problem in problems():
        plan = ours(problem)
        least, converged = ipopt(problem, plan)
        violation = max(np.ravel(plan.violation).tolist(), default=0.0) if problem.constraints else 0.0
        print(
            f"| {problem.name} | {float(plan.cost):.6f} | {least:.6f}{'' if converged else ' (not converged)'} | "
            f"{float(plan.cost) / least - 1.0:+.1e} | {violation:.1e} | {int(plan.iterations)}"
            f"{'' if plan.converged else ' (not converged)'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
