"""Rollouts on chip: rings against their integers bit for bit, bare and in their AXI shells, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Region, Robot, RobotWarning, Trajectories, robots
from dynagate.cli import main
from dynagate.design.files import load
from dynagate.fixedpoint.models.feedback import StepOrder
from dynagate.fixedpoint.models.model import StepModel
from dynagate.forces import Friction
from dynagate.host.devices import FixedDevice
from dynagate.host.links import DeviceError
from dynagate.host.rollout_device import RolloutDevice
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.integrators.step import CARRY

from tests.benches import passes
from tests.robots import DATA, measured_file
from tests.standins.opening import board
from tests.standins.xdma import CardSystem, LocalCard, device_files

ARM = robots.load("two_joint_arm")
REGION = Region.of(ARM, velocity=12.0, acceleration=40.0)
LEAVES = 17
"""The trajectory that leaves the region."""


def built_arm(designs: Path, **options: Any) -> Design:
    return dynagate.build(ARM, "rollout", ii=4, region=REGION, dt=0.02, folder=designs, **options)


@pytest.fixture(scope="module")
def plain(designs: Path) -> Design:
    return built_arm(designs)


@pytest.fixture(scope="module")
def shelled(designs: Path) -> Design:
    return built_arm(designs, axi=Axi(128))


@pytest.fixture(scope="module")
def linear(designs: Path) -> Design:
    """With A and B, friction and the time step as an input; integers on the streams, TLAST for a batch."""
    options = {"linearize": True, "variable_dt": True, "forces": ["Friction((0.1, 0.0))"]}
    return built_arm(designs, **options, axi=Axi(64, "batch", "fixed"))


def starts(robot: Robot, batch: int, longest: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """In float32, so that nothing is rounded on the way to the chip."""
    random = np.random.default_rng(seed)
    q = random.uniform(-1.0, 1.0, (batch, robot.nq))
    for part in robot.quaternions():
        q[:, part] /= np.linalg.norm(q[:, part], axis=1, keepdims=True)
    arrays = q, random.uniform(-1.0, 1.0, (batch, robot.nv)), random.uniform(-1.0, 1.0, (batch, longest, robot.nv))
    return tuple(x.astype(np.float32).astype(np.float64) for x in arrays)  # type: ignore[return-value]


def with_one_that_leaves(batch: int, longest: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, qd, tau = starts(ARM, batch, longest, seed)
    qd[LEAVES], tau[LEAVES] = [11.0, -11.0], [15.0, -2.0]
    return q, qd, tau


def integers(built: Design) -> RolloutDevice:
    return RolloutDevice(FixedDevice(StepModel(built.formatted, CARRY)))


def same(a: Trajectories, b: Trajectories) -> None:
    for field in ("q", "qd", "a", "b", "diverged"):
        x, y = getattr(a, field), getattr(b, field)
        assert (x is None) == (y is None)
        if x is not None:
            assert np.array_equal(x, y.astype(x.dtype), equal_nan=x.dtype.kind == "f"), field


def test_ring_equals_its_integers_under_stalls(plain: Design) -> None:
    """Mixed steps, more trajectories than slots, some that overflow; results of every step and of every third; the
    number of steps in the register; a reset on the way."""
    passes(plain.folder)


@pytest.mark.parametrize("pauses", [(0.0, 0.0), (0.3, 0.4)])
def test_trajectories_through_the_shell(shelled: Design, pauses: tuple[float, float]) -> None:
    q, qd, tau = with_one_that_leaves(38, 9)
    exact = integers(shelled)
    others = np.arange(38) != LEAVES
    with dynagate.open(shelled.folder, shell=True, pauses=pauses, seed=3) as chip:
        for options, states in (({}, 10), ({"every": 2}, 6), ({"every": 3}, 4), ({"last": True}, 2)):
            result = chip(q, qd, tau, **options)
            assert result.q.shape == (38, states, 2)
            same(result, exact(q, qd, tau, **options))
            assert result.diverged[LEAVES] > 0
            assert (result.diverged[others] == -1).all()
        one = chip(q[0], qd[0], tau[0])
        assert one.q.shape == (10, 2)
        assert np.array_equal(one.q, chip(q, qd, tau).q[0])
        assert chip(q[:0], qd[:0], tau[:0], every=4).q.shape == (0, 4, 2)
    with pytest.raises(DeviceError, match="is closed; open it again"):
        chip(q, qd, tau)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(k, marks=pytest.mark.long) for k in range(2, 6))])
def test_random_turns(shelled: Design, seed: int) -> None:
    """Batches smaller and larger than the ring, any steps, any `every`, pauses of any kind."""
    random = np.random.default_rng(seed)
    exact = integers(shelled)
    pauses = tuple(random.uniform(0.0, 0.8, 2))
    with dynagate.open(shelled, link="sim", pauses=pauses, seed=seed) as chip:
        for batch in (1, int(random.integers(2, 12)), int(random.integers(20, 60))):
            longest = int(random.integers(1, 12))
            q, qd, tau = starts(ARM, batch, longest, seed + batch)
            steps = random.integers(1, longest + 1, batch)
            steps[random.integers(batch)] = 1
            options = {"steps": steps, "every": int(random.integers(1, 5))}
            same(chip(q, qd, tau, **options), exact(q, qd, tau, **options))


def test_linearization_friction_and_time_step_on_chip(linear: Design) -> None:
    q, qd, tau = starts(ARM, 20, 6)
    dt = np.random.default_rng(2).uniform(0.001, 0.02, 20)
    exact = integers(linear)
    with dynagate.open(linear, shell=True, pauses=(0.2, 0.2)) as chip:
        result = chip(q, qd, tau, dt=dt)
        same(result, exact(q, qd, tau, dt=dt))
        assert result.a is not None
        assert result.b is not None
        assert result.a.shape == (20, 6, 4, 4)
        part = chip(q, qd, tau, dt=dt, every=4)
        assert part.a is not None
        assert np.array_equal(part.a, result.a[:, [3, 5]])
    software = dynagate.Rollout(ARM, steps=6, dt=None, linearize=True, forces=[Friction((0.1, 0.0))], device="numpy")
    for k in (0, 7):
        reference = software(q[k], qd[k], tau[k], dt=dt[k])
        np.testing.assert_allclose(result.q[k], reference.q, atol=2e-5)
        np.testing.assert_allclose(result.a[k], reference.a, atol=2e-4)
        np.testing.assert_allclose(result.b[k], reference.b, atol=2e-4)


@pytest.mark.long
def test_rings_on_a_card(linear: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through DMA, which moves a result for each step, and whose reset sends samples of zeros."""
    assert linear.design.axi is not None
    device = board(linear)
    monkeypatch.setattr("dynagate.host.xdma_link.System", lambda: CardSystem(LocalCard(device)))
    q, qd, tau = starts(ARM, 30, 5)
    with dynagate.open(linear, link=f"xdma:{device_files(tmp_path)},timeout=5") as chip:
        for _ in range(2):
            same(chip(q, qd, tau, dt=0.01), integers(linear)(q, qd, tau, dt=0.01))
        with pytest.raises(DeviceError, match="moves a result for each sample; expected every=1 instead of 90 results"):
            chip(q, qd, tau, dt=0.01, every=2)
        same(chip(q, qd, tau, dt=0.01), integers(linear)(q, qd, tau, dt=0.01))


def test_a_step_takes_the_latency_and_little_more(plain: Design) -> None:
    """Two cycles besides the latency, and until the next slot; as many trajectories take all slots."""
    with dynagate.open(plain) as chip:
        chip(*starts(ARM, 1, 40))
        latency, per_step = chip.transfer.latency, chip.transfer.per_sample
        assert latency <= per_step <= -(-(latency + 2) // 4) * 4
        assert per_step <= latency + 5
        chip(*starts(ARM, round(per_step / 4), 40))
        assert 4.0 / chip.transfer.per_sample >= 0.97


def test_flags_begin_with_the_overflow(plain: Design) -> None:
    """In the results that come out, and in no other trajectory."""
    q, qd, tau = with_one_that_leaves(25, 9)
    with dynagate.open(plain) as chip:
        result, calm = chip(q, qd, tau), chip(*starts(ARM, 25, 9))
    first = int(result.diverged[LEAVES])
    assert np.isfinite(result.q[LEAVES, :first]).all()
    assert np.isnan(result.q[LEAVES, first:]).all()
    others = np.arange(25) != LEAVES
    assert np.array_equal(result.q[others], calm.q[others])


def continuous() -> Robot:
    return Robot.from_urdf(DATA / "double_pendulum_description/urdf/double_pendulum_continuous.urdf", unlimited=True)


def test_angles_wrap(designs: Path) -> None:
    """A joint without limits turns nearly five times, and nothing overflows. The torque balances the damping."""
    robot = continuous()
    robot = Robot(robot.name, robot.links, (0.0, 0.0, 0.0))
    region = Region.of(robot, velocity=30.0, acceleration=400.0)
    built = dynagate.build(robot, "rollout", ii=4, region=region, dt=0.005, folder=designs)
    q, qd, tau = np.zeros((1, 2)), np.array([[12.0, 0.0]]), np.tile([0.6, 0.0], (1, 500, 1))
    chip = integers(built)(q, qd, tau)
    exact = dynagate.Rollout(robot, steps=500, dt=0.005, device="numpy")(q, qd, tau)
    assert exact.q[0, -1, 0] > 4.5 * 2.0 * np.pi
    assert chip.diverged.item() == -1
    assert 3.1 < np.abs(chip.q).max() <= np.pi + 1e-6
    assert np.abs(np.mod(chip.q - exact.q + np.pi, 2.0 * np.pi) - np.pi).max() < 1e-5 * exact.q.max()


def test_steps_enter_as_the_chip_continues_them() -> None:
    """The chip continues the trajectory whose last step is the oldest, and holds no more than its capacity."""
    random = np.random.default_rng(4)
    for batch, capacity in ((1, 4), (3, 4), (40, 7), (9, 1)):
        steps = random.integers(1, 9, batch)
        order = StepOrder.of(steps, capacity)
        waiting: list[int] = []
        for trajectory, step in zip(order.trajectory.tolist(), order.step.tolist(), strict=True):
            if step:
                assert waiting.pop(0) == trajectory
            if step < steps[trajectory] - 1:
                waiting.append(trajectory)
            assert len(waiting) <= capacity
        for k in range(batch):
            assert np.array_equal(order.step[order.trajectory == k], np.arange(steps[k]))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"qd0": np.zeros((4, 3))}, r"qd0 has shape \(4, 3\); expected \(4, 2\)"),
    ({"tau": np.zeros(2)}, r"tau has shape \(2,\); expected \(4, steps, 2\) with 1 step or more"),
    ({"tau": np.zeros((4, 0, 2))}, "with 1 step or more"),
    ({"tau": np.full((4, 3, 2), np.nan)}, r"input 'tau' is nan at \(0, 0, 0\); expected finite numbers"),
    ({"q0": np.full((4, 2), 9.0)}, "input 'q' is 9 at .*; the formats were chosen for"),
    ({"dt": 0.01}, "dt=0.01 for this design; expected none: it is a constant"),
    ({"steps": 4}, "steps=4; expected whole numbers from 1 to 3, the steps of tau"),
    ({"steps": [1, 2, 3, 0]}, "expected whole numbers from 1 to 3"),
    ({"steps": 1.5}, "steps=1.5; expected whole numbers"),
    ({"steps": [1, 2]}, r"steps has shape \(2,\); expected \(4,\), or one number"),
    ({"every": 0}, "every=0; expected a whole number of 1 or more"),
    ({"every": 2, "last": True}, "every=2 and last=True; expected one of them"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_a_call_refuses(plain: Design, changes: dict[str, Any], message: str) -> None:
    call = {"q0": np.zeros((4, 2)), "qd0": np.zeros((4, 2)), "tau": np.zeros((4, 3, 2)), **changes}
    with pytest.raises(ValueError, match=message):
        integers(plain)(**call)


def test_what_a_call_with_a_time_step_refuses(linear: Design) -> None:
    q, qd, tau = starts(ARM, 2, 3)
    for dt, message in (
        (None, "dt=None for this design; expected a time step, which is an input"),
        (0.0, "dt=0.0; expected time steps of more than 0 s"),
        (0.5, "input 'dt' is 0.5 at .*; the formats were chosen for 0 to 0.02"),
    ):
        with pytest.raises(ValueError, match=message):
            integers(linear)(q, qd, tau, dt=dt)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dt": 0.0}, "dt=0.0; expected a time step of more than 0 s"),
        ({"integrator": "rk5"}, "integrator 'rk5'; expected one of euler"),
        ({"variable_dt": True}, "variable_dt without dt; expected the largest time step as dt"),
        ({"forces": "Friction(-1.0)"}, "friction has force -1.0; expected True, or numbers of 0 or more"),
        ({"prefix": True}, "rollout has no option 'prefix'; expected it left out, or another function"),
        ({"outputs": ("q_next",)}, "rollout has no option 'outputs'"),
        ({"goal": dynagate.Goal(1e-3)}, r"goal of a rollout; expected policy=Policy\(word=...\) \(--word BITS\)"),
    ],
)
def test_what_a_build_refuses(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        dynagate.build(ARM, "rollout", folder=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_other_functions_have_no_options_of_rollouts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="forward_dynamics has no option 'linearize'; expected it left out"):
        dynagate.build(ARM, "forward_dynamics", linearize=True, folder=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"device": "cuda"},
            "device 'cuda' does not run this design; expected one of fixed, sim",
        ),
        ({"device": "fixed", "pauses": (0.1, 0.1)}, "device 'fixed' of a rollout design takes no option 'pauses'"),
        ({"shell": True}, "shell=True, but .* has no AXI shell; expected a design built with"),
        ({"device": "board"}, "device 'board' without a link; expected link="),
    ],
)
def test_what_open_refuses(plain: Design, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dynagate.open(plain.folder, **options)


def test_a_design_has_what_a_rollout_needs(shelled: Design) -> None:
    design = load(shelled.folder)
    assert design == replace(shelled.design, files=design.files)
    assert design.body.ring is not None
    assert design.axi is not None
    assert {"accelerator.v", "datapath.v", "rollout.v", "files.f"} <= design.files.keys()
    assert {"steps", "every"} <= design.axi.registers.keys()
    text = (shelled.folder / "datasheet.md").read_text()
    assert "## Ring" in text
    assert f"{design.body.ring.capacity} trajectories" in text
    assert "`every`" in text
    kept = (
        "| limits | positions of 2 joints are not kept: the force `Stops` or `Limits` keeps them; torques of 2 joints"
    )
    assert kept in text
    with dynagate.open(shelled.folder, device="fixed") as again:
        same(again(*starts(ARM, 3, 2)), integers(shelled)(*starts(ARM, 3, 2)))
        with pytest.warns(RobotWarning, match="joint 'elbow' of robot 'two_joint_arm' passes its limits"):
            again([0.0, 2.55], [0.0, 10.0], np.zeros((2, 2)))


def test_run_builds_simulates_and_checks(plain: Design, designs: Path) -> None:
    command = "run two_joint_arm --function rollout --ii 4 --dt 0.02 --velocity 12 --acceleration 40 --states 60"
    result = CliRunner().invoke(main, [*command.split(), "--steps", "9", "--folder", str(designs)])
    assert result.exit_code == 0, result.output
    assert "60 trajectories of 9 steps: integers and flags equal" in result.output
    assert result.output.splitlines()[-1].startswith("PASS: ")
    built = CliRunner().invoke(main, [*command.replace("run", "build").split()[:-2], "--folder", str(designs)])
    assert built.output.strip().splitlines()[-1] == str(plain.folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "run two_joint_arm --steps 3",
            "--steps does not apply to forward_dynamics_gradient; leave it out, or pass --function",
        ),
        ("run two_joint_arm --function rollout --error 1e-3", "--error of a rollout; expected --word BITS"),
        ("run two_joint_arm --function rollout --dt 0", "expected a number of more than 0"),
        ("run two_joint_arm --function rollout --dt nan", "expected a number of more than 0"),
        ("build two_joint_arm --dt 0.01", "forward_dynamics_gradient has no option --dt; expected it left out, or"),
        ("build two_joint_arm --function step --linearize", "step has no option --linearize; expected it left out"),
        ("build two_joint_arm --function rollout --variable-dt", "--variable-dt without --dt; expected both"),
        ("build two_joint_arm --function rollout --integrator rk5", "'rk5' is not one of"),
        (
            "build two_joint_arm --function rollout --force Friction(-1)",
            "friction has force -1; expected True, or numbers of 0 or more",
        ),
        ("build two_joint_arm --function rollout,step", "rollout cannot be one of several functions of a design"),
    ],
)
def test_what_the_command_refuses(arguments: str, message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [*arguments.split(), "--folder", str(tmp_path / "designs")])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "designs").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["hyq", "pendulum", "gen3"])
def test_rings_of_other_robots(name: str, designs: Path) -> None:
    """Random calls and back-pressure: a floating base, and joints without limits."""
    robot = robots.load("hyq", floating_base=True) if name == "hyq" else continuous()
    if name == "gen3":
        robot = Robot.from_urdf(measured_file("gen3_7dof"))
    region = Region.of(robot, velocity=5.0)
    built = dynagate.build(robot, "rollout", ii=16, region=region, dt=0.002, axi=Axi(512), folder=designs)
    exact = integers(built)
    random = np.random.default_rng(5)
    with dynagate.open(built, shell=True, pauses=(0.2, 0.3)) as chip:
        for batch in (3, 40):
            state = region.states(built.graph, batch, 7, "rest")
            q, qd, tau = (x.astype(np.float32).astype(np.float64) for x in state.values())
            if name == "hyq":
                q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
                q = q.astype(np.float32).astype(np.float64)
            torque, steps = np.repeat(tau[:, None], 9, axis=1), random.integers(1, 10, batch)
            same(chip(q, qd, torque, steps=steps, every=2), exact(q, qd, torque, steps=steps, every=2))
