"""dynagate.torch: PyTorch's own checkers on functions and rollouts, on every backend. `make test-torch` installs it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, robots, trace
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.graph.packing import ZERO, packed, unpacked
from dynagate.integrators import JointPD, Plane, Point, RigidContact
from dynagate.native.gpu import unpacked_there

torch = pytest.importorskip("torch")

from dynagate.torch import function, rollout  # noqa: E402
from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402

from tests.robots import hopper  # noqa: E402

ARM = robots.load("two_joint_arm")
LOOSE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module")
def floating(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    return hopper(tmp_path_factory.mktemp("hopper"))


def forward(**options: Any) -> Any:
    """Forward dynamics of the arm."""
    return function(ARM, "forward_dynamics", **options)


def normal(*shapes: tuple[int, ...], grad: bool = True) -> list[Any]:
    random = np.random.default_rng(1)
    return [torch.from_numpy(random.normal(size=shape)).requires_grad_(grad) for shape in shapes]


def test_values_are_those_of_the_accelerator() -> None:
    state = normal((5, 2), (5, 2), (5, 2))
    with dynagate.compile(ARM, "forward_dynamics_gradient") as accelerator:
        expected = accelerator(**{k: x.detach().numpy() for k, x in zip(("q", "qd", "tau"), state, strict=True)})
    results = function(ARM, "forward_dynamics_gradient")(*state)
    for name, value in results._asdict().items():
        np.testing.assert_array_equal(value.detach(), expected[name], err_msg=name)


def test_entries_that_are_always_zero_are_written() -> None:
    q = torch.ones(1000, 2, dtype=torch.float64)
    with dynagate.compile(ARM, "link_jacobians") as accelerator:
        expected = accelerator(q=q.numpy()).link_jacobians
    for _ in range(3):  # memory that others have used
        np.testing.assert_array_equal(function(ARM, "link_jacobians")(q).link_jacobians, expected)


@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_first_and_second_derivatives(backend: str) -> None:
    f = forward(backend=backend)
    inputs = normal((2, 2), (2, 2), (2, 2))
    assert gradcheck(lambda *x: f(*x).qdd, inputs)
    assert gradgradcheck(lambda *x: f(*x).qdd, inputs)


def test_derivatives_by_the_entries_of_quaternions(floating: Robot) -> None:
    inputs = normal((2, floating.nq), (2, floating.nv), (2, floating.nv))
    assert gradcheck(lambda *x: function(floating, "forward_dynamics")(*x).qdd, inputs, **LOOSE)
    run = rollout(floating, 3, 0.01, dtype=torch.float64)
    assert gradcheck(lambda *x: tuple(run(*x)), [*inputs[:2], *normal((2, 3, floating.nv))], **LOOSE)


def test_derivatives_of_rollouts() -> None:
    run = rollout(ARM, 4, 0.01, dtype=torch.float64)
    assert gradcheck(lambda *x: tuple(run(*x)), normal((3, 2), (3, 2), (3, 4, 2)))


def test_what_is_not_finite_stays_in_its_trajectory() -> None:
    q, qd, tau = normal((9, 2), (9, 2), (9, 3, 2), grad=False)
    q[4] = torch.nan
    tau.requires_grad_()
    states = rollout(ARM, 3, 0.01, dtype=torch.float64)(q, qd, tau)
    (gradient,) = torch.autograd.grad(states.q.sum(), tau)
    for each in (states.q, states.qd, gradient):
        assert each.isfinite().all(-1).all(-1).tolist() == [k != 4 for k in range(9)]


def test_a_rollout_that_keeps_some_states() -> None:
    q, qd, tau = normal((5, 2), (5, 2), (5, 6, 2))
    run = rollout(ARM, 6, 0.01, dtype=torch.float64, every=3)
    some, all_of_them = run(q, qd, tau), rollout(ARM, 6, 0.01, dtype=torch.float64)(q, qd, tau)
    torch.testing.assert_close(some.q, all_of_them.q[:, ::3], rtol=0.0, atol=0.0)
    torch.library.opcheck(run._forward, (q.detach(), qd.detach(), tau.detach()))
    with pytest.raises(ValueError, match="every=3: this rollout lacks states to sweep back over; expected every=1"):
        some.q.sum().backward()


def test_operators_pass_the_check_of_pytorch() -> None:
    f, run = forward(), rollout(ARM, 3, 0.01, dtype=torch.float64)
    torch.library.opcheck(f._custom.custom, tuple(normal((3, 2), (3, 2), (3, 2))))
    torch.library.opcheck(run._forward, tuple(normal((3, 2), (3, 2), (3, 3, 2))))


def test_compiled_without_a_break() -> None:
    f = forward()

    def cost(*x: Any) -> Any:
        return (f(*x).qdd ** 2).sum()

    inputs = normal((3, 2), (3, 2), (3, 2))
    compiled = torch.compile(cost, fullgraph=True, backend="aot_eager")
    gradients = [torch.autograd.grad(each(*inputs), inputs) for each in (cost, compiled)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_vmap() -> None:
    f, run = forward(), rollout(ARM, 3, 0.01, dtype=torch.float64)
    q, qd, tau, path = normal((4, 2), (4, 2), (2, 4), (4, 3, 2), grad=False)
    mapped = torch.func.vmap(lambda q, tau: f(q, qd[0], tau).qdd, (0, 1))(q, tau)
    torch.testing.assert_close(mapped, f(q, qd[:1].expand(4, 2), tau.T).qdd)
    torch.testing.assert_close(torch.func.vmap(run)(q, qd, path).q, run(q, qd, path).q)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, of its forward mode
@pytest.mark.parametrize("backend", ["compiled", "numpy"])
def test_forward_mode_is_refused_instead_of_0(backend: str) -> None:
    """PyTorch drops tangents where an operator has no rule for them."""
    f, run = forward(backend=backend), rollout(ARM, 3, 0.01, dtype=torch.float64, backend=backend)
    q, qd, tau, path = normal((4, 2), (4, 2), (4, 2), (4, 3, 2), grad=False)
    message = "has a tangent of forward-mode differentiation, for which .* torch.autograd.grad .* '_jvp' function"

    def turned(q: Any) -> Any:
        return torch.func.vmap(lambda *x: f(*x).qdd)(q, qd, tau)

    for call in (
        lambda: torch.func.jacfwd(lambda q: f(q, qd, tau).qdd)(q),
        lambda: torch.func.jvp(lambda tau: f(q, qd, tau).qdd, (tau,), (tau,)),
        lambda: torch.func.jvp(turned, (q,), (q,)),
        lambda: torch.func.jacfwd(lambda path: run(q, qd, path).q)(path),
    ):
        with pytest.raises(dynagate.base.errors.ArgumentError, match=f"input '(q|tau)' {message}"):
            call()
    with forward_ad.dual_level():
        for results, inputs in ((f(q.requires_grad_(), qd, tau).qdd, q), (run(q, qd, path).q, q)):
            weights = forward_ad.make_dual(torch.ones_like(results), torch.ones_like(results))
            with pytest.raises(dynagate.base.errors.ArgumentError, match=f"weights of qd?d?' {message}"):
                torch.autograd.grad(results, inputs, weights)


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch warns that other layouts are prototypes
def test_all_dense_tensors_are_taken_as_they_are_meant() -> None:
    """Views with strides, conjugates' imaginary parts, repeated and empty ones, and parameters; others are refused."""
    f, state = forward(), normal((6, 2), (6, 2), (6, 2), grad=False)
    expected = f(*state).qdd
    for change in (
        lambda x: x.T.contiguous().T,
        lambda x: torch.zeros(12, 4, dtype=x.dtype)[::2, ::2].copy_(x),
        lambda x: torch.complex(x, -x).conj().imag,
        torch.nn.Parameter,
    ):
        assert torch.equal(f(*map(change, state)).qdd, expected)
    assert torch.equal(f(*(x[:1].expand(6, 2) for x in state)).qdd, expected[:1].expand(6, 2))
    for leading in ((0,), (3, 0, 4)):
        empty = [torch.zeros(*leading, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        (gradient,) = torch.autograd.grad(f(*empty).qdd.sum(), empty[:1])
        assert gradient.shape == (*leading, 2)
    for kind, change in (
        ("sparse_coo", lambda x: x.to_sparse()),
        ("sparse_csr", lambda x: x.to_sparse_csr()),
        ("_mkldnn", lambda x: x.float().to_mkldnn()),
        ("nested", lambda x: torch.nested.nested_tensor([x[0], x[1]])),
        ("masked", lambda x: torch.masked.masked_tensor(x, x > 0.0)),
    ):
        with pytest.raises(TypeError, match=f"input 'q' is a {kind} tensor; expected a dense one without a mask"):
            f(*map(change, state))


def test_integers_forward_and_back() -> None:
    f, straight = (
        forward(backend="fixed", gradient="bits"),
        forward(backend="fixed"),
    )
    state = normal((3, 2), (3, 2), (3, 2))
    named = {k: x.detach().numpy() for k, x in zip(f.inputs, state, strict=True)}
    with dynagate.compile(ARM, "forward_dynamics_vjp", device="fixed") as bits:
        product = bits(**named, lam_qdd=np.ones((3, 2)))
    with dynagate.compile(ARM, "forward_dynamics", device="fixed") as bits:
        np.testing.assert_array_equal(f(*state).qdd.detach(), bits(**named).qdd)
    for exact, each in ((product.vjp_q, f), (None, straight)):
        (gradient,) = torch.autograd.grad(each(*state).qdd.sum(), state[:1])
        if exact is None:
            (exact,) = torch.autograd.grad(forward()(*state).qdd.sum(), state[:1])
        np.testing.assert_array_equal(gradient, exact)


def test_a_gradient_in_float32_through_contact_is_refused_before_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    run = rollout(ARM, 3, 0.01, contacts=RigidContact([Point("forearm", (0.0, 0.0, 0.3))]), dtype="float32")
    state, tau = [torch.zeros(2), torch.zeros(2)], torch.zeros(3, 2, requires_grad=True)
    with torch.no_grad():
        assert torch.isfinite(run(*state, tau).q).all()
    monkeypatch.setattr(run.operator, "forward", None)  # nothing is computed
    with pytest.raises(ArgumentError, match=r"dtype float32 of a gradient through contacts=; expected rollout\("):
        run(*state, tau)


def test_compiled_functions_name_the_ones_that_keep_gradients() -> None:
    plain = dynagate.compile(ARM, "forward_dynamics", device="numpy")
    motion = dynagate.Rollout(ARM, steps=3, dt=0.01, device="numpy")
    q, zeros = torch.zeros(2, dtype=torch.float64, requires_grad=True), np.zeros(2)
    for call in (
        lambda: plain(q, zeros, zeros),
        lambda: plain([q[0], q[1]], zeros, zeros),
        lambda: motion(zeros, q, np.zeros((3, 2))),
        lambda: dynagate.difference(ARM, q, zeros),
    ):
        with pytest.raises(ArgumentTypeError, match=r"requires a gradient.* dynagate\.torch\.function\(robot"):
            call()
    with pytest.raises(ArgumentTypeError, match=r"tensor of torch.bfloat16 on cpu that numpy cannot read"):
        plain(torch.zeros(2, dtype=torch.bfloat16), zeros, zeros)
    np.testing.assert_array_equal(plain(q.detach(), zeros, zeros).qdd, plain(zeros, zeros, zeros).qdd)


def test_impulses_of_a_rollout_and_their_gradients() -> None:
    contact = RigidContact(
        [Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.25)], compliance=1e-3, tolerance=1e-11, sweeps=4000
    )
    more = ("impulse", "lift", "converged", "diverged")
    q0 = torch.tensor([[2.5, 0.5], [0.0, 0.1]], dtype=torch.float64, requires_grad=True)
    state = [q0, *normal((2, 2), (2, 4, 2))]
    run = rollout(ARM, 4, 0.01, contacts=contact, outputs=more, dtype="float64")
    results = run(*state)
    expected = dynagate.Rollout(ARM, 4, 0.01, contacts=contact)(*(x.detach().numpy() for x in state))
    for name in ("q", "qd", *more):
        np.testing.assert_array_equal(getattr(results, name).detach(), getattr(expected, name), err_msg=name)
    assert results.impulse.abs().max() > 0.0
    assert gradcheck(lambda *x: (run(*x).impulse, run(*x).lift), state, eps=1e-6, atol=1e-5, rtol=1e-4)


STATE = [torch.zeros(2)] * 3
REFUSED: list[tuple[Any, type, str]] = [
    (
        lambda: forward()(*STATE[:2]),
        TypeError,
        "forward_dynamics lacks input 'tau'; expected q, qd, tau",
    ),
    (
        lambda: forward()([0.0, 0.0], *STATE[1:]),
        TypeError,
        "input 'q' is a list; expected a tensor",
    ),
    (
        lambda: forward()(STATE[0].half(), *STATE[1:]),
        TypeError,
        "input 'q' is float16; expected float32 or",
    ),
    (
        lambda: forward()(STATE[0], STATE[1].double(), STATE[2]),
        TypeError,
        "input 'qd' is float64 and 'q' float32; expected one dtype",
    ),
    (
        lambda: forward()(STATE[0], STATE[1].to("meta"), STATE[2]),
        ValueError,
        "input 'qd' is on meta and 'q' on cpu; expected one device",
    ),
    (
        lambda: forward(backend="cuda")(*STATE),
        ValueError,
        "runs on cuda, and its inputs are on cpu; expected",
    ),
    (
        lambda: rollout(ARM, 3, 0.01)(STATE[0].double(), STATE[1].double(), torch.zeros(3, 2).double()),
        TypeError,
        "inputs of a rollout of two_joint_arm are float64; expected float32",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_refused_by_name(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)) as caught:
        call()
    assert isinstance(caught.value, dynagate.Error)


def test_packed_results_on_a_gpu_are_unpacked_as_those_of_numpy() -> None:
    """PyTorch's own functions, which are the same on every device."""
    _, packing = packed(trace(ARM, "forward_dynamics_gradient"))
    for name, where in {**packing, "zeros": np.full((2, 3), ZERO)}.items():
        values = np.random.default_rng(1).normal(size=(4, 3, where.max() + 1))
        found = unpacked_there(torch.from_numpy(values), where)
        np.testing.assert_array_equal(found, unpacked(values, where), err_msg=name)


def test_the_example_trains_a_policy() -> None:
    import runpy

    space = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "torch_policy.py"))
    assert space["last"] < 0.05 * space["first"]


def test_rollouts_with_rigid_contact() -> None:
    contact = RigidContact([Point("forearm", (0.0, 0.0, 0.3))], (Plane((0.0, 0.0, -1.0), -0.78),), compliance=1e-2)
    run, own = (
        make(ARM, steps=3, dt=0.01, contacts=contact) for make in (partial(rollout, dtype="float64"), dynagate.Rollout)
    )
    q = torch.tensor([[0.1, 0.2], [0.1, 2.0]], dtype=torch.float64)
    qd, tau = torch.zeros_like(q), torch.zeros((2, 3, 2), dtype=torch.float64, requires_grad=True)
    states, expected = run(q, qd, tau), own(q.numpy(), qd.numpy(), tau.detach().numpy())
    np.testing.assert_array_equal(states.q.detach(), expected.q)
    states.qd.sum().backward()
    products = own.vjp(expected, tau.detach().numpy(), 0.0 * expected.qd, np.ones((2, 4, 2)))
    np.testing.assert_allclose(tau.grad, products["tau"], rtol=1e-9)


def test_rollouts_with_contacts(floating: Robot) -> None:
    """Which foot stands in which step is an input without gradient."""
    robot = floating.with_frame("toe", "leg", (0.0, 0.02, -0.4)).with_contact("toe", damping=2.0)
    run = rollout(robot, 3, 0.01, constrained=True, dtype="float64")
    q, qd, tau = normal((2, robot.nq), (2, robot.nv), (2, 3, robot.nv))
    active = torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.float64).expand(2, 3, 1).contiguous()
    own = dynagate.Rollout(robot, steps=3, dt=0.01, constrained=True)
    start = torch.nn.functional.normalize(q[:, 3:7].detach(), dim=1)
    placed = torch.cat([q[:, :3].detach(), start, q[:, 7:].detach()], dim=1)
    expected = own(placed.numpy(), qd.detach().numpy(), tau.detach().numpy(), active=active.numpy())
    np.testing.assert_allclose(run(placed, qd, tau, active).q.detach(), expected.q, rtol=1e-9, atol=1e-9)
    assert gradcheck(lambda *x: run(*x, active), (q, qd, tau), **LOOSE)


@pytest.mark.parametrize("law", ["gains", "joints"])
def test_rollouts_with_feedback_on_rigid_ground(law: str) -> None:
    feedback: Any = JointPD((3.0, 1.0)) if law == "joints" else (3.0, 1.0)
    shapes = ((2,), (2,), (2,)) if law == "joints" else ((2, 4), (2,), (2,))
    ground = RigidContact(
        [Point("forearm", (0.0, 0.0, 0.3))], [Plane(offset=-0.25)], compliance=1e-3, tolerance=1e-12, sweeps=4000
    )
    run = rollout(ARM, 4, 0.01, contacts=ground, feedback=feedback, dtype="float64")
    random = np.random.default_rng(4)
    start = torch.tensor([2.5, 0.5], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    inputs = [torch.tensor(random.normal(size=(4, *shape)), requires_grad=True) for shape in ((2,), *shapes)]
    assert gradcheck(lambda *each: run(*start, *each).q, inputs, eps=1e-6, atol=1e-5, rtol=1e-4)
