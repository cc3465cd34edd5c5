"""Inertial parameters as inputs: a payload without a new graph or bitstream, and derivatives by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Robot, Rollout, evaluate, robots, trace
from dynagate.cli import main
from dynagate.control import Cost
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.ilqr import IlqrOptions
from dynagate.forces import Damping
from dynagate.forces.options import StepOptions
from dynagate.graph.derivatives import jacobian, vjp
from dynagate.graph.region import Region
from dynagate.host.links import DeviceError
from dynagate.host.registers import Registers
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.regmap import ADDRESS_BITS, REGISTERS, registers_of
from dynagate.robot import Mimic

from tests.oracle import pinocchio_of, reference
from tests.rebuilt import rebuilt

ARM = robots.load("two_joint_arm")
PAYLOAD = (1.7, (0.1, -0.05, 0.12), ((0.01, 0.001, 0.0), (0.001, 0.02, 0.002), (0.0, 0.002, 0.015)))


def loaded(robot: Robot, link: str) -> tuple[Robot, np.ndarray]:
    """The robot with a payload on a link, and that link's parameters by Pinocchio."""
    links = tuple(each.joined(*PAYLOAD) if each.name == link else each for each in robot.links)
    heavier = replace(robot, links=links)
    model = pinocchio_of(heavier)
    joint = next(each.joint.name for each in robot.links if each.name == link)
    return heavier, model.inertias[model.getJointId(joint)].toDynamicParameters()


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics_gradient", "forward_dynamics_vjp", "all"])
@pytest.mark.parametrize("link", ["upper_arm", "forearm"])
def test_a_payload_is_what_pinocchio_merges(name: str, link: str) -> None:
    heavier, parameters = loaded(ARM, link)
    states = Region.of(ARM).sample(name, 6, seed=1)
    results = evaluate(trace(ARM.with_variable(link), name), {**states, link: np.tile(parameters, (6, 1))})
    for output, expected in evaluate(trace(heavier, name), states).items():
        np.testing.assert_allclose(results[output], expected, rtol=1e-9, atol=1e-9)


def test_seven_joints_with_a_payload_against_pinocchio() -> None:
    robot = robots.load("iiwa14")
    heavier, parameters = loaded(robot, "link_7")
    states = Region.of(robot).sample("inverse_dynamics", 4, seed=2)
    expected = reference(heavier, pinocchio_of(heavier), {**states, "tau": states["qdd"]})["tau"]
    graph = trace(robot.with_variable("link_7"), "inverse_dynamics")
    results = evaluate(graph, {**states, "link_7": np.tile(parameters, (4, 1))})
    np.testing.assert_allclose(results["tau"], expected, rtol=1e-9, atol=1e-9)


def test_the_file_has_these_parameters() -> None:
    graph = trace(ARM.with_variable("forearm"), "inverse_dynamics")
    (link,) = [each for each in ARM.links if each.name == "forearm"]
    states = Region.of(ARM).sample("inverse_dynamics", 3, seed=1)
    expected = evaluate(trace(ARM, "inverse_dynamics"), states)["tau"]
    results = evaluate(graph, {**states, "forearm": np.tile(link.parameters(), (3, 1))})["tau"]
    np.testing.assert_allclose(results, expected, rtol=1e-12, atol=1e-12)


def test_the_jacobian_by_parameters_is_pinocchios_regressor() -> None:
    graph = trace(ARM.with_variable("forearm"), "inverse_dynamics")
    states = {**Region.of(ARM.with_variable("forearm")).states(graph, 4, seed=3)}
    columns = evaluate(jacobian(graph, ["tau"], ["forearm"], robot=ARM), states)["dtau_dforearm"]
    model = pinocchio_of(ARM)
    data = model.createData()
    joint = model.getJointId(ARM.links[1].joint.name)
    products = vjp(graph, ["tau"], ["forearm"], robot=ARM)
    weights = np.array([[1.0, -2.0]] * 4)
    by_parameters = evaluate(products, {**states, "lam_tau": weights})["vjp_forearm"]
    for k in range(4):
        q, qd, qdd = (states[name][k] for name in ("q", "qd", "qdd"))
        regressor = pinocchio.computeJointTorqueRegressor(model, data, q, qd, qdd)[:, 10 * (joint - 1) : 10 * joint]
        np.testing.assert_allclose(columns[k], regressor, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(by_parameters[k], weights[k] @ regressor, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        (
            ("hand",),
            "robot 'two_joint_arm' has no moving link 'hand'; expected one of upper_arm, forearm (a link on a ",
        ),
        (("forearm", "forearm"), "'forearm' is variable twice in robot 'two_joint_arm'; expected each parameter once"),
    ],
)
def test_a_link_that_cannot_vary_is_named(variable: tuple[str, ...], text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        ARM.with_variable(*variable)
    assert str(error.value).startswith(text)
    options = [word for link in variable for word in ("--variable", link)]
    result = CliRunner().invoke(main, ["build", "two_joint_arm", "--folder", str(tmp_path), *options])
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


def test_a_massless_link_cannot_vary() -> None:
    empty = replace(ARM.links[1], mass=0.0, com=(0.0, 0.0, 0.0), inertia=((0.0,) * 3,) * 3)
    with pytest.raises(ValueError, match="link 'forearm' has no mass, so 'forearm' cannot vary; expected a link with"):
        replace(ARM, links=(ARM.links[0], empty)).with_variable("forearm")


def test_there_are_addresses_for_four_links() -> None:
    entries = [(f"link{i}", k) for i in range(4) for k in range(10)]
    assert len(registers_of(entries)) == len(REGISTERS) + 40 <= (1 << ADDRESS_BITS) // 4
    with pytest.raises(ValueError, match="50 variable parameters in registers; expected at most 44: fewer of them"):
        registers_of([(f"link{i}", k) for i in range(5) for k in range(10)])


def test_registers_hold_a_links_parameters(tmp_path: Path) -> None:
    robot_link, heavier = ARM.links[1], ARM.links[1].joined(*PAYLOAD).parameters()
    built = dynagate.build(
        ARM.with_variable("forearm"),
        ["inverse_dynamics", "forward_dynamics"],
        per_sample=True,
        ii=8,
        axi=Axi(width=64),
        folder=tmp_path,
    )
    axi = built.design.axi
    assert axi is not None
    assert axi.words.input == 7  # q, qd, the third vector and the code
    assert axi.parameters == ("forearm",)
    states = {key: value.astype(np.float32) for key, value in Region.of(ARM).sample("inverse_dynamics", 20, 4).items()}
    with dynagate.open(built, shell=True) as hardware, dynagate.open(built.folder, device="fixed") as integers:
        driver = hardware.inverse_dynamics.device.device.driver  # type: ignore[attr-defined]
        shown = [driver.registers.read(f"forearm_{k}") for k in range(10)]
        np.testing.assert_array_equal(np.uint32(shown).view(np.float32), robot_link.parameters().astype(np.float32))
        torques = []
        for parameters in (robot_link.parameters(), heavier, robot_link.parameters()):
            forearm = np.tile(parameters.astype(np.float32), (20, 1))
            results = hardware.inverse_dynamics(**states, forearm=forearm)
            expected = integers.inverse_dynamics(**states, forearm=forearm)
            assert not results.overflow.any()
            np.testing.assert_array_equal(results.tau, expected.tau.astype(np.float32))
            torques.append(results.tau)
        assert np.abs(torques[0] - torques[1]).max() > 1.0
        np.testing.assert_array_equal(torques[0], torques[2])
        forearm[7, 0] += 0.5
        with pytest.raises(ValueError, match="input 'forearm' is not the same in samples 0 and 7; registers hold it"):
            hardware.inverse_dynamics(**states, forearm=forearm)
        with pytest.raises(ValueError, match=r"input 'forearm' is 20 at \(0, 0\); the formats were chosen for 1.2 to"):
            hardware.inverse_dynamics(**states, forearm=np.float32([[20, 0, 0, 0, 1, 0, 1, 0, 0, 1]] * 20))
        np.testing.assert_array_equal(
            hardware.inverse_dynamics(**states, forearm=forearm[:1].repeat(20, 0)).tau, torques[0]
        )
        driver.registers.write("forearm_0", int(np.float32(np.nan).view(np.uint32)))
        words = driver.floats(np.zeros((1, *driver.sample), np.uint32)).reshape(-1)[:2].view(np.float32)
        assert np.isnan(words).all()


def test_registers_hold_single_numbers_and_groups(tmp_path: Path) -> None:
    robot = ARM.with_variable("*.mass", "gravity", "elbow.damping", "elbow.rotation")
    built = dynagate.build(robot, "inverse_dynamics", ii=32, axi=Axi(64), folder=tmp_path)
    assert built.design.axi is not None
    registers = [*built.design.axi.registers][-10:]
    assert registers == [
        *("mass_0", "mass_1", "gravity_0", "gravity_1", "gravity_2", "elbow_damping_0"),
        *(f"elbow_rotation_{k}" for k in range(4)),
    ]
    states = {key: value.astype(np.float32) for key, value in Region.of(robot).sample("inverse_dynamics", 6, 3).items()}
    held = {key: np.repeat(states[key][:1], 6, axis=0) for key in robot.parameters}
    with dynagate.open(built, shell=True) as hardware, dynagate.open(built.folder, device="fixed") as integers:
        results = hardware(**{**states, **held})
        np.testing.assert_array_equal(results.tau, integers(**{**states, **held}).tau.astype(np.float32))
        with pytest.raises(ValueError, match="input 'mass' is not the same in samples 0 and 1; registers hold it"):
            hardware(**states)


def test_registers_half_written_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write that failed, the parameters of the call before are not taken for those in the device."""
    built = dynagate.build(ARM.with_variable("forearm"), "inverse_dynamics", ii=32, axi=Axi(32), folder=tmp_path)
    states = {key: value.astype(np.float32) for key, value in Region.of(ARM).sample("inverse_dynamics", 4, 4).items()}
    (link,) = [each for each in ARM.links if each.name == "forearm"]
    light, heavy = (np.tile((share * link.parameters()).astype(np.float32), (4, 1)) for share in (1.0, 1.1))
    write, left = Registers.write, [3]

    def cut(self: Registers, name: str, value: int) -> None:
        if not left[0]:
            raise DeviceError("the cable is out")
        left[0] -= 1
        write(self, name, value)

    with dynagate.open(built, shell=True) as hardware:
        before = hardware(**states, forearm=light).tau
        with monkeypatch.context() as patch:
            patch.setattr(Registers, "write", cut)
            with pytest.raises(DeviceError, match="the cable is out"):
                hardware(**states, forearm=heavy)
        np.testing.assert_array_equal(hardware(**states, forearm=light).tau, before)


FRAMED = ARM.with_frame("tool", "forearm", (0.1, 0.02, 0.3), ((0, -1, 0), (1, 0, 0), (0, 0, 1)))
BASE, *LINKS = robots.load("two_joint_arm", floating_base=True).links
COST = Cost.quadratic(q=1.0, tau=0.1)
HEAVY = replace(BASE, mass=3.0, com=(0.01, 0.02, 0.0), inertia=((0.1, 0.01, 0.0), (0.01, 0.12, 0.0), (0.0, 0.0, 0.15)))
FLYING = Robot("flying_arm", (HEAVY, *LINKS))
GROUPS = [
    ("*.mass", "gravity", "*.damping"),
    ("*", "*.armature", "*.friction"),
    ("*.com", "forearm.inertia", "elbow.position", "tool.rotation"),
    ("*.placement", "tool.placement", "*.payload", "upper_arm.mass"),
]
NAMES = ["inverse_dynamics", "forward_dynamics", "inverse_dynamics_gradient", "center_of_mass", "link_jacobians"]


def by_rebuilding(robot: Robot, name: str) -> float:
    """The largest relative difference of a function from that of robots rebuilt with the numbers of each sample."""
    graph, worst = trace(robot, name), 0.0
    states = Region.of(robot, velocity=2.0).states(graph, 3, seed=5)
    results = evaluate(graph, states)
    for k in range(3):
        other = trace(rebuilt(robot, {key: states[key][k] for key in robot.parameters}), name)
        for output, expected in evaluate(other, {p.name: states[p.name][k : k + 1] for p in other.inputs}).items():
            worst = max(worst, float(np.abs(results[output][k] - expected[0]).max() / (np.abs(expected).max() or 1.0)))
    return worst


@pytest.mark.parametrize("names", GROUPS)
@pytest.mark.parametrize("robot", [FRAMED, FLYING.with_frame("tool", "forearm", (0.1, 0.02, 0.3))])
def test_parameters_are_those_of_a_robot_rebuilt_with_them(robot: Robot, names: tuple[str, ...]) -> None:
    varied = robot.with_variable(*names)
    for name in [*NAMES, "frame_pose_tool", "frame_acceleration_tool"]:
        assert by_rebuilding(varied, name) < 1e-12, name


@pytest.mark.parametrize("name", ["gravity", "shoulder.rotation", "elbow.rotation"])
def test_a_joint_along_gravity_feels_what_turns_it_away(name: str) -> None:
    lying = replace(ARM, gravity=(0.0, -9.81, 0.0))  # along both joints, which then feel no weight
    assert by_rebuilding(lying.with_variable(name), "inverse_dynamics") < 1e-12
    hand = replace(ARM.links[1], name="hand", parent=1, joint=replace(ARM.links[1].joint, name="wrist"))
    longer = replace(lying, links=(*ARM.links, hand))  # three parallel joints, unless the elbow turns
    assert by_rebuilding(longer.with_variable(name), "inverse_dynamics") < 1e-12


def test_mimics_and_constraints_have_parameters() -> None:
    follower = replace(ARM.links[1], joint=replace(ARM.links[1].joint, mimic=Mimic(ARM.links[0].joint.name, -0.5, 0.2)))
    coupled = replace(ARM, links=(ARM.links[0], follower)).with_variable("*", "*.damping", "*.position")
    held = FRAMED.with_contact("tool", compliance=1e-3).with_variable(
        "*.mass", "tool.placement", "gravity", "elbow.rotation"
    )
    assert by_rebuilding(coupled, "forward_dynamics") < 1e-12
    for name in ("constrained_forward_dynamics", "contact_jacobian"):
        assert by_rebuilding(held, name) < 1e-12, name


@pytest.mark.parametrize("value", [None, 5, (3,), [["forearm"]], b"forearm"])
def test_variable_is_a_sequence_of_names(value: Any) -> None:
    with pytest.raises(TypeError, match="variable"):
        Robot("arm", ARM.links, variable=value)
    assert Robot("arm", ARM.links, variable=["forearm"]).variable == ("forearm",)  # type: ignore[arg-type]


def test_a_former_option_says_what_to_write() -> None:
    calls: list[Any] = [dynagate.compile, dynagate.build, trace]
    for call in calls:
        with pytest.raises(TypeError, match=r"'variable'; write robot.with_variable\('forearm.mass'\), and pass that"):
            call(ARM, "mass_matrix", variable=("forearm",))


def test_a_group_may_be_part_of_the_links_of_a_quadruped() -> None:
    quadruped = robots.load("hyq").with_variable("lf_*.mass", "lf_*.friction", "lf_hip.payload")
    assert [variable.shape for variable in quadruped.variables] == [(3,), (3,), (10,)]
    assert list(quadruped.parameters) == ["lf_mass", "lf_friction", "lf_hip_payload"]
    assert by_rebuilding(quadruped, "inverse_dynamics") < 1e-12


@pytest.mark.parametrize("name", ["inverse_dynamics", "forward_dynamics", "inverse_mass_product"])
def test_products_with_derivatives_have_the_parameters(name: str) -> None:
    robot = ARM.with_friction(0.3).with_variable("forearm", "upper_arm.com", "*.friction", "gravity", "elbow.placement")
    region, random = Region.of(robot, velocity=2.0), np.random.default_rng(3)
    graph, reverse, forward = (trace(robot, name + end) for end in ("", "_vjp", "_jvp"))
    (output,) = (port.name for port in graph.outputs)
    states, weights = region.states(graph, 2, seed=4), random.normal(size=(2, 2))
    products = evaluate(reverse, {**states, f"lam_{output}": weights})
    assert [port.name for port in reverse.outputs if port.name.startswith("vjp_")][-5:] == [
        f"vjp_{key}" for key in robot.parameters
    ]
    for variable in robot.variables:
        key = variable.input
        moved = random.normal(size=states[key].shape)
        for start, stop in variable.unit_vectors:
            unit = states[key][:, start:stop]
            moved[:, start:stop] -= unit * np.sum(unit * moved[:, start:stop], axis=1, keepdims=True)
        exact = evaluate(graph, {**states, key: states[key] + 1e-30j * moved})[output].imag / 1e-30
        by_weights = np.sum((products[f"vjp_{key}"] * moved).reshape(2, -1), axis=1)
        np.testing.assert_allclose(by_weights, np.sum(weights * exact, axis=1), rtol=1e-11, atol=1e-11)
        still = {p.name: np.zeros((2, *p.shape)) for p in forward.inputs if p.name.startswith("delta_")}
        rates = evaluate(forward, {**states, **still, f"delta_{key}": moved})[f"jvp_{output}"]
        np.testing.assert_allclose(rates, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("forarm.mass",), "has no moving link 'forarm', which 'forarm.mass' needs (did you mean 'forearm'?)"),
        (("elbw.damping",), "has no joint 'elbw', which 'elbw.damping' needs (did you mean 'elbow'?)"),
        (("tol.placement",), "has no joint or frame 'tol', which 'tol.placement' needs (did you mean 'tool'?)"),
        (("forearm.mas",), "there is no 'mas' (did you mean 'mass'?); expected one of mass, com, inertia, payload"),
        (("forearm", "*.mass"), "'*.mass' and 'forearm' of robot 'two_joint_arm' are the same numbers"),
        (("elbow.rotation", "*.placement"), "are the same numbers; expected one of them"),
        (("*",) * 2, "'*' is variable twice"),
        (("x*.mass",), "has no moving link 'x*', which 'x*.mass' needs"),
        ((7,), "with_variable() got 7; expected names such as 'forearm.mass'"),
        ((["forearm"],), "with_variable() got ['forearm']; expected names"),
    ],
)
def test_a_parameter_that_the_robot_has_not_is_named(names: tuple[str, ...], text: str) -> None:
    with pytest.raises((ValueError, TypeError)) as error:
        FRAMED.with_variable(*names)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("forearm.mass", 0.0, "input 'forearm_mass' is 0 at (2,); expected a mass above 0 kg"),
        ("forearm.mass", np.nan, "expected a mass above 0 kg"),
        ("*.damping", -1.0, "input 'damping' is -1 at (2, 0); expected a number of 0 or more"),
        ("forearm.inertia", [1, 0, 1, 0, 0, 2.1], "expected an inertia that a body can have: positive moments"),
        ("forearm.inertia", [-1, 0, 1, 0, 0, 1], "expected an inertia that a body can have: positive moments"),
        ("forearm", [1, 1, 0, 0, 0.1, 0, 0.1, 0, 0, 0.1], "expected a mass above 0 and an inertia that a body can"),
        ("forearm.payload", [0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "expected zeros for no payload, or a mass above 0"),
        ("elbow.placement", [0, 0, 1, 0, 0, 0, 0.9], "a quaternion of length 0.9; expected 1"),
        ("elbow.rotation", [0, 0, 0, 0], "a quaternion of length 0; expected 1"),
    ],
)
def test_numbers_that_no_robot_has_are_refused_by_sample(name: str, value: object, text: str) -> None:
    robot = ARM.with_variable(name)
    (own,) = robot.parameters.values()
    several = np.tile(own, (4, *[1] * own.ndim))
    several[2] = value
    for device in ("numpy", "cpu"):
        with dynagate.compile(robot, "gravity_torque", device=device) as compiled:
            compiled([0.1, 0.2], own)
            with pytest.raises(ValueError, match=r"input '") as error:
                compiled([0.1, 0.2], several)
            assert text in str(error.value)
            assert "(2" in str(error.value) or "sample 2" in str(error.value)
            with pytest.raises(ValueError, match=r"input '"):
                compiled([0.1, 0.2], several[2])


def test_a_payload_of_zeros_or_a_point_is_one() -> None:
    robot = ARM.with_variable("forearm.payload")
    point = np.array([2.0, 0.2, 0.0, 0.4, 0.08, 0.0, 0.1, -0.04, 0.0, 0.02])  # 2 kg at (0.1, 0, 0.2)
    with dynagate.compile(robot, "gravity_torque") as compiled:
        both = compiled([0.1, 0.2], np.stack([0.0 * point, point])).gravity_torque
    for torque, other in zip(
        both, (ARM, ARM.with_payload("forearm", 2.0, (0.1, 0.0, 0.2), np.zeros((3, 3)))), strict=True
    ):
        np.testing.assert_allclose(torque, dynagate.compile(other, "gravity_torque")([0.1, 0.2]).gravity_torque)


def test_friction_of_the_robot_is_in_every_function() -> None:
    robot, states = ARM.with_friction([0.2, 0.5], speed=0.1), {"q": np.zeros((1, 2)), "qd": np.array([[0.3, -0.1]])}
    plain, rubbing = (evaluate(trace(each, "bias_torque"), states)["bias_torque"] for each in (ARM, robot))
    np.testing.assert_allclose(rubbing - plain, [[0.2 * 0.3 / np.hypot(0.3, 0.1), -0.5 * 0.1 / np.hypot(0.1, 0.1)]])
    assert FLYING.with_damping(0.7).links[0].joint.damping == 0.0
    assert [link.joint.damping for link in FLYING.with_damping([1, 2, 3]).links] == [1.0, 2.0, 3.0]
    for wrong in (-1.0, [1.0], np.nan, "2", True):
        for call in (ARM.with_friction, ARM.with_damping):
            with pytest.raises(ValueError, match="expected"):
                call(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="with_friction.. has speed 0"):
        ARM.with_friction(0.1, speed=0.0)


def test_a_region_has_ranges_of_parameters() -> None:
    robot = ARM.with_variable("forearm.mass", "*.damping", "forearm.inertia", "elbow.rotation", "gravity")
    region = Region.of(robot, parameters={"forearm.mass": (0.5, 3.0), "damping": (0.0, [1.0, 2.0])})
    assert region.bounds("forearm_mass") == [(0.5, 3.0)]
    assert region.bounds("damping") == [(0.0, 1.0), (0.0, 2.0)]
    drawn = region.sample("gravity_torque", 200, seed=1)
    for key in robot.parameters:
        low, high = np.array(region.bounds(key)).T
        flat = drawn[key].reshape(200, -1)
        assert (flat >= low - 1e-12).all()
        assert (flat <= high + 1e-12).all()
    mass = ARM.links[1].mass
    assert Region.of(robot).bounds("forearm_mass") == [pytest.approx((0.8 * mass, 1.2 * mass))]
    for ranges, text in (
        ({"elbow.mass": (1, 2)}, "has no variable parameter 'elbow.mass'"),
        ({"forearm.mass": (0.0, 2)}, "expected a mass above 0 kg"),
        ({"forearm.mass": (3, 2)}, "expected a low end below the high one"),
        ({"forearm.mass": 3}, r"expected \(low, high\)"),
        ({"forearm.mass": (1, np.inf)}, "expected"),
        ({"damping": ([1, 2, 3], 4)}, "has an end of shape"),
        ({"elbow.rotation": (0, 1)}, "is of a rotation"),
    ):
        with pytest.raises(ValueError, match=text):
            Region.of(robot, parameters=ranges)  # type: ignore[arg-type]


def test_fixed_point_has_parameters_as_inputs() -> None:
    robot = ARM.with_variable("forearm.mass", "*.damping", "gravity", "elbow.placement")
    states = Region.of(robot).sample("inverse_dynamics", 50, seed=2)
    exact = dynagate.compile(robot, "inverse_dynamics", device="numpy")(**states).tau
    with dynagate.compile(robot, "inverse_dynamics", device="fixed") as integers:
        results = integers(**states)
        assert not results.overflow.any()
        np.testing.assert_allclose(results.tau, exact, atol=2e-4 * np.abs(exact).max())
        with pytest.raises(ValueError, match=r"input 'forearm_mass' is 2; the formats were chosen for 0.96 to"):
            integers(**{**{key: value[0] for key, value in states.items()}, "forearm_mass": 2.0})


def test_forms_without_parameters_say_so() -> None:
    robot = ARM.with_variable("gravity")
    with pytest.raises(ValueError, match="form 'scan' of forward_dynamics cannot take .* 'gravity' of robot"):
        dynagate.compile(robot, "forward_dynamics", form="scan")
    with pytest.raises(ValueError, match="a program cannot take the variable parameters 'gravity' of robot"):
        dynagate.build(robot, "gravity_torque", units=2)


def test_implicit_damping_has_variable_damping_and_armature() -> None:
    robot = ARM.with_armature(0.02).with_damping([0.5, 2.0]).with_variable("*.damping", "elbow.armature", "gravity")
    state = Region.of(robot, velocity=1.0).sample("forward_dynamics", 2, seed=1)
    own, tau = {key: state[key] for key in robot.parameters}, np.ones((3, 2))
    options: dict[str, Any] = {"steps": 3, "dt": 0.02, "implicit_damping": True}
    rollout, costs = Rollout(robot, **options), np.random.default_rng(2).normal(size=(2, 2, 4, 2))
    trajectories = rollout(state["q"], state["qd"], tau, **own)
    for k in range(2):
        other = rebuilt(robot, {key: value[k] for key, value in own.items()})
        expected = Rollout(other, device="numpy", **options)(state["q"][k], state["qd"][k], tau)
        np.testing.assert_allclose(trajectories.q[k], expected.q, rtol=1e-12, atol=1e-12)
    gradient = rollout.vjp(trajectories, np.tile(tau, (2, 1, 1)), *costs, **own)
    for key, value in own.items():
        step = 1e-6 * np.random.default_rng(3).normal(size=value.shape)
        ends = [rollout(state["q"], state["qd"], tau, **{**own, key: value + side * step}) for side in (0.5, -0.5)]
        totals = [np.sum(costs[0] * end.q + costs[1] * end.qd, axis=(1, 2)) for end in ends]
        by_gradient = np.sum((gradient[key] * step).reshape(2, -1), axis=1)
        np.testing.assert_allclose(by_gradient, totals[0] - totals[1], rtol=1e-5, atol=1e-13)


@pytest.mark.parametrize("options", [{"integrator": "rk4"}, {"feedback": True, "forces": [Damping(0.1)]}])
def test_rollouts_have_parameters_and_gradients_by_them(options: dict[str, Any]) -> None:
    robot = ARM.with_friction(0.2).with_variable("*.mass", "forearm.com", "gravity", "elbow.rotation", "*.friction")
    state = Region.of(robot, velocity=1.0).sample("forward_dynamics", 3, seed=1)
    own = {key: state[key] for key in robot.parameters}
    random = np.random.default_rng(2)
    tau, costs = random.normal(size=(4, 2)), random.normal(size=(2, 3, 5, 2))
    held = (
        {"gain": -0.1 * np.ones((2, 4)), "q_ref": np.zeros(2), "qd_ref": np.zeros(2)} if "feedback" in options else {}
    )
    rollout = Rollout(robot, steps=4, dt=0.01, **options)
    trajectories = rollout(state["q"], state["qd"], tau, **own, **held)
    for k in range(3):
        other = rebuilt(robot, {key: value[k] for key, value in own.items()})
        expected = Rollout(other, steps=4, dt=0.01, device="numpy", **options)(
            state["q"][k], state["qd"][k], tau, **held
        )
        np.testing.assert_allclose(trajectories.q[k], expected.q, rtol=1e-12, atol=1e-12)
    gradient = rollout.vjp(trajectories, np.tile(tau, (3, 1, 1)), *costs, **own, **held)

    def cost(key: str, moved: np.ndarray) -> np.ndarray:
        for start, stop in {each.input: each.unit_vectors for each in robot.variables}[key]:
            moved[:, start:stop] /= np.linalg.norm(moved[:, start:stop], axis=1, keepdims=True)
        results = rollout(state["q"], state["qd"], tau, **{**own, key: moved}, **held)
        return np.sum(costs[0] * results.q + costs[1] * results.qd, axis=(1, 2))

    for key, value in own.items():
        step = 1e-6 * random.normal(size=value.shape)
        change = 0.5 * (cost(key, value + step) - cost(key, value - step))
        by_gradient = np.sum((gradient[key] * step).reshape(3, -1), axis=1)
        np.testing.assert_allclose(by_gradient, change, rtol=1e-5, atol=1e-12)


def test_leading_axes_of_parameters_broadcast_in_rollouts() -> None:
    rollout = Rollout(ARM.with_variable("forearm.mass"), steps=3, dt=0.01)
    zero, masses = np.zeros(2), np.array([0.5, 1.0, 1.5])
    several = rollout(zero, zero, np.ones((3, 2)), forearm_mass=masses)
    assert several.q.shape == (3, 4, 2)
    np.testing.assert_array_equal(several.q[1], rollout(zero, zero, np.ones((3, 2)), forearm_mass=1.0).q)
    with pytest.raises(ValueError, match=r"a call without the variable parameter 'forearm_mass'; expected shape \(\)"):
        rollout(zero, zero, np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"input 'forearm_mass' is -1 at \(1,\); expected a mass above 0 kg"):
        rollout(zero, zero, np.ones((3, 2)), forearm_mass=np.array([1.0, -1.0, 2.0]))
    with pytest.raises(ValueError, match="forearm_mass is not finite"):
        rollout(zero, zero, np.ones((3, 2)), forearm_mass=np.nan)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda robot: Rollout(robot, steps=2, dt=0.01, integrator="variational"), "the variational integrator cannot"),
        (
            lambda robot: Rollout(robot, steps=2, dt=0.01, integrator="position_based"),
            "position-based integrator",
        ),
        (lambda robot: Rollout(robot, steps=2, dt=0.01, device="fixed"), "a rollout on a chip cannot take"),
        (lambda robot: trace(robot, "step", implicit_damping=True), "implicit_damping=True of this form cannot take"),
        (
            lambda robot: ChipIlqr.of(robot, COST, IlqrOptions(3, StepOptions(0.01), 3, 1e-6, 1e-9, 1e9)),
            "a solver on a chip cannot take the variable parameters 'forearm",
        ),
    ],
)
def test_motions_and_solvers_without_parameters_name_them(make: Any, text: str) -> None:
    robot = ARM.with_variable("forearm.mass", "*.damping")
    with pytest.raises(ValueError, match="as inputs; expected a robot with these numbers as constants") as error:
        make(robot)
    assert text in str(error.value)
