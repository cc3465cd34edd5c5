"""Several functions in one datapath: equal to the integers, each in order and early, through the AXI shell too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Function, robots, trace
from dynagate.cli import main
from dynagate.dynamics import TOGETHER
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.wordlength.confidence import state
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import part_graph, parts_of
from dynagate.graph.region import Region, part_states
from dynagate.host.devices.stream import stream_device
from dynagate.host.drivers import ShellSession
from dynagate.host.links import RegisterError
from dynagate.host.sim_links import SimShellLink
from dynagate.hw.designs import Design
from dynagate.hw.plan.plan import plan
from dynagate.hw.rtl.axi import Axi

from tests.designs import functions_of
from tests.failing_links import check_closed_on_failure
from tests.standins import opening as standins

ARM = robots.load("two_joint_arm")
REGION = Region.of(ARM)
TIGHT = Policy(word=20, guard_bits=-0.3)
"""Ranges so tight that some states overflow."""
SHARED = [
    "all",
    "inverse_dynamics,forward_dynamics",
    "mass_matrix,inverse_dynamics_gradient",
    "mass_matrix,mass_matrix_inverse",
    "inverse_dynamics,inverse_dynamics_gradient",
]


@pytest.mark.parametrize("name", SHARED)
def test_each_function_is_what_it_is_alone(name: str) -> None:
    graph = trace(ARM, name)
    for part in parts_of(name):
        own, alone = part_graph(graph, part), trace(ARM, part.name)
        states = part_states(own, part, REGION, 20, seed=1)
        expected = evaluate(alone, {port.name: states[port.name] for port in alone.inputs})
        results = evaluate(own, states)
        assert list(results) == list(expected)
        for output, value in expected.items():
            np.testing.assert_allclose(results[output], value, rtol=1e-10, atol=1e-10)


def test_external_forces_reach_every_function_that_takes_them() -> None:
    graph = trace(ARM, "all", external_forces=True)
    for part in parts_of("all"):
        own = part_graph(graph, part)
        takes = part.function.takes_external_forces
        alone = trace(ARM, part.name, external_forces=takes)
        states = part_states(own, part, REGION, 5, seed=2)
        assert ("f_ext" in states) == takes
        expected = evaluate(alone, {port.name: states[port.name] for port in alone.inputs})
        for output, value in evaluate(own, states).items():
            np.testing.assert_allclose(value, expected[output], rtol=1e-10, atol=1e-10)


def test_a_statement_is_of_each_functions_own_states() -> None:
    graph = trace(ARM, "inverse_dynamics,forward_dynamics")
    together = state(assign(graph, REGION), REGION, Goal(0.5, fresh=8192))
    for name, output in (("inverse_dynamics", "tau"), ("forward_dynamics", "qdd")):
        alone = state(assign(trace(ARM, name), REGION), REGION, Goal(0.5, fresh=8192))
        assert together.floors[output] == pytest.approx(alone.floors[output])
        assert 0.0 < together.error[output] < 4.0 * alone.error[output]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Design:
    folder = tmp_path_factory.mktemp("designs")
    return dynagate.build(
        ARM, list(TOGETHER), per_sample=True, ii=4, policy=TIGHT, axi=Axi(128, "batch", choice=True), folder=folder
    )


@pytest.fixture(scope="module")
def simulated(built: Design) -> Iterator[Function]:
    with dynagate.open(built, pauses=(0.2, 0.3), seed=3) as accelerator:
        yield accelerator


def states_of(name: str, count: int = 200) -> dict[str, Any]:
    states = REGION.sample(name, count, seed=5)
    states |= {"tau": np.clip(states["tau"], -15.0, 15.0)} if "tau" in states else {}
    return {key: value.astype(np.float32) for key, value in states.items()}


@pytest.mark.parametrize("shell", [pytest.param(False, marks=pytest.mark.long), True])
def test_one_design_answers_six_functions(built: Design, shell: bool) -> None:
    overflows = 0
    with dynagate.open(built, shell=shell) as hardware, dynagate.open(built.folder, device="fixed") as integers:
        for name in TOGETHER:
            states = states_of(name)
            results, expected = hardware.functions[name](**states), integers.functions[name](**states)
            np.testing.assert_array_equal(results.overflow, expected.overflow)
            sound = ~expected.overflow
            overflows += int(expected.overflow.sum())
            assert sound.any()
            assert [*results] == [argument.name for argument in dynagate.FUNCTIONS[name].outputs]
            for output, value in expected.items():
                np.testing.assert_array_equal(results[output][sound], value[sound].astype(results[output].dtype))
    assert overflows > 0


def test_samples_of_several_functions_mix_at_full_rate(built: Design, simulated: Function) -> None:
    """Bare payloads, a function after the other; the field `end` says which function a result is of."""
    count, output = 12, built.design.output
    drivers = [each.device.device.driver for each in simulated.functions.values()]  # type: ignore[attr-defined]
    samples = np.zeros((count * len(drivers), *drivers[0].sample), np.uint32)
    for k, each in enumerate(simulated.functions.values()):
        rows = np.zeros((count, *drivers[0].sample), np.uint32)
        arrays = {key: value.astype(np.float64) for key, value in states_of(TOGETHER[k], count).items()}
        drivers[k].pack(each.device.completed(arrays, count), count, rows)  # type: ignore[attr-defined]
        samples[k :: len(drivers)] = rows
    results = np.zeros((len(samples), *drivers[0].result), np.uint32)
    link = drivers[0].link
    link.write(samples)
    received = 0
    while received < len(samples):
        received += link.read(results[received:])
    low = output.overflow + len(output.scopes)
    word, bit = divmod(low, 32)
    pair = results[:, 0, word].astype(np.uint64) | np.pad(results[:, 0], ((0, 0), (0, 1)))[:, word + 1].astype(
        np.uint64
    ) << np.uint64(32)
    ends = (pair >> np.uint64(bit)).astype(int) & 7
    assert list(ends) != sorted(ends)
    with dynagate.open(built.folder, device="fixed") as integers:
        for k, name in enumerate(TOGETHER):
            values, overflow = drivers[k].unpack(samples, results[ends == k])
            expected = integers.functions[name](**states_of(name, count))
            np.testing.assert_array_equal(overflow, expected.overflow)
            for key, value in values.items():
                np.testing.assert_array_equal(value[~overflow], expected[key][~overflow])


def test_a_function_is_delivered_as_soon_as_it_is_ready(built: Design) -> None:
    cycles = {delivery.name: delivery.cycle for delivery in built.hardware.plan.deliveries}
    for name in TOGETHER:
        alone = plan(assign(trace(ARM, name), REGION, TIGHT), 4).latency
        if name != "inverse_dynamics_gradient":  # it waits for the acceleration, which the sample could have to compute
            assert cycles[name] <= alone + 8
    assert cycles["mass_matrix"] < cycles["forward_dynamics"] < built.hardware.plan.latency


def test_words_of_a_result_are_its_functions_own(built: Design) -> None:
    axi = built.design.axi
    assert axi is not None
    for function in built.design.functions:
        own = built.design.of_function(function).axi
        assert own is not None
        alone = trace(ARM, function.name)
        assert own.words.output == len(alone.result_nodes)
        assert own.beats.output == -(-(own.words.output + 1) // 4)
    assert axi.words.output == 13
    numbers = {function.name: sum(len(port.fields) for port in function.outputs) for function in built.design.functions}
    words = {function.name: len(function.fields) for function in built.design.functions}
    assert (numbers["mass_matrix"], words["mass_matrix"]) == (4, 3)  # symmetric
    assert (numbers["inverse_dynamics_gradient"], words["inverse_dynamics_gradient"]) == (8, 7)  # ∂τ₂/∂q̇₂ = 0


def test_a_code_that_the_design_lacks_gives_no_result(built: Design) -> None:
    with dynagate.open(built, shell=True) as hardware:
        device: Any = hardware.functions["forward_dynamics_gradient"].device
        driver = device.device.driver
        states = states_of("forward_dynamics_gradient")
        sound = np.flatnonzero(~hardware.forward_dynamics_gradient(**states).overflow)[:2]
        arrays = {key: value[sound].astype(np.float64) for key, value in states.items()}
        samples = np.zeros((2, *driver.sample), np.uint32)
        driver.pack(device.completed(arrays, 2), 2, samples)
        (port,) = [port for port in driver.design.input.ports if port.name == "function"]
        samples.reshape(2, -1)[1, port.fields[0]] = np.float32(3.0).view(np.uint32)
        words = driver.floats(samples).reshape(2, -1)[:, : driver.axi.words.output].view(np.float32)
        assert not np.isnan(words[0]).any()
        assert np.isnan(words[1]).all()
        assert (driver.counters.bad_inputs, driver.counters.first_bad_input) == (1, 1)


@pytest.fixture(scope="module")
def shell(built: Design) -> Iterator[Function]:
    with dynagate.open(built, shell=True, pauses=(0.1, 0.2), seed=5) as accelerator:
        yield accelerator


@pytest.mark.parametrize("name", ["inverse_dynamics_gradient", "forward_dynamics_gradient"])
def test_outputs_are_chosen_while_it_runs(name: str, built: Design, shell: Function) -> None:
    """Every choice of a function's outputs, and another function between."""
    states, other = states_of(name, 30), states_of("mass_matrix", 5)
    outputs = [argument.name for argument in dynagate.FUNCTIONS[name].outputs]
    with dynagate.open(built.folder, device="fixed") as integers:
        expected = integers.functions[name](**states)
        sound = ~expected.overflow
        for mask in np.random.default_rng(2).permutation(np.arange(1, 1 << len(outputs))):
            chosen = [output for k, output in enumerate(outputs) if mask >> k & 1]
            results = shell.functions[name](**states, outputs=chosen[::-1])
            assert [*results] == chosen
            np.testing.assert_array_equal(results.overflow, expected.overflow)
            for output in chosen:
                np.testing.assert_array_equal(results[output][sound], expected[output][sound].astype(np.float32))
            assert shell.mass_matrix(**other).m.shape == (5, 2, 2)
        whole = shell.functions[name](**states)
        assert [*whole] == outputs
        np.testing.assert_array_equal(whole[outputs[0]][sound], expected[outputs[0]][sound].astype(np.float32))


def test_only_the_chosen_words_are_sent(built: Design, shell: Function) -> None:
    device: Any = shell.forward_dynamics_gradient.device
    whole = device.device.driver
    driver = device.choosing(["dqdd_dq"]).device.driver
    assert (whole.axi.words.output, driver.axi.words.output) == (13, 4)
    assert (whole.result, driver.result) == ((4, 4), (2, 4))
    states = states_of("forward_dynamics_gradient", 20)
    pending = shell.forward_dynamics_gradient.choosing("dqdd_dq").submit(**states)
    later = shell.forward_dynamics_gradient.choosing("minv").submit(**states)
    direct = shell.forward_dynamics_gradient(**states, outputs=("dqdd_dq", "minv"))
    np.testing.assert_array_equal(pending.result().dqdd_dq, direct.dqdd_dq)
    np.testing.assert_array_equal(later.result().minv, direct.minv)
    bits = driver.registers.bits("outputs")
    assert {name for name in bits if name.startswith("forward_dynamics_gradient.")} == {
        "forward_dynamics_gradient.dqdd_dq",
        "forward_dynamics_gradient.minv",
    }


def test_a_link_that_fails_while_a_shell_opens_is_closed(built: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_closed_on_failure(monkeypatch, SimShellLink, lambda: dynagate.open(built, shell=True)) > 10


@pytest.mark.parametrize("which", ["xdma", "pynq", "xrt"])
def test_boards_receive_results_of_every_length(which: str, built: Design) -> None:
    link = standins.STANDINS[which](built, standins.board(built))
    with (
        Function(stream_device(ShellSession(built.design, link))) as accelerator,
        dynagate.open(built.folder, device="fixed") as integers,
    ):
        for name, outputs in [(name, None) for name in TOGETHER] + [("forward_dynamics_gradient", ["qdd"])]:
            states = states_of(name, 20)
            results, expected = (
                accelerator.functions[name](**states, outputs=outputs),
                integers.functions[name](**states),
            )
            np.testing.assert_array_equal(results.overflow, expected.overflow)
            for output, value in results.items():
                sound = ~expected.overflow
                np.testing.assert_array_equal(value[sound], expected[output][sound].astype(np.float32))


def test_a_wrong_choice_of_outputs_is_refused(shell: Function) -> None:
    gradient: Any = shell.forward_dynamics_gradient
    states = states_of("forward_dynamics_gradient", 40)
    before = gradient(**states)
    with pytest.raises(
        ValueError, match="_gradient has no output 'tau'; expected some of qdd, dqdd_dq, dqdd_dqd, minv"
    ):
        gradient(**states, outputs=("qdd", "tau"))
    with pytest.raises(ValueError, match="forward_dynamics_gradient without outputs; expected some of qdd, dqdd_dq"):
        gradient(**states, outputs=())
    driver = gradient.device.device.driver
    every = driver.registers.read("outputs")
    assert every == (1 << 10) - 1
    for wrong in (0, every & ~0b1, every & 0b111111, every | 1 << 10):  # no output of some function, or an unknown one
        with pytest.raises(RegisterError, match="was answered with SLVERR; expected a register that can be written"):
            driver.registers.write("outputs", wrong)
    completed = gradient.device.completed({key: value.astype(np.float64) for key, value in states.items()}, 40)
    samples, results = np.zeros((40, *driver.sample), np.uint32), np.zeros((40, *driver.result), np.uint32)
    driver.pack(completed, 40, samples)
    driver.link.write(samples)
    with pytest.raises(RegisterError, match="SLVERR"):  # while samples are under way
        driver.registers.write("outputs", every & ~(1 << 9))
    received = 0
    while received < 40:
        received += driver.link.read(results[received:])
    assert driver.registers.read("outputs") == every
    values, _ = driver.unpack(samples, results)
    np.testing.assert_array_equal(values["minv"], before.minv)
    driver.registers.write("outputs", every & ~(1 << 9))  # after they have left
    driver.session.reset()
    assert driver.registers.read("outputs") == every


@pytest.mark.parametrize("device", ["numpy", "cpu", "fixed"])
def test_software_leaves_other_outputs_out(device: str) -> None:
    with dynagate.compile(ARM, "forward_dynamics_gradient", device=device) as accelerator:
        states = states_of("forward_dynamics_gradient", 3)
        results = accelerator(**states, outputs=("minv", "qdd"))
        assert [*results] == ["qdd", "minv"]
        np.testing.assert_array_equal(results.minv, accelerator(**states).minv)
        run = accelerator.choosing("dqdd_dq").bind(**states)
        np.testing.assert_array_equal(run().dqdd_dq, accelerator(**states).dqdd_dq)
    with pytest.raises(dynagate.host.DeviceError, match="is closed"):
        accelerator.choosing("minv")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("inverse_dynamics,torque", "no function 'torque' (did you mean 'bias_torque' or"),
        ("inverse_dynamics,inverse_dynamics", "inverse_dynamics is named 2 times; expected each function once"),
        (
            "inverse_dynamics,kinetic_energy",
            "kinetic_energy cannot be one of several functions of a design; expected some of inverse_dynamics,",
        ),
    ],
)
def test_functions_that_cannot_be_computed_together(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected") as error:
        dynagate.build(ARM, **functions_of(name), folder=tmp_path)
    assert str(error.value).startswith(text)
    result = CliRunner().invoke(main, ["build", "two_joint_arm", "--function", name, "--folder", str(tmp_path)])
    assert result.exit_code == 2
    assert "Invalid value for '--function'" in result.output
    assert not list(tmp_path.iterdir())


def test_outputs_of_several_functions_are_not_chosen() -> None:
    with pytest.raises(ValueError, match=r"outputs of several functions \(all\); expected fewer functions instead"):
        trace(ARM, "all", outputs=["tau"])


def test_what_an_accelerator_of_several_functions_refuses(simulated: Function) -> None:
    with pytest.raises(AttributeError, match="no 'kinetic_energy'; its functions are inverse_dynamics, mass_matrix"):
        _ = simulated.kinetic_energy  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"several functions; expected a call of one: accelerator.inverse_dynamics"):
        simulated(q=[0.0, 0.0])
    with pytest.raises(ValueError, match="inverse_dynamics has no input 'tau'; expected q, qd, qdd"):
        simulated.inverse_dynamics(q=[0.0, 0.0], qd=[0.0, 0.0], tau=[0.0, 0.0])
    with pytest.raises(ValueError, match="input 'qdd' is 11 at .*; the formats were chosen for -10 to 10"):
        simulated.inverse_dynamics(q=[0.0, 0.0], qd=[0.0, 0.0], qdd=[0.0, 11.0])
    assert simulated.forward_dynamics(q=[0.0, 0.0], qd=[0.0, 0.0], tau=[0.0, 0.0]).qdd.shape == (2,)


def test_a_design_opens_for_one_of_its_functions(built: Design) -> None:
    with dynagate.open(built, device="fixed") as accelerator:
        assert accelerator.mass_matrix([0.1, 0.2]).m.shape == (2, 2)
        with pytest.raises(ValueError, match="computes several functions; expected a call of one"):
            accelerator([0.1, 0.2])
        with pytest.raises(AttributeError, match="FunctionDevice has no 'kinetic_energy'; its functions are"):
            accelerator.kinetic_energy  # noqa: B018
