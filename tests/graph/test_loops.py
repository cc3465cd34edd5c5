"""Loops of graphs: the contract, the executors against each other, steps of integrators, and rollouts."""

from __future__ import annotations

import math
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, Robot, evaluate, robots, trace
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.forces import Friction, Stops
from dynagate.forces.options import StepOptions
from dynagate.graph import GraphError
from dynagate.graph.loop import ITERATIONS, RESIDUAL, Count, Loop, Until, evaluate_loop
from dynagate.host.drift import drift, shortest_word
from dynagate.host.rollouts import Rollout
from dynagate.integrators.trajectories import motions
from dynagate.native.loop import LoopKernel

from tests.small_loops import accumulated_roots, check_linearization, robot_of, square_root, states_of, swapping


@pytest.mark.parametrize("batch", [1, 3, 16, 37])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_c_equals_the_reference(batch: int, dtype: type, cache: Path) -> None:
    random = np.random.default_rng(batch)
    cases = [
        (swapping(), {"a": (batch, 3), "b": (batch, 3), "more": (batch, 5, 3)}, 5),
        (accumulated_roots(), {"total": (batch,), "number": (batch, 4)}, 4),
        (square_root(), {"a": (batch,), "x": (batch,)}, 0),
    ]
    for loop, shapes, iterations in cases:
        inputs = {name: random.uniform(0.5, 9.0, shape).astype(dtype) for name, shape in shapes.items()}
        expected = evaluate_loop(loop, inputs)
        kernel = LoopKernel(loop, dtype, folder=cache)
        outputs = kernel.new_outputs(batch, iterations)
        assert kernel(inputs, outputs, batch, iterations)
        for name, value in expected.items():
            if name in (ITERATIONS, RESIDUAL) and dtype is np.float32:
                continue  # 1e-12 is below its rounding
            np.testing.assert_allclose(outputs[name], value, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-12)


def test_samples_end_by_themselves(cache: Path) -> None:
    loop = square_root()
    inputs = {"a": np.array([4.0, 1e12, np.nan, 2.0]), "x": np.array([2.0, 1.0, 1.0, 1.0])}
    expected = evaluate_loop(loop, inputs)
    assert expected[ITERATIONS].tolist() == [1.0, 20.0, 20.0, 5.0]
    assert np.isnan(expected[RESIDUAL][2])
    assert expected[RESIDUAL][1] > 1e-12
    kernel = LoopKernel(loop, np.float64, folder=cache)
    for rows in (slice(0, 4), slice(0, 1)):
        own = {name: np.tile(value[rows], 9) for name, value in inputs.items()}  # vectors, with samples of each kind
        outputs = kernel.new_outputs(len(own["a"]), 0)
        kernel(own, outputs, len(own["a"]), 0)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], np.tile(value[rows], 9), rtol=1e-12, atol=1e-15, err_msg=name)


def test_what_a_loop_refuses() -> None:
    (graph,) = swapping().steps

    def loop(**changes: object) -> Loop:
        options = {"steps": (graph,), "carry": {"next_a": "a"}, "stop": Count(3), "last": ("next_a",)}
        return Loop("swap", "none", **{**options, **changes})  # type: ignore[arg-type]

    loop()
    for changes, message in [
        ({"carry": {"next_c": "a"}}, "carries 'next_c', which no step computes"),
        ({"carry": {"next_a": "c"}}, "carries 'next_a' to 'c', which is no input of a step"),
        ({"carry": {"next_a": "a", "next_b": "a"}}, "carries two values to one input"),
        ({"per_iteration": ("a",)}, "'a' is per iteration; expected an input of a step that is not carried"),
        ({"kept": ("c",)}, "gives 'c', which no step computes"),
        ({"stop": Count(0)}, "0 iterations; expected 1 or more"),
        ({"stop": Count()}, "its iterations are counted by per-iteration inputs"),
        ({"stop": Until("both", 1e-3, 5)}, "ends by 'both'; expected a value () of a step"),
        ({"steps": ()}, "it has no steps"),
        ({"every": 0}, "it gives values every 0 iterations; expected 1 or more"),
        ({"steps": (graph, graph)}, None),
        ({"steps": (swapping(),), "carry": {}}, "step 'swap' is a loop with as many iterations as its inputs have"),
        ({"last": ("next_a", "both", "next_a")}, "it gives 'next_a' twice"),
        ({"kept": ("next_a",)}, "it gives 'next_a' twice"),
    ]:
        if message is None:
            loop(**changes)
            continue
        with pytest.raises(GraphError, match="loop 'swap' of 'none': ") as error:
            loop(**changes)
        assert message in str(error.value)
    with pytest.raises(GraphError, match="tolerance 0.0; expected more than 0"):
        Loop("root", "none", square_root().steps, {}, Until("residual_of", 0.0, 3), last=("better",))
    with pytest.raises(GraphError, match="at most 0 iterations; expected 1 or more"):
        Loop("root", "none", square_root().steps, {}, Until("residual_of", 1e-3, 0), last=("better",))
    with pytest.raises(ValueError, match=r"input 'more' has shape \(2, 3\); expected \(batch, iterations, 3\)"):
        evaluate_loop(swapping(), {"a": np.ones((2, 3)), "b": np.ones((2, 3)), "more": np.ones((2, 3))})
    with pytest.raises(ValueError, match="input 'b' is missing; expected shape"):
        evaluate_loop(swapping(), {"a": np.ones((2, 3)), "more": np.ones((2, 4, 3))})


@pytest.mark.parametrize("name", [pytest.param("two_joint_arm", marks=pytest.mark.long), "floating"])
@pytest.mark.parametrize("integrator", list(EXPLICIT_METHODS))
def test_order_of_each_method(integrator: str, name: str, tmp_path: Path) -> None:
    """The error after 50 ms falls with the step as the method's order says, also on the group of rotations."""
    robot = robot_of(name, tmp_path)
    method = EXPLICIT_METHODS[integrator]
    graph = trace(robot, "forward_dynamics")
    q0, qd0, _ = states_of(robot, 1, 1)
    tau = np.full((1, robot.nv), 0.3)

    def acceleration(q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        at = {"q": np.array([q], dtype=float), "qd": np.array([qd], dtype=float), "tau": tau}
        return evaluate(graph, at)["qdd"][0].astype(object)

    def end(method: str, count: int) -> np.ndarray:
        q, qd = q0[0].astype(object), 4.0 * qd0[0].astype(object)
        for _ in range(count):
            q, qd = EXPLICIT_METHODS[method].step(robot, acceleration, q, qd, 0.05 / count)
        return np.concatenate([q, qd]).astype(float)

    exact = end("rk4", 60)
    counts = {1: (20, 40), 2: (10, 20)}.get(method.order, (5, 10))
    errors = [np.linalg.norm(end(integrator, count) - exact) for count in counts]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(method.order, abs=0.1)


@pytest.mark.parametrize(
    ("name", "integrator", "options"),
    [
        ("two_joint_arm", "semi_implicit_euler", {"forces": (Friction(0.4), Stops())}),
        ("two_joint_arm", "rk4", {}),
        ("floating", "semi_implicit_euler", {}),
        ("floating", "rk2", {}),
        pytest.param("iiwa14", "semi_implicit_euler", {}, marks=pytest.mark.long),
    ],
)
def test_linearization_is_the_complex_step_of_the_step(
    name: str, integrator: str, options: dict, tmp_path: Path
) -> None:
    check_linearization(robot_of(name, tmp_path), StepOptions(0.01, integrator, **options))


@pytest.mark.parametrize(
    ("name", "integrator"), [("two_joint_arm", "rk4"), ("floating", "semi_implicit_euler"), ("prismatic", "rk2")]
)
def test_rollouts_in_c_equal_the_reference(name: str, integrator: str, tmp_path: Path) -> None:
    robot = robot_of(name, tmp_path)
    q, qd, tau = states_of(robot, 21, 6)
    options = {"steps": 6, "dt": 0.01, "integrator": integrator, "linearize": name != "prismatic"}
    fast, slow = (Rollout(robot, device=device, **options)(q, qd, tau) for device in ("cpu", "numpy"))
    assert fast.q.shape == (21, 7, robot.nq)
    assert (fast.diverged == -1).all()
    for field in ("q", "qd", "a", "b"):
        got, expected = getattr(fast, field), getattr(slow, field)
        if expected is not None:
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9, err_msg=field)
    one = Rollout(robot, **options)(q[4], qd[4], tau[4])
    np.testing.assert_allclose(one.q, slow.q[4], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("name", ["two_joint_arm", "floating"])
def test_gradient_of_a_cost_by_the_reverse_sweep(name: str, device: str, tmp_path: Path) -> None:
    """Against the chain of A and B."""
    robot = robot_of(name, tmp_path)
    n, steps = robot.nv, 5
    q, qd, tau = states_of(robot, 3, steps)
    rollout = Rollout(robot, steps=steps, dt=0.01, linearize=True, device=device)
    trajectories = rollout(q, qd, tau)
    random = np.random.default_rng(3)
    cost = random.normal(size=(3, steps + 1, 2 * n))
    got = rollout.vjp(trajectories, tau, cost[..., :n], cost[..., n:])
    lam, by_tau = cost[:, -1], []
    for k in reversed(range(steps)):
        by_tau.append(np.einsum("bi,bij->bj", lam, trajectories.b[:, k]))
        lam = cost[:, k] + np.einsum("bi,bij->bj", lam, trajectories.a[:, k])
    np.testing.assert_allclose(got["tau"], np.stack(by_tau[::-1], axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.concatenate([got["q0"], got["qd0"]], axis=1), lam, rtol=1e-9, atol=1e-9)


def test_a_trajectory_that_diverges_harms_no_other() -> None:
    robot = robots.load("two_joint_arm")
    q, qd, tau = states_of(robot, 20, 30)
    for device in ("cpu", "numpy"):
        rollout = Rollout(robot, steps=30, dt=0.01, device=device)
        good = rollout(q, qd, tau)
        worse = tau.copy()
        worse[7, 3:] = 1e200
        bad = rollout(q, qd, worse)
        assert 4 <= bad.diverged[7] <= 30
        assert np.isfinite(bad.q[7, : bad.diverged[7]]).all()
        others = np.arange(20) != 7
        assert (bad.diverged[others] == -1).all()
        assert np.array_equal(bad.q[others], good.q[others])


def test_time_step_as_an_input() -> None:
    robot = robots.load("two_joint_arm")
    q, qd, tau = states_of(robot, 5, 4)
    for device in ("cpu", "numpy"):
        constant = Rollout(robot, steps=4, dt=0.015, device=device)(q, qd, tau)
        given = Rollout(robot, steps=4, dt=None, device=device)(q, qd, tau, dt=0.015)
        np.testing.assert_allclose(given.q, constant.q, rtol=1e-13)


def test_a_joint_ends_at_its_limit() -> None:
    robot = robots.load("two_joint_arm")
    upper = robot.links[0].joint.upper
    assert upper is not None
    rollout = Rollout(robot, steps=200, dt=0.01, forces=[Stops()])
    result = rollout(np.zeros(2), np.zeros(2), np.tile([80.0, 0.0], (200, 1)))
    assert result.q[:, 0].max() == upper
    assert result.qd[np.argmax(result.q[:, 0]), 0] == 0.0


def test_friction_brakes_and_takes_no_more_than_it_says() -> None:
    robot = robots.load("two_joint_arm")
    still = Robot(robot.name, robot.links, (0.0, 0.0, 0.0))
    free, braked = (
        Rollout(still, steps=100, dt=0.002, integrator="rk4", forces=[Friction(friction)])(
            np.zeros(2), np.ones(2), np.zeros((100, 2))
        )
        for friction in (0.0, 0.2)
    )
    energy = trace(still, "kinetic_energy")
    lost = [evaluate(energy, {"q": t.q, "qd": t.qd})["kinetic_energy"] for t in (free, braked)]
    assert lost[0][-1] == pytest.approx(lost[0][0], rel=1e-6)
    way = np.abs(np.diff(braked.q, axis=0)).sum()
    assert 0.9 * 0.2 * way < lost[1][0] - lost[1][-1] <= 0.2 * way * 1.001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dt": 0.0}, "dt=0.0; expected a time step of more than 0 s"),
        ({"dt": float("nan")}, "dt=nan; expected a time step"),
        ({"steps": 0}, "steps=0; expected a whole number of 1 or more"),
        ({"integrator": "rk5"}, "integrator 'rk5'; expected one of euler, semi_implicit_euler, rk2, rk3, rk4"),
        ({"device": "tpu"}, r"device 'tpu'; expected one of numpy, fixed, cpu, cuda \[DG-"),
        ({"forces": [Friction((1.0,))]}, "friction has 1 numbers; expected one, or 2"),
        (
            {"forces": [Friction(), Friction(0.3)]},
            "forces has 2 of Friction: Fric",
        ),
        ({"forces": [Stops(), Stops()]}, "forces has 2 of Stops: Stops"),
        ({"form": "lu"}, "forward_dynamics has no form 'lu'; expected one of mass_matrix_solve, aba"),
        ({"every": 2}, "every=2 of 3 steps; expected a whole number that divides them"),
        ({"every": 0}, "every=0 of 3 steps; expected a whole number that divides them"),
        ({"every": 3, "linearize": True}, "linearize with every=3; expected every=1: a and b are those of every step"),
        ({"threads": 2, "device": "numpy"}, "device 'numpy' of a rollout takes no option 'threads'; it takes none"),
        ({"device": "numpy", "dtype": "float32"}, "takes no option 'dtype'; it takes none"),
    ],
)
def test_what_a_rollout_refuses(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Rollout(robots.load("two_joint_arm"), **{"steps": 3, "dt": 0.01, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"Rollout\(\) without steps; expected robot, steps, dt"),
        (
            {"steps": 3, "pack": True},
            r"Rollout\(\) got an unexpected keyword argument 'pack'; expected one of",
        ),
        ({"steps": 3, "ii": 4}, r"Rollout\(\) got an unexpected keyword argument 'ii'; expected one of robot, steps"),
        ({"steps": 3, "device": "fixed", "dtype": "float32"}, "device 'fixed' of a rollout takes no option 'dtype'"),
        ({"steps": 3, "device": "tpu"}, r"device 'tpu'; expected one of numpy, fixed, cpu, cuda \[DG-"),
        (
            {"steps": 3, "overflow": "raise"},
            r"Rollout\(\) got an unexpected keyword argument 'overflow'; expected one of",
        ),
        ({"steps": 3, "dt": -0.1}, "dt=-0.1; expected a time step of more than 0 s"),
    ],
)
def test_what_open_refuses_of_a_rollout(options: dict, message: str) -> None:
    """Before any work: the robot is not even read."""
    with pytest.raises((ValueError, TypeError), match=message):
        dynagate.Rollout("no_such_robot", **{"dt": 0.01, **options})


def test_steps_belong_to_rollouts() -> None:
    with pytest.raises(
        TypeError, match=r"compile\(\) got an unexpected keyword argument 'steps'; for a motion write dynagate\.Rollout"
    ):
        dynagate.compile("no_such_robot", "step", steps=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("device", ["cpu", "numpy", "fixed"])
def test_open_gives_the_states_of_every_so_many_steps(device: str) -> None:
    robot = robots.load("two_joint_arm")
    q, qd, tau = states_of(robot, 20, 6)
    options = {"steps": 6, "dt": 0.01, "integrator": "semi_implicit_euler", "device": device}
    whole = dynagate.Rollout(robot, **options)(q, qd, tau)  # type: ignore[call-overload]
    for every in (2, 6):
        rollout = dynagate.Rollout(robot, every=every, **options)  # type: ignore[call-overload]
        part = rollout(q, qd, tau)
        assert part.q.shape == (20, 6 // every + 1, 2)
        assert np.array_equal(part.q, whole.q[:, ::every], equal_nan=True)
        assert np.array_equal(part.qd, whole.qd[:, ::every], equal_nan=True)
    if device != "fixed":
        with pytest.raises(ValueError, match="every=6: this rollout lacks states to sweep back over; expected every=1"):
            rollout.vjp(part, tau, part.q, part.q)


def test_a_small_call_again() -> None:
    """Its arrays are bound to the kernel: results are new ones each time, and what is wrong with inputs is said."""
    robot = robots.load("two_joint_arm")
    rollout = Rollout(robot, steps=4, dt=0.01)
    reference = Rollout(robot, steps=4, dt=0.01, device="numpy")
    for leading in ((), (2, 3)):
        q, qd, tau = (x.reshape(*leading, *x.shape[1:]) for x in states_of(robot, math.prod(leading), 4))
        first, expected = rollout(q, qd, tau), reference(q, qd, tau)
        second = rollout(q + 0.1, qd, tau.tolist())
        np.testing.assert_allclose(first.q, expected.q, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(second.qd, reference(q + 0.1, qd, tau).qd, rtol=1e-12, atol=1e-13)
        assert first.diverged.shape == leading
        assert (first.diverged == -1).all()
        single = [("q0", (q + np.nan, qd, tau))] if not leading else []
        for name, inputs in (*single, ("tau", (q, qd, tau + np.nan))):
            with pytest.raises(ValueError, match=f"input '{name}' is nan at .*; expected finite numbers"):
                rollout(*inputs)
        with pytest.raises(ValueError, match=r"qd0 has shape .*; expected "):
            rollout(q, qd[..., :1], tau)
        wild = rollout(q, qd, tau + 1e200)
        assert (wild.diverged >= 1).all()


def test_what_a_call_refuses() -> None:
    rollout = Rollout(robots.load("two_joint_arm"), steps=3, dt=0.01, device="numpy")
    zero = np.zeros((4, 2))
    with pytest.raises(ValueError, match=r"tau has shape \(4, 2, 2\); expected \(4, 3, 2\)"):
        rollout(zero, zero, np.zeros((4, 2, 2)))
    with pytest.raises(ValueError, match=r"input 'qd0' is inf at \(1,\); expected finite"):
        rollout(zero[0], np.array([0.0, np.inf]), np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"dt=0.1 for a rollout with steps of 0.01 s; expected none"):
        rollout(zero, zero, np.zeros((4, 3, 2)), dt=0.1)
    variable = Rollout(robots.load("two_joint_arm"), steps=3, dt=None, device="numpy")
    with pytest.raises(ValueError, match="dt=-1; expected a time step of more than 0 s"):
        variable(zero, zero, np.zeros((4, 3, 2)), dt=-1)


def slow_region(robot: Robot) -> Region:
    return Region.of(robot, velocity=12.0, acceleration=40.0)


@pytest.mark.parametrize("pauses", [(0.0, 0.0), (0.3, 0.4)])
def test_chip_equals_its_integers(pauses: tuple[float, float], designs: Path) -> None:
    """More trajectories than the chip holds, one of which overflows: it is flagged from there on and harms no other."""
    robot = robots.load("two_joint_arm")
    q, qd, tau = states_of(robot, 38, 7)
    qd[17] = [11.0, -11.0]
    tau[17] = [15.0, -2.0]
    options = {"steps": 7, "dt": 0.02, "region": slow_region(robot)}
    built = dynagate.build(robot, "rollout", ii=4, dt=0.02, region=options["region"], folder=designs)
    simulated = dynagate.open(built, pauses=pauses, seed=5)(q, qd, tau)
    integers = Rollout(robot, device="fixed", **options)(q, qd, tau)
    for field in ("q", "qd", "diverged"):
        assert np.array_equal(getattr(simulated, field), getattr(integers, field), equal_nan=True), field
    others = np.arange(38) != 17
    assert 1 <= integers.diverged[17] <= 7
    assert (integers.diverged[others] == -1).all()
    exact = Rollout(robot, device="numpy", steps=7, dt=0.02)(q, qd, tau)
    assert np.isnan(integers.q[17, -1]).all()
    assert np.abs(integers.q - exact.q)[others].max() < 1e-4


def test_drift_of_fixed_point() -> None:
    """The shortest word whose drift 99 % of the region's trajectories keep below 1e-3."""
    region = Region.of(robots.load("two_joint_arm"))
    options = {"steps": 40, "count": 30}
    drifts = shortest_word(region, 1e-3, **options)
    shortest = drifts[-1]
    assert shortest.end(0.99) <= 1e-3 < drift(region, shortest.word - 1, **options).end(0.99)
    assert shortest.errors.shape == (30, 41)
    assert np.all(shortest.errors[:, 0] < 1e-5)  # the start alone, rounded
    with pytest.raises(ValueError, match="words of 32 bits drift by .* in 5 steps; expected a larger error than 1e-12"):
        shortest_word(region, 1e-12, steps=5, count=10)


@pytest.mark.parametrize("name", ["two_joint_arm", "floating"])
def test_motions_stay_in_their_region(name: str, tmp_path: Path) -> None:
    robot = robot_of(name, tmp_path)
    region = Region.of(robot, velocity=2.0)
    start = motions(region, 30, 0.01, 15, 3)
    states = Rollout(robot, steps=30, dt=0.01, device="numpy")(*start)
    assert np.all(np.abs(states.qd) <= 2.0 * 1.001)
    for link, at, _ in robot.slices():
        if not link.joint.has_quaternion:
            assert (
                region.lower[at.start] <= states.q[..., at].min() <= states.q[..., at].max() <= region.upper[at.start]
            )
    moved = np.linalg.norm(states.qd - states.qd[:, :1], axis=(1, 2))
    assert moved.min() > 0.01


def test_integers_take_the_options_of_other_devices() -> None:
    robot = robots.load("two_joint_arm")
    start = states_of(robot, 9, 6)
    options = {"steps": 6, "dt": 0.01, "linearize": True, "forces": [Friction(0.3, 0.5), Stops()]}
    integers = Rollout(robot, device="fixed", region=slow_region(robot), **options)(*start)
    exact = Rollout(robot, device="numpy", **options)(*start)
    assert (integers.diverged == -1).all()
    for field in ("q", "qd", "a", "b"):
        np.testing.assert_allclose(getattr(integers, field), getattr(exact, field), atol=2e-3, err_msg=field)
    thin = Rollout(robot, device="fixed", region=slow_region(robot), every=3, **{**options, "linearize": False})(*start)
    np.testing.assert_allclose(thin.q, integers.q[:, ::3], atol=1e-4)


def test_integers_take_a_constant_time_step_alone() -> None:
    message = "device 'fixed' takes no dt=None; expected a time step, or a design built with variable_dt=True"
    with pytest.raises(ValueError, match=message):
        Rollout("two_joint_arm", steps=3, dt=None, device="fixed")


def test_a_state_that_no_format_holds_is_refused() -> None:
    rollout = Rollout("two_joint_arm", steps=2, dt=0.01, device="fixed")
    with pytest.raises(ValueError, match=r"input 'qd' is -1000 at \(0, 1\); the formats were chosen for "):
        rollout(np.zeros(2), np.array([0.0, -1000.0]), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="device 'fixed' has no reverse sweep; expected 'cpu' or 'numpy'"):
        rollout.vjp(
            rollout(np.zeros(2), np.zeros(2), np.zeros((2, 2))), np.zeros((2, 2)), np.zeros((3, 2)), np.zeros((3, 2))
        )
