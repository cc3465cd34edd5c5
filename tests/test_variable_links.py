"""Inertial parameters as inputs: a payload without a new graph or bitstream, and derivatives by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dynagate
import numpy as np
import pinocchio
import pytest
from click.testing import CliRunner
from dynagate import Robot, evaluate, robots, trace
from dynagate.cli import main
from dynagate.dynamics.parameters import parameters_of
from dynagate.graph.derivatives import jacobian, vjp
from dynagate.graph.region import Region
from dynagate.host.links import DeviceError
from dynagate.host.registers import Registers
from dynagate.hw.axi import Axi
from dynagate.hw.regmap import ADDRESS_BITS, REGISTERS, registers_of

from tests.oracle import pinocchio_of, reference

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
    results = evaluate(trace(ARM, name, variable=(link,)), {**states, link: np.tile(parameters, (6, 1))})
    for output, expected in evaluate(trace(heavier, name), states).items():
        np.testing.assert_allclose(results[output], expected, rtol=1e-9, atol=1e-9)


def test_seven_joints_with_a_payload_against_pinocchio() -> None:
    robot = robots.load("iiwa14")
    heavier, parameters = loaded(robot, "link_7")
    states = Region.of(robot).sample("inverse_dynamics", 4, seed=2)
    expected = reference(heavier, pinocchio_of(heavier), {**states, "tau": states["qdd"]})["tau"]
    graph = trace(robot, "inverse_dynamics", variable=("link_7",))
    results = evaluate(graph, {**states, "link_7": np.tile(parameters, (4, 1))})
    np.testing.assert_allclose(results["tau"], expected, rtol=1e-9, atol=1e-9)


def test_the_file_has_these_parameters() -> None:
    graph = trace(ARM, "inverse_dynamics", variable=("forearm",))
    (link,) = [each for each in ARM.links if each.name == "forearm"]
    states = Region.of(ARM).sample("inverse_dynamics", 3, seed=1)
    expected = evaluate(trace(ARM, "inverse_dynamics"), states)["tau"]
    results = evaluate(graph, {**states, "forearm": np.tile(parameters_of(link), (3, 1))})["tau"]
    np.testing.assert_allclose(results, expected, rtol=1e-12, atol=1e-12)


def test_the_jacobian_by_parameters_is_pinocchios_regressor() -> None:
    graph = trace(ARM, "inverse_dynamics", variable=("forearm",))
    states = {**Region.of(ARM).states(graph, 4, seed=3)}
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
        (("forearm", "forearm"), "variable link 'forearm' is named 2 times; expected each once"),
    ],
)
def test_a_link_that_cannot_vary_is_named(variable: tuple[str, ...], text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        dynagate.build(ARM, "inverse_dynamics", variable=variable, folder=tmp_path)
    assert str(error.value).startswith(text)
    options = [word for link in variable for word in ("--variable", link)]
    result = CliRunner().invoke(main, ["build", "two_joint_arm", "--folder", str(tmp_path), *options])
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


def test_a_massless_link_cannot_vary() -> None:
    empty = replace(ARM.links[1], mass=0.0, com=(0.0, 0.0, 0.0), inertia=((0.0,) * 3,) * 3)
    with pytest.raises(ValueError, match="link 'forearm' has no mass; expected a link with mass as a variable one"):
        trace(replace(ARM, links=(ARM.links[0], empty)), "inverse_dynamics", variable=("forearm",))


def test_there_are_addresses_for_four_links() -> None:
    entries = [(f"link{i}", k) for i in range(4) for k in range(10)]
    assert len(registers_of(entries)) == len(REGISTERS) + 40 <= (1 << ADDRESS_BITS) // 4
    with pytest.raises(ValueError, match="50 inertial parameters in registers; expected at most 44: fewer variable"):
        registers_of([(f"link{i}", k) for i in range(5) for k in range(10)])


def test_registers_hold_a_links_parameters(tmp_path: Path) -> None:
    robot_link, heavier = ARM.links[1], parameters_of(ARM.links[1].joined(*PAYLOAD))
    built = dynagate.build(
        ARM,
        ["inverse_dynamics", "forward_dynamics"],
        per_sample=True,
        ii=8,
        axi=Axi(width=64),
        variable=("forearm",),
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
        np.testing.assert_array_equal(np.uint32(shown).view(np.float32), parameters_of(robot_link).astype(np.float32))
        torques = []
        for parameters in (parameters_of(robot_link), heavier, parameters_of(robot_link)):
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
            hardware.inverse_dynamics(**states, forearm=np.full((20, 10), 20.0, np.float32))
        np.testing.assert_array_equal(
            hardware.inverse_dynamics(**states, forearm=forearm[:1].repeat(20, 0)).tau, torques[0]
        )
        driver.registers.write("forearm_0", int(np.float32(np.nan).view(np.uint32)))
        words = driver.floats(np.zeros((1, *driver.sample), np.uint32)).reshape(-1)[:2].view(np.float32)
        assert np.isnan(words).all()


def test_registers_half_written_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write that failed, the parameters of the call before are not taken for those in the device."""
    built = dynagate.build(ARM, "inverse_dynamics", ii=32, axi=Axi(32), variable=("forearm",), folder=tmp_path)
    states = {key: value.astype(np.float32) for key, value in Region.of(ARM).sample("inverse_dynamics", 4, 4).items()}
    (link,) = [each for each in ARM.links if each.name == "forearm"]
    light, heavy = (np.tile((share * parameters_of(link)).astype(np.float32), (4, 1)) for share in (1.0, 1.1))
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
