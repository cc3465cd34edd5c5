"""The variational integrator: its equations against numerical derivatives, its solvers and backends against each other,
its trajectories against another integrator, short forms of its figures, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, RobotError, Rollout, build, evaluate, robots, trace
from dynagate.fixedpoint.assign import Policy
from dynagate.forces.options import StepOptions
from dynagate.integrators.implicit import variational_body as body
from dynagate.integrators.implicit.variational import ITERATION, RESIDUAL, START
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.native.cuda_loop import emit_cuda_loop

from examples.papers.variational import figure_2, figure_3, figure_4a, figure_4b, measurements
from examples.papers.variational.articulated import pose
from examples.papers.variational.chain import chain, states, written
from examples.papers.variational.device import device_inverse
from examples.papers.variational.integrator import Variational, VariationalError
from examples.papers.variational.links import Links, links_of
from examples.papers.variational.loops import kinetic, logarithm, potential, prepare, residual
from examples.papers.variational.newton import jacobian
from examples.papers.variational.svi import discrete_momenta, midpoint_jacobian
from tests.played_card import needs_nvcc
from tests.robots import random_urdf

pytestmark = pytest.mark.long  # Numba compiles for half a minute

BERNOULLI = {0: 1.0, 1: -0.5, 2: 1 / 6, 4: -1 / 30, 6: 1 / 42, 8: -1 / 30, 10: 5 / 66, 12: -691 / 2730, 14: 7 / 6}


@cache
def tree(folder: Path = Path("build")) -> Robot:
    """Nine links with branches and sliding joints, rotors and dampers."""
    folder.mkdir(exist_ok=True)
    path = folder / "variational_tree.urdf"
    path.write_text(random_urdf(4))
    robot = Robot.from_urdf(path)
    joints = [replace(link.joint, armature=0.1 + 0.02 * k, damping=0.3) for k, link in enumerate(robot.links)]
    return replace(robot, links=tuple(replace(l, joint=j) for l, j in zip(robot.links, joints, strict=True)))


def without_damping(robot: Robot) -> Robot:
    return replace(robot, links=tuple(replace(x, joint=replace(x.joint, damping=0.0)) for x in robot.links))


def draw(robot: Robot, *shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (*shape, robot.nv))


def skew(w: Any) -> np.ndarray:
    return np.cross(np.eye(3), np.asarray(w))


def adjoint(turn: Any, v: Any) -> np.ndarray:
    """[ad_ξ], Eq. 13."""
    return np.block([[skew(turn), np.zeros((3, 3))], [skew(v), skew(turn)]])


def exponential(matrix: np.ndarray) -> np.ndarray:
    term = total = np.eye(len(matrix))
    for k in range(1, 40):
        term = term @ matrix / k
        total = total + term
    return total


@pytest.mark.parametrize("angle", [1e-9, 1e-3, 0.3, 1.0, 1.5, 2.5])
def test_logarithm_and_momenta_are_the_series_of_the_paper(angle: float) -> None:
    random = np.random.default_rng(1)
    axis = random.normal(size=3)
    turn, v, wrench = angle * axis / np.linalg.norm(axis), random.normal(size=3), random.normal(size=6)
    motion = exponential(np.block([[skew(turn), v[:, None]], [np.zeros((1, 4))]]))
    e = tuple(np.sin(0.5 * angle) * axis / np.linalg.norm(axis))
    factor, b, slope = logarithm(e, np.cos(0.5 * angle))
    xi = np.ravel(body.twist(e, tuple(motion[:3, 3]), factor, b))
    assert np.allclose(xi, [*turn, *v], rtol=0, atol=1e-14)
    ad = adjoint(turn, v)
    dlog = sum(c * np.linalg.matrix_power(ad, j) / np.prod(np.arange(1.0, j + 1)) for j, c in BERNOULLI.items())
    momenta = body.momenta(tuple(turn), tuple(v), b, slope, tuple(wrench[:3]), tuple(wrench[3:]))
    left, right = np.ravel(momenta[:2]), np.ravel(momenta[2:])
    cut_off = 1e-13 + (angle / 5.0) ** 16  # of the series in the test
    assert np.allclose(left, dlog.T @ wrench, rtol=0, atol=cut_off)
    assert np.allclose(right, exponential(ad).T @ left, rtol=0, atol=1e-12)


def action(links: Links, q0: np.ndarray, q1: np.ndarray, dt: float) -> float:
    """L_d of Eq. 9 for all links."""
    n = len(q0)
    rotation, offset = np.zeros((n, 9)), np.zeros((n, 3))
    pose(links, q1, rotation, offset)
    end = potential(links, rotation, offset)
    pose(links, q0, rotation, offset)
    moving = kinetic(links, rotation, offset, q1 - q0, dt, np.zeros((n, 7)))
    return dt * moving - 0.5 * dt * (potential(links, rotation, offset) + end)


class Evaluated:
    """The residual of a step from q0 over q1 to q2, as loops."""

    def __init__(self, links: Links, q0: np.ndarray, q1: np.ndarray, dt: float) -> None:
        n = len(q0)
        self.links, self.q1, self.dt = links, q1, dt
        self.rotation, self.offset = np.zeros((n, 9)), np.zeros((n, 3))
        self.load, self.impulse = np.zeros((n, 6)), np.zeros(n)
        self.moved, self.momentum = np.zeros((n, 7)), np.zeros((n, 6))
        pose(links, q0, self.rotation, self.offset)
        self(q1 - q0)
        pose(links, q1, self.rotation, self.offset)
        none = np.zeros((0, 6))
        prepare(
            links, self.rotation, self.offset, q1 - q0, self.momentum, np.zeros(n), none, dt, 1.0, self.load,
            self.impulse,
        )  # fmt: skip

    def __call__(self, delta: np.ndarray) -> np.ndarray:
        f = np.zeros(len(delta))
        residual(
            self.links, self.rotation, self.offset, delta, self.load, self.impulse, self.dt, self.moved, f,
            self.momentum, np.zeros((len(f), 6)),
        )  # fmt: skip
        return f


def slope(function: Any, h: float) -> Any:
    """Derivative at 0 by a difference of fourth order."""
    return (8.0 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12.0 * h)


def test_residual_is_the_derivative_of_the_action() -> None:
    """f = -(D₂L_d + D₁L_d) (Eq. 3), on a tree with sliding joints and rotors."""
    robot, dt = without_damping(tree()), 0.05
    links, (q0, rate0, rate1) = links_of(robot), draw(robot, 3)
    q1 = q0 + dt * rate0
    q2 = q1 + dt * rate1
    f = Evaluated(links, q0, q1, dt)(q2 - q1) / dt
    for j, unit in enumerate(np.eye(robot.nv)):

        def varied(h: float, unit: np.ndarray = unit) -> float:
            return action(links, q0, q1 + h * unit, dt) + action(links, q1 + h * unit, q2, dt)

        assert f[j] == pytest.approx(-slope(varied, 1e-4), abs=2e-10 * np.abs(f).max())


def test_recursive_jacobian_is_the_derivative_of_the_residual() -> None:
    robot, dt = tree(), 0.3  # turns large enough for every term
    links, (q0, rate0, rate1) = links_of(robot), draw(robot, 3)
    n, q1, delta = robot.nv, q0 + dt * rate0, dt * rate1
    evaluated = Evaluated(links, q0, q1, dt)
    numeric = np.column_stack([slope(lambda h, u=unit: evaluated(delta + h * u), 1e-3) for unit in np.eye(n)])
    evaluated(delta)
    following, result = (np.zeros((n, 9)), np.zeros((n, 3))), np.zeros((n, n))
    pose(links, q1 + delta, *following)
    jacobian(links, evaluated.rotation, evaluated.offset, *following, evaluated.moved, dt, result)
    assert np.allclose(result, numeric, rtol=0, atol=1e-9 * np.abs(numeric).max())


def test_midpoint_jacobian_is_the_derivative_of_its_residual() -> None:
    robot, dt = tree(), 0.05
    links, (q, rate) = links_of(robot), draw(robot, 2)
    n = robot.nv

    def left(delta: np.ndarray) -> np.ndarray:
        result = np.zeros(n)
        discrete_momenta(links, q, delta, dt, result, np.zeros(n))
        return result

    numeric = np.column_stack([slope(lambda h, u=unit: left(dt * rate + h * u), 1e-3) for unit in np.eye(n)])
    # q moves with the end of the interval: the midpoint is q + delta / 2
    result = np.zeros((n, n))
    midpoint_jacobian(links, q, dt * rate, dt, result)
    assert np.allclose(result, numeric, rtol=0, atol=1e-9 * np.abs(numeric).max())


def forces(robot: Robot, steps: int) -> dict[str, np.ndarray]:
    return {
        "tau": draw(robot, steps, 2, seed=3),
        "external": np.random.default_rng(4).normal(size=(2, len(robot.links), 6)),
    }


@cache
def reference(steps: int = 12) -> np.ndarray:
    q0, qd0 = draw(tree(), 2, 2)
    return Variational(tree(), dt=2e-3, solver="newton", tolerance=1e-11).run(q0, qd0, steps, **forces(tree(), steps)).q


@pytest.mark.parametrize("guess", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "riqn"},
        {"solver": "newton"},
        {"solver": "broyden"},
        {"residual": "printed", "solver": "newton"},
    ],
    ids=lambda options: " ".join(options.values()),
)
def test_all_solvers_find_the_same_root(options: dict[str, Any], guess: int) -> None:
    q0, qd0 = draw(tree(), 2, 2)
    trajectory = Variational(tree(), dt=2e-3, guess=guess, **options).run(q0, qd0, 12, **forces(tree(), 12))
    assert trajectory.q.shape == (2, 13, tree().nv)
    assert trajectory.residuals.max() <= 1e-8
    assert np.abs(trajectory.q - reference()).max() < 1e-8


@pytest.mark.parametrize("solver", ["riqn", "newton", "broyden"])
def test_midpoint_baseline_differs_by_its_quadrature(solver: str) -> None:
    """Both are of second order: half the step, a quarter of the difference."""
    q0, qd0 = draw(tree(), 2)
    load = draw(tree(), seed=3)

    def apart(dt: float) -> float:
        ends = [
            Variational(tree(), dt=dt, residual=form, solver=solver).run(q0, qd0, round(0.04 / dt), tau=load).q[-1]
            for form in ("increment", "svi")
        ]
        return float(np.abs(ends[0] - ends[1]).max())

    coarse, fine = apart(4e-3), apart(2e-3)
    assert 0.0 < coarse < 1e-3
    assert coarse / fine == pytest.approx(4.0, rel=0.1)


def runge_kutta(
    robot: Robot, q: np.ndarray, qd: np.ndarray, dt: float, steps: int, load: np.ndarray, push: np.ndarray
) -> np.ndarray:
    graph = trace(robot, "forward_dynamics", external_forces=True)

    def rate(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return evaluate(graph, {"q": q[None], "qd": qd[None], "tau": load[None], "f_ext": push[None]})["qdd"][0]

    for _ in range(steps):
        a1 = rate(q, qd)
        a2 = rate(q + dt / 2 * qd, qd + dt / 2 * a1)
        a3 = rate(q + dt / 2 * qd + dt**2 / 4 * a1, qd + dt / 2 * a2)
        a4 = rate(q + dt * qd + dt**2 / 2 * a2, qd + dt * a3)
        q, qd = q + dt * qd + dt**2 / 6 * (a1 + a2 + a3), qd + dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return q


def test_forced_motion_is_that_of_forward_dynamics() -> None:
    """Second order, with joint forces, external forces, rotors and dampers, from a moving start."""
    robot, push = tree(), forces(tree(), 1)["external"][0]
    q0, qd0 = draw(robot, 2)
    load = draw(robot, seed=3)
    exact = runge_kutta(robot, q0, qd0, 2e-3, 40, load, push)
    errors = [
        np.abs(Variational(robot, dt=dt).run(q0, qd0, round(0.08 / dt), tau=load, external=push).q[-1] - exact).max()
        for dt in (4e-3, 2e-3)
    ]
    assert errors[1] < 1e-4
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_rollouts_compute_what_loops_compute_and_trajectories_do_not_mix() -> None:
    arm = robots.load("two_joint_arm")
    q0, qd0 = draw(arm, 2, 300)
    loops = Variational(arm, dt=5e-3, guess=4, tolerance=1e-11).run(q0, 3 * qd0, 40)
    rollout = Rollout(arm, steps=40, dt=5e-3, integrator=VariationalIntegrator(guess=4, tolerance=1e-11))
    batch = rollout(q0, 3 * qd0, np.zeros((300, 40, 2)))
    assert np.abs(batch.q - loops.q).max() < 1e-8
    assert len(np.unique(loops.iterations)) > 1  # so that some iterate apart
    alone = rollout(q0[:40], 3 * qd0[:40], np.zeros((40, 40, 2)))
    assert np.array_equal(alone.q, batch.q[:40])


@needs_nvcc
def test_nvcc_takes_the_loop(tmp_path: Path) -> None:
    loop = VariationalIntegrator().motion(robots.load("two_joint_arm"), StepOptions(1e-3)).loop
    (tmp_path / "scan.cu").write_text(emit_cuda_loop(loop, double=True))
    command = [shutil.which("nvcc") or "nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", tmp_path / "scan.cu"]
    done = subprocess.run([*command, "-o", tmp_path / "scan.cubin"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr


def test_a_run_in_pieces_is_the_run() -> None:
    arm = robots.load("two_joint_arm")
    q0, qd0 = draw(arm, 2, 3)
    load = draw(arm, 20, 3, seed=1)
    integrator = Variational(arm, dt=5e-3, guess=4)
    whole = integrator.run(q0, qd0, 20, tau=load)
    first = integrator.advance(integrator.start(q0, qd0), 7, tau=load[:7])
    second = integrator.advance(first.state, 13, tau=load[7:])
    assert np.array_equal(np.concatenate([first.q, second.q[:, 1:]], axis=1), whole.q)
    assert np.allclose(whole.qd[:, 0], qd0, atol=0.5)
    assert np.array_equal(integrator.run(q0[1], qd0[1], 20, tau=load[:, 1:2]).q, whole.q[1])


def test_momentum_of_a_free_chain_is_kept() -> None:
    """Without gravity the first joint's momentum is conserved exactly (discrete Noether theorem), unlike the energy."""
    robot = chain(4, (0.0, 0.0, 0.0))
    q0, qd0 = states(4, 1)
    integrator = Variational(robot, dt=1e-2, tolerance=1e-11)
    state = integrator.start(q0, qd0)

    def momentum(state: Any) -> float:
        links, n = links_of(robot), 4
        rotation, offset, total = np.zeros((n, 9)), np.zeros((n, 3)), np.zeros(n)
        pose(links, state.q[0], rotation, offset)
        from examples.papers.variational.articulated import project

        project(links, rotation, offset, state.momentum[0].copy(), total)
        return float(total[0])

    end = integrator.advance(state, 200).state
    assert momentum(end) == pytest.approx(momentum(state), rel=1e-9)


def test_graphs_are_functions_of_their_own() -> None:
    """The functions trace for any robot, keep their names, and the residual alone is that of the iteration."""
    arm = robots.load("two_joint_arm")
    names = [trace(arm, function).name for function in (START, RESIDUAL, ITERATION)]
    assert names == ["variational_start", "variational_residual", "variational_iteration"]
    inputs = {port.name: np.zeros((1, *port.shape)) for port in trace(arm, ITERATION).inputs}
    inputs |= {"turn": np.array([[[1.0, 0.0]] * 2]), "increment": np.array([[1e-3, 2e-3]]), "dt": np.array([1e-3])}
    inputs["limit"] = np.array([2.0])
    one = evaluate(trace(arm, ITERATION), inputs)
    alone = evaluate(trace(arm, RESIDUAL), {k: inputs[k] for k in ("q", "turn", "increment", "load", "impulse", "dt")})
    assert one["excess"][0] == pytest.approx(np.sum(alone["residual"] ** 2) / 2.0, rel=1e-12)
    assert np.array_equal(one["momentum"], alone["momentum"])


def drawn(script: ModuleType, results: dict[str, Any], folder: Path) -> None:
    """Writes the script's figure and numbers."""
    name = script.__name__
    written(folder, name, results, script.draw(results))
    assert json.loads((folder / f"{name}.json").read_text()).keys() == {str(key) for key in results}
    assert (folder / f"{name}.png").stat().st_size > 10_000


def test_figure_2(tmp_path: Path) -> None:
    results = figure_2.measure(steps=500, seeds=2)
    drawn(figure_2, results, tmp_path)
    assert max(results["riqn largest"]) < 4e-4
    assert min(results["euler largest"]) > 20 * max(results["riqn largest"])


def test_figure_3(tmp_path: Path) -> None:
    results = figure_3.measure((2, 10), seconds=0.004)
    drawn(figure_3, results, tmp_path)
    assert list(results["microseconds"]) == [
        f"{a} + {b}" for a in ("DRNEA", "SVI") for b in ("RIQN", "Broyden", "Newton")
    ]
    assert set(figure_3.ratios(results)) == {"10"}


def test_figure_4a(tmp_path: Path) -> None:
    results = figure_4a.measure()
    drawn(figure_4a, results, tmp_path)
    newton, riqn = np.array(results["newton"]), np.array(results["riqn"])
    assert len(newton) == 4
    assert len(riqn) == 7
    assert newton[2] < 1e-4 * newton[1]
    assert (riqn[1:] < riqn[:-1]).all()


def test_figure_4b(tmp_path: Path) -> None:
    """10 links, 1e-9, IG1: the paper's 4 ± 0.0 and 5.69."""
    results = figure_4b.measure(10, 1e-9, 1, solvers=("newton", "riqn"))
    assert (results["newton"]["mean"], results["newton"]["deviation"]) == (4.0, 0.0)
    assert results["riqn"]["mean"] == pytest.approx(5.67, abs=0.2)
    many = figure_4b.measure(50, 1e-8, 3, steps=30, solvers=("newton", "riqn"))
    assert 2.5 < many["newton"]["mean"] < 3.1
    assert 4.0 < many["riqn"]["mean"] < 6.3
    drawn(figure_4b, {"10 links": results, "50 links": many}, tmp_path)


def test_order_and_floors() -> None:
    assert measurements.order(4, 0.04)["slope"] == pytest.approx(2.0, abs=0.1)
    floors = measurements.floors((10, 100))
    assert floors["increment"][100] < 1e-10
    assert floors["printed"][100] > 100 * floors["increment"][100]
    batch = measurements.rolled(4, 8, 10)
    assert 1.0 < batch["IG4"]["iterations"] < batch["IG3"]["iterations"] + 1.0 < 8.0


def test_fixed_point_inverse_costs_iterations_and_no_accuracy() -> None:
    arm = robots.load("two_joint_arm")
    q0, qd0 = draw(arm, 2, 3)
    double = Variational(arm, dt=1e-3, tolerance=1e-12).run(q0, qd0, 30)
    extra = {}
    for word in (24, 12):
        with dynagate.compile(arm, "mass_matrix_inverse", device="fixed", policy=Policy(word=word)) as accelerator:
            inverse = device_inverse(arm, accelerator)
            fixed = Variational(arm, dt=1e-3, tolerance=1e-12, inverse=inverse).run(q0, qd0, 30)
        assert fixed.residuals.max() <= 1e-12
        assert np.abs(fixed.q - double.q).max() < 1e-9
        extra[word] = fixed.iterations.mean() - double.iterations.mean()
    assert extra[24] <= 0.5 < extra[12]


@pytest.mark.long
def test_inverse_from_the_simulated_datapath(designs: Path) -> None:
    arm = robots.load("two_joint_arm")
    q0, qd0 = draw(arm, 2, 2)
    double = Variational(arm, dt=1e-3).run(q0, qd0, 5)
    with dynagate.open(build(arm, "mass_matrix_inverse", ii=2, folder=designs / "variational")) as accelerator:
        run = Variational(arm, dt=1e-3, inverse=device_inverse(arm, accelerator)).run(q0, qd0, 5)
    assert np.abs(run.q - double.q).max() < 1e-9
    assert run.iterations.mean() - double.iterations.mean() <= 0.5


def test_failures_are_of_each_trajectory() -> None:
    """Two of three do not converge; the third is computed to its end."""
    robot = chain(6)
    q0, qd0 = states(6, 3)
    q0[1], qd0[1] = 0.0, 0.0  # upright, at rest: converges at once
    integrator = Variational(robot, dt=1e-3, guess=2, most=3, tolerance=1e-9)
    with pytest.raises(
        VariationalError, match=r"^step 0 of trajectory 0 \(and 1 other trajectory\): the residual is"
    ) as caught:
        integrator.run(q0, qd0, 4)
    failures, kept = caught.value.failures, caught.value.trajectory
    assert [(f.trajectory, f.step) for f in failures] == [(0, 0), (2, 0)]
    assert all(f.residual > 1e-9 for f in failures)
    assert np.array_equal(failures[1].q, q0[2])
    assert np.allclose(failures[1].qd, qd0[2])
    assert np.isnan(kept.q[0, 1:]).all()
    assert np.array_equal(kept.q[1], np.zeros((5, 6)))
    same = integrator.run(q0, qd0, 4, on_failure="keep")
    assert np.array_equal(same.q, kept.q, equal_nan=True)


def test_turns_near_the_singularity_are_refused() -> None:
    """A wheel about a vertical axis turns evenly, so the step converges and only the turn is wrong."""
    joint = replace(chain(1).links[0].joint, axis=(0.0, 0.0, 1.0))
    wheel = replace(chain(1), links=(replace(chain(1).links[0], joint=joint),))
    message = "turns by 180 degrees in a step, where the logarithm is singular; take a smaller dt than 0.01 s"
    with pytest.raises(VariationalError, match=message):
        Variational(wheel, dt=0.01, guess=2, tolerance=1e-3).run([0.0], [313.5], 3)


WRONG_OPTIONS = [
    ({"dt": 0.0}, "dt 0.0; expected a positive number of seconds"),
    ({"tolerance": -1.0}, "tolerance -1.0; expected a positive number of N m s"),
    ({"most": 0}, "most 0; expected 1 iteration or more"),
    ({"solver": "secant"}, "solver 'secant'; expected one of riqn, newton, broyden"),
    ({"residual": "exact"}, "residual 'exact'; expected one of increment, printed, svi"),
    ({"guess": 5}, "guess 5; expected one of 1, 2, 3, 4"),
    (
        {"residual": "svi", "inverse": len},
        "solver 'riqn' with residual 'svi' and an inverse of your own; expected 'riqn' and",
    ),
]


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS, ids=[message[:40] for _, message in WRONG_OPTIONS])
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Variational(chain(2), **{"dt": 1e-3, **options})
    assert message in str(caught.value)


WRONG_RUNS = [
    ({"q0": [0.0]}, "q0 has shape (1,); expected (2,) or (batch, 2)"),
    ({"qd0": np.zeros((3, 2))}, "q0 has 1 trajectories and qd0 3; expected as many"),
    ({"qd0": [0.0, np.nan]}, "qd0 of trajectory 0 is not finite at 1"),
    ({"steps": 0}, "0 steps; expected a whole number of 1 or more"),
    ({"tau": [1.0]}, "tau has shape (1,); expected (2,), (1, 2) or (4, 1, 2)"),
    ({"tau": [1.0, np.inf]}, "tau is not finite at (0, 0, 1)"),
    ({"external": np.zeros((2, 3))}, "external has shape (2, 3); expected (2, 6), (1, 2, 6) or (4, 1, 2, 6)"),
    ({"on_failure": "ignore"}, "on_failure 'ignore'; expected raise or keep"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_RUNS, ids=[message[:40] for _, message in WRONG_RUNS])
def test_wrong_runs_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Variational(chain(2), dt=1e-3).run(**{"q0": [0.0, 1.0], "qd0": [0.0, 0.0], "steps": 4, **arguments})
    assert message in str(caught.value)


def test_a_tolerance_below_the_floor_is_refused_with_the_floor() -> None:
    q0, qd0 = states(20, 1)
    integrator = Variational(chain(20), dt=1e-3, tolerance=1e-18)
    with pytest.raises(ValueError, match=r"^tolerance 1e-18 N m s is below the floor of rounding, which is ") as caught:
        integrator.run(q0, qd0, 1)
    assert f"{integrator.floor(q0[0], qd0[0]):.2g} for robot 'chain_20' with the residual 'increment'" in str(
        caught.value
    )


def test_robots_that_it_cannot_take_are_refused_by_joint(tmp_path: Path) -> None:
    spherical = replace(chain(2).links[1].joint, type="spherical", axis=(0.0, 0.0, 1.0))
    with pytest.raises(RobotError, match="joint 'joint_1' of robot 'chain_2' is spherical; the baseline takes"):
        Variational(replace(chain(2), links=(chain(2).links[0], replace(chain(2).links[1], joint=spherical))), dt=1e-3)
    empty = replace(chain(2).links[1], mass=0.0, inertia=((0.0,) * 3,) * 3)
    with pytest.raises(RobotError, match="joint 'joint_1' can move without moving any mass"):
        Variational(replace(chain(2), links=(chain(2).links[0], empty)), dt=1e-3)
    loop = random_urdf(4).replace("</robot>", "")
    loop += '<joint name="closing" type="revolute"><parent link="link_2"/><child link="link_0"/>'
    loop += '<axis xyz="0 0 1"/><limit lower="-1" upper="1" velocity="1" effort="1"/></joint></robot>'
    (tmp_path / "loop.urdf").write_text(loop)
    with pytest.raises(RobotError, match="link_0"):
        Robot.from_urdf(tmp_path / "loop.urdf")


ARM = robots.load("two_joint_arm")


def test_a_state_of_another_robot() -> None:
    state = Variational(ARM, dt=1e-3).start(np.zeros(2), np.zeros(2))
    other = Variational(robots.load("iiwa14"), dt=1e-3)
    with pytest.raises(ValueError, match=r"state.q has shape \(1, 2\); expected \(1, 7\)"):
        other.advance(state, 5, on_failure="keep")
    own = Variational(ARM, dt=1e-3)
    with pytest.raises(ValueError, match=r"state.past has shape \(3, 1, 2\); expected \(4, 1, 2\)"):
        own.advance(replace(state, past=state.past[:3]), 5)
    with pytest.raises(ValueError, match=r"state.momentum has shape \(1, 1, 6\); expected \(1, 2, 6\)"):
        own.advance(replace(state, momentum=state.momentum[:, :1]), 5)
    with pytest.raises(TypeError, match="state is a ndarray; expected that of a start or a trajectory"):
        own.advance(state.q, 5)  # type: ignore[arg-type]


def test_torques_that_mean_two_things() -> None:
    """As many rows as trajectories and as steps."""
    start, push = np.zeros((4, 2)), np.array([0.1, 0.0])
    variational = Variational(ARM, dt=1e-3)
    message = (
        r"tau has shape \(4, 2\), which may be a row for each of 4 trajectories or of 4 steps; expected \(1, 4, 2\)"
    )
    with pytest.raises(ValueError, match=message + r" or \(4, 4, 2\)"):
        variational.run(start, start, 4, tau=np.tile(push, (4, 1)))
    by_trajectory = variational.run(start, start, 5, tau=np.tile(push, (4, 1))).q[:, :5]
    assert np.array_equal(variational.run(start, start, 4, tau=np.tile(push, (1, 4, 1))).q, by_trajectory)
    with pytest.raises(ValueError, match=r"tau has shape \(4, 2\); expected \(2,\), \(1, 2\) or \(5, 1, 2\)"):
        variational.run(start[0], start[0], 5, tau=np.tile(push, (4, 1)))


def test_options_of_a_variational_run_are_checked_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    variational = Variational(ARM, dt=1e-3)
    monkeypatch.setattr(variational, "start", None)
    with pytest.raises(ValueError, match="on_failure 'ignore'; expected raise or keep"):
        variational.run(np.zeros(2), np.zeros(2), 3, on_failure="ignore")
    for steps in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"{steps} steps; expected a whole number of 1 or more"):
            variational.run(np.zeros(2), np.zeros(2), steps)  # type: ignore[arg-type]
