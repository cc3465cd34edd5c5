"""dynagate.jax: JAX's own gradient checkers on functions and rollouts, on every backend."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, evaluate, robots, trace
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.forces import Friction, Stops
from dynagate.integrators import JointPD, Plane, Point, RigidContact, Servo
from dynagate.operators.rollouts import RolloutOperator

jax = pytest.importorskip("jax")
jnp = jax.numpy

from dynagate.jax import function, rollout  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

from tests import sharded  # noqa: E402
from tests.fuzz.shards import REFUSED as DIFFERS  # noqa: E402
from tests.jointed_bodies import ball  # noqa: E402
from tests.robots import hopper  # noqa: E402

ARM = robots.load("two_joint_arm")
LOOSE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def _doubles() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def floating(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    return hopper(tmp_path_factory.mktemp("hopper"))


def forward(**options: Any) -> Any:
    """Forward dynamics of the arm."""
    return function(ARM, "forward_dynamics", **options)


def normal(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.normal(size=shape) for shape in shapes]


def test_values_are_those_of_the_accelerator() -> None:
    q, qd, tau = normal((5, 2), (5, 2), (5, 2))
    with dynagate.compile(ARM, "forward_dynamics_gradient") as accelerator:
        expected = accelerator(q=q, qd=qd, tau=tau)
    results = jax.jit(function(ARM, "forward_dynamics_gradient"))(q, qd=qd, tau=tau)
    for name, value in results._asdict().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    alone = function(ARM, "forward_dynamics_gradient")(q[0], qd[0], tau[0])
    np.testing.assert_allclose(alone.minv, expected.minv[0], rtol=1e-12)


def test_entries_that_are_always_zero_are_written() -> None:
    q = np.ones((1000, 2))
    with dynagate.compile(ARM, "link_jacobians") as accelerator:
        expected = accelerator(q=q).link_jacobians
    assert (expected == 0.0).any()
    for _ in range(3):  # memory that others have used
        np.testing.assert_array_equal(function(ARM, "link_jacobians")(q).link_jacobians, expected)


@pytest.mark.parametrize(
    ("name", "order"), [("forward_dynamics", 2), ("inverse_dynamics", 1), ("step", 1), ("mass_matrix", 1)]
)
def test_gradients_of_an_arm(name: str, order: int) -> None:
    f = function(ARM, name)
    check_grads(lambda *x: tuple(f(*x)), normal(*[(2,)] * len(f.inputs)), order, **LOOSE)


@pytest.mark.parametrize("name", ["forward_dynamics", "link_positions"])
def test_gradients_by_the_entries_of_quaternions(name: str, floating: Robot) -> None:
    """Quaternions of any length: the operator divides by it."""
    f = function(floating, name)
    inputs = normal(*[(2, floating.nq if port == "q" else floating.nv) for port in f.inputs])
    check_grads(lambda *x: tuple(f(*x)), inputs, 1, **LOOSE)


def test_gradients_of_the_reference() -> None:
    f = forward(backend="numpy")
    check_grads(lambda *x: f(*x).qdd, normal((2,), (2,), (2,)), 1, **LOOSE)


def test_gradients_by_the_parameters_of_a_link() -> None:
    f = function(ARM.with_variable("forearm"), "inverse_dynamics")
    state = normal((2,), (2,), (2,))
    check_grads(lambda p: f(*state, p).tau, [np.asarray(ARM.links[1].parameters())], 2, **LOOSE)


def test_vmap_and_jacobians() -> None:
    f = forward()
    q, qd, tau = normal((4, 2), (4, 2), (2, 4))
    mapped = jax.vmap(lambda q, tau: f(q, qd[0], tau).qdd, (0, 1))(q, tau)
    np.testing.assert_allclose(mapped, f(q, np.broadcast_to(qd[0], (4, 2)), tau.T).qdd, rtol=1e-12)
    whole = function(ARM, "forward_dynamics_gradient")(q[0], qd[0], tau[:, 0])
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jacobian(lambda q: f(q, qd[0], tau[:, 0]).qdd)(q[0]), whole.dqdd_dq, rtol=1e-9)


@pytest.mark.parametrize("steps", [1, 4])
def test_gradients_of_rollouts(steps: int) -> None:
    run = rollout(ARM, steps, 0.01)
    check_grads(run, normal((3, 2), (3, 2), (3, steps, 2)), 1, modes=("rev",), **LOOSE)


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_rollouts_are_those_of_the_class(backend: str) -> None:
    q, qd, tau = normal((3, 2), (3, 2), (3, 6, 2))
    states = jax.jit(jax.vmap(rollout(ARM, 6, 0.01, backend=backend)))(q, qd, tau)
    expected = dynagate.Rollout(ARM, steps=6, dt=0.01)(q, qd, tau)
    np.testing.assert_allclose(states.q, expected.q, rtol=1e-12)
    np.testing.assert_allclose(states.qd, expected.qd, rtol=1e-12)


def test_gradients_of_rollouts_with_quaternions() -> None:
    robot = ball()
    run = rollout(robot, 3, 0.01)
    check_grads(run, normal((2, robot.nq), (2, robot.nv), (2, 3, robot.nv)), 1, modes=("rev",), **LOOSE)


def test_functions_take_friction() -> None:
    f = function(ARM, "inverse_dynamics", forces=[Friction(0.5, 0.5)])
    state = normal((2,), (2,), (2,))
    check_grads(lambda *x: f(*x).tau, state, 1, modes=("rev",), **LOOSE)
    taken = 0.5 * state[1] / np.sqrt(state[1] ** 2 + 0.25)
    np.testing.assert_allclose(f(*state).tau - function(ARM, "inverse_dynamics")(*state).tau, taken, atol=1e-12)


def test_the_sweep_back_over_integers_has_the_options_of_the_steps() -> None:
    options: Any = {"steps": 4, "dt": 0.01, "dtype": np.dtype(float), "forces": [Friction(0.5), Stops()]}
    arrays = normal((5, 2), (5, 2), (4, 2), (5, 2), (5, 2))
    integers, exact = (RolloutOperator(ARM, backend=name, **options).backward(*arrays) for name in ("fixed", "cpu"))
    for by_integers, by_c in zip(integers, exact, strict=True):
        np.testing.assert_array_equal(by_integers, by_c)


def test_integers_forward_and_the_exact_gradient_back() -> None:
    f, exact = forward(backend="fixed"), forward()
    state = normal((3, 2), (3, 2), (3, 2))
    with dynagate.compile(ARM, "forward_dynamics", device="fixed") as bits:
        expected = bits(**dict(zip(f.inputs, state, strict=True))).qdd
    np.testing.assert_array_equal(jax.jit(f)(*state).qdd, expected)
    gradient, straight = (jax.grad(lambda q, f=f: f(q, *state[1:]).qdd.sum())(state[0]) for f in (f, exact))
    np.testing.assert_array_equal(gradient, straight)


def test_integers_forward_and_back() -> None:
    state = normal((3, 2), (3, 2), (3, 2))
    f = forward(backend="fixed", gradient="bits")
    gradient = jax.grad(lambda q: f(q, *state[1:]).qdd.sum())(state[0])
    with dynagate.compile(ARM, "forward_dynamics_vjp", device="fixed") as bits:
        product = bits(**dict(zip(f.inputs, state, strict=True)), lam_qdd=np.ones((3, 2)))
    np.testing.assert_array_equal(gradient, product.vjp_q)


def test_an_opened_accelerator_as_backend() -> None:
    state = normal((3, 2), (3, 2), (3, 2))
    with dynagate.compile(ARM, "forward_dynamics", device="fixed") as bits:
        f = forward(backend=bits)
        expected = bits(**dict(zip(f.inputs, state, strict=True))).qdd
        np.testing.assert_array_equal(f(*state).qdd, expected)
        with pytest.raises(ValueError, match="computes .* expected mass_matrix of two_joint_arm from q"):
            function(ARM, "mass_matrix", backend=bits)


def test_what_overflows_is_no_number() -> None:
    from dynagate.fixedpoint.assign import Policy
    from dynagate.graph.region import Region

    small = Policy(word=12, guard_bits=0.0, samples=8)
    region = Region.of(ARM)
    with dynagate.compile(ARM, "forward_dynamics", device="fixed", policy=small, region=region) as bits:
        states = region.sample("forward_dynamics", 2000, seed=3)
        formatted = bits.device.model.formatted  # type: ignore[attr-defined]
        for port in formatted.graph.inputs:
            low, high = zip(*(formatted.bounds[i] for i in port.nodes), strict=True)
            states[port.name] = np.clip(states[port.name], low, high)
        lost = bits(**states).overflow
        assert lost.any()
        results = forward(backend=bits)(**states).qdd
    np.testing.assert_array_equal(np.isnan(results).any(axis=1), lost)


def test_what_is_not_finite_stays_in_its_sample() -> None:
    q, qd, tau = normal((9, 2), (9, 2), (9, 2))
    q[4] = np.inf
    finite = np.isfinite(forward()(q, qd, tau).qdd).all(axis=1)
    assert finite.tolist() == [k != 4 for k in range(9)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("batch", [(), (0,), (1,), (5,), (2, 9)])
def test_a_rollout_of_arrays(batch: tuple[int, ...], dtype: type) -> None:
    """PyTorch's: the plain call's states and gradient, and what is not finite stays in its sample."""
    options: Any = {"steps": 3, "dt": 0.01, "dtype": np.dtype(dtype)}
    operator = RolloutOperator(ARM, backend="compiled", **options)
    shapes = (2,), (2,), (3, 2), (4, 2), (4, 2)
    q0, qd0, tau, *costs = (x.astype(dtype) for x in normal(*((*batch, *shape) for shape in shapes)))
    expected = operator.rollout(q0, qd0, tau)
    states = operator.forward(q0, qd0, tau)
    np.testing.assert_array_equal(states[0], expected.q)
    np.testing.assert_array_equal(states[1], expected.qd)
    products = operator.rollout.vjp(expected, tau, *costs)
    for name, product in zip(("q0", "qd0", "tau"), operator.backward(*states, tau, *costs), strict=True):
        np.testing.assert_array_equal(product, products[name])
    if len(batch) == 2:
        q0[1, 4] = np.nan
        finite = np.isfinite(operator.forward(q0, qd0, tau)[0]).all(axis=(2, 3))
        assert np.argwhere(~finite).tolist() == [[1, 4]]


@pytest.mark.parametrize("backend", ["compiled", "numpy", "fixed"])
def test_a_rollout_that_keeps_some_states(backend: str) -> None:
    """Each k-th state comes, and no gradient, which would need all of them."""
    q0, qd0, tau = (0.1 * x for x in normal((5, 2), (5, 2), (5, 6, 2)))
    all_of_them = rollout(ARM, 6, 0.01, backend=backend)(q0, qd0, tau)
    run = rollout(ARM, 6, 0.01, backend=backend, every=3)
    some = jax.jit(run)(q0, qd0, tau)
    np.testing.assert_array_equal(some.q, all_of_them.q[:, ::3])
    np.testing.assert_array_equal(some.qd, all_of_them.qd[:, ::3])
    operator = RolloutOperator(ARM, steps=6, dt=0.01, backend=backend, dtype=np.dtype(float), every=3)
    for ours, other in zip(operator.forward(q0, qd0, tau), some, strict=True):
        np.testing.assert_array_equal(ours, other)
    with pytest.raises(ValueError, match="every=3: this rollout lacks states to sweep back over; expected every=1"):
        jax.grad(lambda tau: run(q0, qd0, tau).q.sum())(tau)


def test_empty_batches() -> None:
    assert forward()(*[np.zeros((0, 2))] * 3).qdd.shape == (0, 2)
    assert rollout(ARM, 3, 0.01)(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 3, 2))).q.shape == (0, 4, 2)


FLOATING = {
    "links": [
        {"name": "body", "parent": "", "joint": "floating", "mass": 2.0, "com": [0.01, 0.02, 0.0]},
        {"name": "leg", "parent": "body", "joint": "revolute", "mass": 0.5, "axis": [0.0, 1.0, 0.0]},
    ]
}
"""A recipe of the fuzzer for a floating body with a leg."""


@pytest.mark.parametrize(
    "case",
    [
        {"robot": "two_joint_arm", "operator": "function", "name": "forward_dynamics", "replicated": 1},
        pytest.param(
            {"robot": FLOATING, "operator": "function", "name": "inverse_dynamics", "options": {"backend": "numpy"}},
            marks=pytest.mark.long,
        ),
        pytest.param({"robot": FLOATING, "operator": "rollout", "replicated": 0}, marks=pytest.mark.long),
        pytest.param(
            {"robot": "two_joint_arm", "operator": "rollout", "contact": "forearm", "options": {"constrained": True}},
            marks=pytest.mark.long,
        ),
    ],
    ids=lambda case: f"{case['operator']} {case.get('options', '')}",
)
def test_operators_inside_shard_map(case: dict[str, Any]) -> None:
    """Loops, vmap and gradients inside of it equal those outside; JAX's check of out_specs sees what differs."""
    forward = sharded.FORWARD if case["operator"] == "function" else ()
    results = sharded.run_case({**case, "ways": [*sharded.LOOPS, *sharded.GRADIENTS, *forward]})
    assert str(results.pop("replicated out")).startswith(DIFFERS)
    assert {way: result for way, result in results.items() if not (isinstance(result, float) and result < 1e-9)} == {}


def test_a_gradient_in_float32_through_contact_is_refused_before_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    run = rollout(ARM, 3, 0.01, contacts=RigidContact([Point("forearm", (0.0, 0.0, 0.3))]), dtype="float32")
    state = [jnp.zeros(shape, "float32") for shape in ((2,), (2,), (3, 2))]
    assert np.isfinite(run(*state).q).all()
    monkeypatch.setattr(run.operator, "forward", None)  # nothing is computed
    with pytest.raises(ArgumentError, match=r"dtype float32 of a gradient through contacts=; expected jax\.config"):
        jax.grad(lambda tau: run(state[0], state[1], tau).q.sum())(state[2])


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_compiled_functions_name_the_ones_that_jax_can_trace(transform: Any) -> None:
    plain = dynagate.compile(ARM, "forward_dynamics", device="numpy")
    motion = dynagate.Rollout(ARM, steps=3, dt=0.01, device="numpy")
    batch = np.zeros((3, 2)) if transform is jax.vmap else np.zeros(2)
    for call in (
        lambda q: plain(q, np.zeros(2), np.zeros(2)).qdd.sum(),
        lambda q: plain([q[0], q[1]], np.zeros(2), np.zeros(2)).qdd.sum(),
        lambda q: motion(q, np.zeros(2), np.zeros((3, 2))).q.sum(),
    ):
        with pytest.raises(ArgumentTypeError, match=r"is traced by JAX .* dynagate\.jax\.function\(robot, function\)"):
            transform(call)(batch)


def test_rollouts_on_rigid_ground_with_forces_and_variable_masses() -> None:
    arm = ARM.with_variable("*.mass")
    options: Any = {"contacts": RigidContact([Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.1)])}
    options["forces"] = [Servo(5.0, 0.1, target=(0.3, -0.2)), Friction(0.1)]
    q0, qd0, tau = normal((2,), (2,), (4, 2))
    masses = 1.1 * arm.parameters["mass"]
    plain = dynagate.Rollout(arm, steps=4, dt=0.01, **options)
    motion, weights = plain(q0, qd0, tau, mass=masses), normal((5, 2))[0]
    by = plain.vjp(motion, tau, weights, 0.0 * weights, mass=masses)["mass"]
    run = rollout(arm, 4, 0.01, **options)
    np.testing.assert_array_equal(run(q0, qd0, tau, mass=masses).q, motion.q)
    got = jax.grad(lambda mass: (run(q0, qd0, tau, mass=mass).q * weights).sum())(masses)
    np.testing.assert_allclose(got, by, rtol=1e-12)


PRESSED = RigidContact(
    [Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.25)], compliance=1e-3, tolerance=1e-11, sweeps=4000
)
MORE = ("impulse", "lift", "converged", "diverged")


def test_impulses_of_a_rollout_and_their_gradients() -> None:
    """Arms that press the ground, arms that do not, and one whose start is below it."""
    q0, (qd0, tau) = np.array([[2.5, 0.5], [0.0, 0.1], [2.2, 1.0]]), normal((3, 2), (3, 6, 2))
    expected = dynagate.Rollout(ARM, 6, 0.01, contacts=PRESSED)(q0, qd0, tau)
    run = rollout(ARM, 6, 0.01, contacts=PRESSED, outputs=MORE)
    results = jax.jit(run)(q0, qd0, tau)
    for name in ("q", "qd", *MORE):
        np.testing.assert_array_equal(getattr(results, name), getattr(expected, name), err_msg=name)
    assert (np.abs(results.impulse).max(axis=(1, 2, 3)) > 0.0).tolist() == [True, False, True]
    assert (np.asarray(results.lift) > 0.0).any()
    np.testing.assert_array_equal(jax.vmap(run)(q0, qd0, tau).impulse, results.impulse)
    weights, lifts = normal(results.impulse.shape, results.lift.shape)

    def cost(*state: Any) -> Any:
        moved = run(*state)
        return (moved.impulse * weights).sum() + (moved.lift * lifts).sum() + 0.1 * moved.q.sum()

    check_grads(cost, (q0, qd0, tau), order=1, modes=("rev",), eps=1e-6, atol=1e-5, rtol=1e-5)


def test_outputs_of_a_rollout_that_it_lacks() -> None:
    grows = np.array([[0.0, 0.0], [1e154, 1e154]])
    run = rollout(ARM, 4, 0.5, integrator="euler", every=2, outputs="diverged")
    assert run(np.zeros((2, 2)), grows, np.zeros((2, 4, 2))).diverged.tolist() == [-1, 2]
    for outputs, error, text in (
        ("impulse", ArgumentError, "outputs has 'impulse'; expected some of diverged for this rollout"),
        (3, ArgumentTypeError, "outputs=3; expected a name, or a sequence of names"),
    ):
        with pytest.raises(error, match=text):
            rollout(ARM, 4, 0.5, outputs=outputs)


STATE = [np.zeros(2)] * 3
REFUSED: list[tuple[Any, type, str]] = [
    (
        lambda: forward()(*STATE[:2]),
        TypeError,
        "forward_dynamics lacks input 'tau'; expected q, qd, tau",
    ),
    (lambda: forward()(np.zeros(2)), TypeError, "forward_dynamics lacks inputs 'qd' and 'tau'; expected q, qd, tau"),
    (lambda: forward()(np.zeros(2), v=1), TypeError, "has no input 'v' (write qd); expected q, qd, tau"),
    (lambda: forward()(*STATE, u=1), TypeError, "has no input 'u' (write tau); expected q, qd, tau"),
    (lambda: forward()(*STATE, q=1), TypeError, "has input 'q' twice"),
    (lambda: forward()(*STATE, 1), TypeError, "takes 3 inputs, not 4"),
    (
        lambda: forward()("q", *STATE[1:]),
        TypeError,
        "input 'q' is a str; expected an array of numbers",
    ),
    (
        lambda: forward()(np.zeros(2, int), *STATE[1:]),
        TypeError,
        "input 'q' is int64; expected float32 or float64",
    ),
    (
        lambda: forward()(STATE[0], np.zeros(2, np.float32), STATE[2]),
        TypeError,
        "input 'qd' is float32 and 'q' float64; expected one dtype",
    ),
    (lambda: forward()(np.zeros(3), *STATE[1:]), ValueError, "input 'q' has shape (3,)"),
    (
        lambda: forward()(np.zeros((4, 2)), np.zeros((3, 2)), STATE[2]),
        ValueError,
        "input 'qd' has leading axes (3,) and input 'q' (4,): they do not broadcast",
    ),
    (
        lambda: forward(backend="gpu"),
        ValueError,
        "backend 'gpu'; expected one of compiled, cpu, cuda, numpy",
    ),
    (lambda: forward(backend=3), TypeError, "backend is a int; expected one of"),
    (
        lambda: forward(gradient="bits"),
        ValueError,
        "gradient 'bits' with backend 'compiled'; expected 'float'",
    ),
    (
        lambda: function(ARM, "mass_matrix", backend="fixed", gradient="bits"),
        ValueError,
        "gradient 'bits' of mass_matrix",
    ),
    (lambda: function(ARM, "all"), ValueError, "function 'all' is for the command line; write a list"),
    (lambda: forward(color=1), TypeError, "function() got an unexpected keyword argument 'color'"),
    (lambda: function(ARM, "aba", form="scan"), ValueError, "form 'scan' of an operator, which is differentiated both"),
    (lambda: function(ARM, "mass_matrix", form="scan"), ValueError, "mass_matrix has no form 'scan'; expected one of"),
    (
        lambda: jax.jit(forward(backend="cuda"))(*STATE),
        ValueError,
        "runs on cuda, and JAX computes on cpu",
    ),
    (lambda: rollout(ARM, 3, 0.01, backend="cuda"), ValueError, "backend 'cuda' of a rollout; expected one of"),
    (lambda: rollout(ARM, 3, None)(STATE[0], STATE[0], np.zeros((3, 2))), TypeError, "lacks input 'dt'"),
    (lambda: rollout(ARM, 3, 0.01, dtype="int32"), TypeError, "dtype int32; expected float32 or float64"),
    (
        lambda: rollout(ARM, 3, 0.01, dtype="float32")(STATE[0], STATE[0], np.zeros((3, 2))),
        TypeError,
        "inputs of a rollout of two_joint_arm are float64; expected float32",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_refused_by_name(call: Any, error: type, text: str) -> None:
    import re

    with pytest.raises(error, match=re.escape(text)) as caught:
        call()
    assert isinstance(caught.value, dynagate.Error)


def test_symmetric_inputs_have_no_gradient() -> None:
    f = function(ARM, "forward_dynamics_gradient_given_minv")
    state = [*STATE, np.eye(2)]
    assert f(*state).dqdd_dq.shape == (2, 2)
    with pytest.raises(ValueError, match="input 'minv' of forward_dynamics_gradient_given_minv is symmetric"):
        jax.grad(lambda q: f(q, *state[1:]).dqdd_dq.sum())(state[0])


def test_single_precision_is_the_default() -> None:
    with jax.enable_x64(False):
        f, run = forward(), rollout(ARM, 3, 0.01)
        assert f(*STATE).qdd.dtype == np.float32
        assert run(STATE[0], STATE[0], np.zeros((3, 2))).q.dtype == np.float32
        with pytest.raises(TypeError, match=r"dtype float64 in JAX's 32-bit mode; expected jax\.config\.update"):
            rollout(ARM, 3, 0.01, dtype="float64")


def test_a_kernel_that_is_not_in_the_process() -> None:
    """A program from JAX's cache on disk, whose operator was not made."""
    from dynagate.jax.handlers import ROWS, handlers_library

    handlers_library()
    call = jax.ffi.ffi_call(ROWS, jax.ShapeDtypeStruct((2,), np.float64))
    with pytest.raises(Exception, match="dynagate kernel 5 is not in this process"):
        call(np.zeros(2), key=np.int64(5), size=np.int64(2), zeros=np.array([], np.int64)).block_until_ready()


def test_without_jax_the_extra_is_named(tmp_path: Path) -> None:
    import subprocess
    import sys

    for name in ("jax", "torch"):
        program = f"import sys; sys.modules['{name}'] = None; import dynagate.{name}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert f"dynagate.{name} needs the package '{name}'; pip install 'dynagate[{name}]'" in done.stderr


def test_functions_of_constraints_have_gradients() -> None:
    """Of the forces too, by the contact's own product with the derivative."""
    arm = (
        robots.load("two_joint_arm").with_frame("tip", "forearm", (0.0, 0.0, 0.3)).with_contact("tip", compliance=1e-3)
    )
    forward = function(arm, "constrained_forward_dynamics")
    q, qd, tau, active = np.array([0.3, 0.4]), np.array([0.1, -0.2]), np.array([0.1, 0.2]), np.ones(1)
    by_q, by_tau = jax.grad(lambda q, tau: forward(q, qd, tau, active)[1].sum(), argnums=(0, 1))(q, tau)
    weights = {"lam_qdd": np.zeros((1, 2)), "lam_force": np.ones((1, 3))}
    state = {"q": q[None], "qd": qd[None], "tau": tau[None], "active": active[None], **weights}
    expected = evaluate(trace(arm, "constrained_forward_dynamics_vjp"), state)
    np.testing.assert_allclose(by_q, expected["vjp_q"][0], rtol=1e-9)
    np.testing.assert_allclose(by_tau, expected["vjp_tau"][0], rtol=1e-9)


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_rollouts_that_solve_their_steps(backend: str) -> None:
    """Rigid contact, whose impulses the sweep back takes, and a variational step, of which one has not converged."""
    contact = RigidContact([Point("forearm", (0.0, 0.0, 0.3))], (Plane((0.0, 0.0, -1.0), -0.78),), compliance=1e-2)
    options: dict[str, Any] = {"contacts": contact} if backend == "compiled" else {"integrator": "variational"}
    run, own = (
        make(ARM, steps=3, dt=0.01, **options) for make in (partial(rollout, backend=backend), dynagate.Rollout)
    )
    q, qd, tau = np.array([[0.1, 0.2], [0.1, 2.0]]), np.zeros((2, 2)), normal((2, 3, 2))[0]
    qd[0, 1] = 1e4 if backend == "numpy" else 0.0
    expected, states = own(q, qd, tau), jax.jit(run)(q, qd, tau)
    assert expected.converged.all(axis=1).tolist() == [backend == "compiled", True]
    np.testing.assert_allclose(states.q, expected.q, rtol=1e-9, atol=1e-9)
    (weight,) = normal((2, 4, 2))
    got = jax.jit(jax.grad(lambda *x: (weight * run(*x).qd).sum(), argnums=(0, 1, 2)))(q, qd, tau)
    products = own.vjp(expected, tau, np.zeros((2, 4, 2)), weight)
    for value, name in zip(got, ("q0", "qd0", "tau"), strict=True):
        np.testing.assert_allclose(value, products[name], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_rollouts_with_contacts(backend: str, floating: Robot) -> None:
    """Which foot stands in which step is an input without gradient."""
    robot, link = (floating, "leg") if backend == "numpy" else (ARM, "forearm")  # a small one to compile
    robot = robot.with_frame("toe", link, (0.0, 0.02, -0.4)).with_contact("toe", damping=2.0, compliance=1e-2)
    run = rollout(robot, 3, 0.01, backend=backend, constrained=True)
    q, qd, tau = normal((2, robot.nq), (2, robot.nv), (2, 3, robot.nv))
    if robot.quaternions():
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    active = np.broadcast_to(np.array([[1.0], [0.0], [1.0]]), (2, 3, 1))
    own = dynagate.Rollout(robot, steps=3, dt=0.01, constrained=True)
    expected, states = own(q, qd, tau, active=active), jax.jit(run)(q, qd, tau, active)
    np.testing.assert_allclose(states.q, expected.q, rtol=1e-9, atol=1e-9)
    assert np.abs(states.q - own(q, qd, tau).q).max() > 1e-6
    weight = normal((2, 4, robot.nv))[0]
    got = jax.grad(lambda tau, active: (weight * run(q, qd, tau, active).qd).sum(), argnums=(0, 1))(tau, active)
    products = own.vjp(expected, tau, np.zeros((2, 4, robot.nv)), weight, active=active)
    np.testing.assert_allclose(got[0], products["tau"], rtol=1e-8, atol=1e-10)
    assert not np.any(got[1])
    if backend == "numpy":
        check_grads(lambda *x: run(*x, active), (q, qd, tau), 1, modes=("rev",), **LOOSE)


def test_functions_are_copied_and_not_pickled() -> None:
    for made in (function(ARM, "mass_matrix"), rollout(ARM, steps=2, dt=0.01)):
        assert copy.copy(made) is copy.deepcopy([made])[0] is made
        with pytest.raises(TypeError, match=r"can't be pickled: .* call `dynagate\.jax\.function`, or"):
            pickle.dumps(made)


STANDING = RigidContact(
    [Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.25)], compliance=1e-3, tolerance=1e-12, sweeps=4000
)
LAWS: dict[str, tuple[Any, dict[str, tuple[int, ...]]]] = {
    "gains": ((3.0, 1.0), {"gain": (2, 4), "q_ref": (2,), "qd_ref": (2,)}),
    "joints": (JointPD((3.0, 1.0)), {"joint_target": (2,), "joint_stiffness": (2,), "joint_damping": (2,)}),
}


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("contacts", [STANDING, None], ids=["ground", "air"])
def test_rollouts_with_feedback_are_those_of_the_class(law: str, contacts: Any, backend: str) -> None:
    feedback, shapes = LAWS[law]
    options: Any = {"contacts": contacts, "feedback": feedback}
    q0, (qd0, tau) = np.array([[2.5, 0.5], [0.0, 0.1]]), normal((2, 2), (2, 4, 2))
    given = {name: normal((2, 4, *shape))[0] for name, shape in shapes.items()}
    expected = dynagate.Rollout(ARM, 4, 0.01, **options)(q0, qd0, tau, **given)
    run = rollout(ARM, 4, 0.01, backend=backend, **options)
    results = run(q0, qd0, tau, **given)
    np.testing.assert_allclose(results.q, expected.q, atol=1e-9)
    (weights,) = normal(results.q.shape)

    def cost(*inputs: Any) -> Any:
        return (run(q0, qd0, *inputs).q * weights).sum()

    check_grads(cost, (tau, *given.values()), order=1, modes=("rev",), eps=1e-6, atol=1e-5, rtol=1e-5)


def test_feedback_has_gradients_by_the_entries_of_quaternions(floating: Robot) -> None:
    run = rollout(floating, 2, 0.01, feedback=True)
    n, (q0, qd0) = floating.nv, normal((floating.nq,), (floating.nv,))
    tau, gain, q_ref, qd_ref = normal((2, n), (2, n, 2 * n), (2, floating.nq), (2, n))
    weights = normal((3, floating.nq))[0]

    def cost(reference: Any) -> Any:
        return (run(q0, qd0, tau, 0.1 * gain, reference, qd_ref).q * weights).sum()

    check_grads(cost, (q_ref,), order=1, modes=("rev",), eps=1e-6, atol=1e-5, rtol=1e-5)
