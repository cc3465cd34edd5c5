"""Functional mock-up units of FMI 3.0: the standard's checks, simulations by FMPy, and exact derivatives."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Robot, evaluate, robots, trace
from dynagate.base.errors import ArgumentError
from dynagate.cli import main
from dynagate.forces.options import AlgorithmOptions
from dynagate.native.fmu import Fmu

from tests.robots import floating_robot

fmpy = pytest.importorskip("fmpy", reason="needs FMPy: pip install fmpy")
from fmpy.fmi3 import FMU3Model, FMU3Slave  # noqa: E402
from fmpy.validation import validate_fmu  # noqa: E402

ARM = robots.load("two_joint_arm")
DT = 0.002
TAU, Q, QD, QDD = [1, 2], [3, 4], [5, 6], [7, 8]
"""Value references of the arm."""
STATE = {"q": [0.3, -0.4], "qd": [1.0, -0.5], "tau": [2.0, -1.0]}


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the unit of the two-joint arm by the command."""
    file = tmp_path_factory.mktemp('it\'s a "unit"') / "arm.fmu"
    options = ["emit", "two_joint_arm", "--fmu", str(file), "--dt", str(DT), "--integrator", "rk4"]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(file)
    return file


@contextmanager
def instance(file: Path, kind: str, log: list[str] | None = None) -> Iterator[Any]:
    """An instance that is initialized in STATE, in co-simulation ("slave") or model exchange ("model")."""
    description = fmpy.read_model_description(file)
    folder = fmpy.extract(file)
    interface = description.coSimulation if kind == "slave" else description.modelExchange
    unit = (FMU3Slave if kind == "slave" else FMU3Model)(
        guid=description.guid,
        unzipDirectory=folder,
        modelIdentifier=interface.modelIdentifier,
        instanceName="arm",
    )

    def logged(environment: object, status: int, category: bytes, message: bytes) -> None:
        if log is not None:
            log.append(message.decode())

    from fmpy.fmi3 import fmi3LogMessageCallback

    unit.instantiate(logMessage=fmi3LogMessageCallback(logged))
    unit.enterInitializationMode()
    for references, name in ((TAU, "tau"), (Q, "q"), (QD, "qd")):
        unit.setFloat64(references, STATE[name])
    unit.exitInitializationMode()
    try:
        yield unit
    finally:
        unit.freeInstance()
        shutil.rmtree(folder)


def test_the_unit_is_valid_and_simulates_as_the_rollout_does(arm: Path) -> None:
    assert validate_fmu(arm) == []
    steps, every = 100, 10
    random = np.random.default_rng(4)
    torques = random.uniform(-5.0, 5.0, (steps // every, 2))
    start = {"q[1]": 0.3, "q[2]": -0.4, "qd[1]": 1.0}
    rollout = dynagate.Rollout(ARM, steps=steps, dt=DT, integrator="rk4", device="numpy")
    expected = rollout(np.array([0.3, -0.4]), np.array([1.0, 0.0]), np.repeat(torques, every, axis=0))
    names = [("time", float), ("tau[1]", float), ("tau[2]", float)]
    held = [(k * every * DT, *tau) for k, tau in enumerate(torques)]
    result = fmpy.simulate_fmu(
        str(arm),
        fmi_type="CoSimulation",
        stop_time=steps * DT,
        step_size=DT,
        output_interval=DT,
        start_values=start,
        input=np.array([*held, (1.0, *torques[-1])], names),
    )
    assert len(result) == steps + 1
    # FMPy interpolates inputs between their times, so the first interval is compared, then one held input
    held_alone = fmpy.simulate_fmu(
        str(arm),
        fmi_type="CoSimulation",
        stop_time=every * DT,
        step_size=every * DT,
        output_interval=every * DT,
        start_values={**start, "tau[1]": torques[0, 0], "tau[2]": torques[0, 1]},
    )
    found = [held_alone[-1][name] for name in ("q[1]", "q[2]", "qd[1]", "qd[2]")]
    np.testing.assert_allclose(found, [*expected.q[every], *expected.qd[every]], rtol=1e-12)


def test_steps_with_torques_that_change_are_those_of_the_rollout(arm: Path) -> None:
    torques = np.random.default_rng(4).uniform(-5.0, 5.0, (12, 2))
    rollout = dynagate.Rollout(ARM, steps=12, dt=DT, integrator="rk4", device="numpy")
    expected = rollout(np.array(STATE["q"]), np.array(STATE["qd"]), torques)
    with instance(arm, "slave") as unit:
        for k, tau in enumerate(torques):
            unit.setFloat64(TAU, list(tau))
            unit.doStep(k * DT, DT)
            found = unit.getFloat64([*Q, *QD])
            np.testing.assert_allclose(found, [*expected.q[k + 1], *expected.qd[k + 1]], rtol=1e-12, atol=1e-14)
        here = {"q": [expected.q[-1]], "qd": [expected.qd[-1]], "tau": [torques[-1]]}
        qdd = evaluate(trace(ARM, "forward_dynamics"), here)["qdd"][0]
        np.testing.assert_allclose(unit.getFloat64(QDD), qdd, rtol=1e-10)


@pytest.mark.parametrize("size", [-DT, 0.0, 1.5 * DT, float("nan"), float("inf"), 1e-9])
def test_a_step_of_another_size_is_refused_and_changes_nothing(arm: Path, size: float) -> None:
    log: list[str] = []
    with instance(arm, "slave", log) as unit:
        with pytest.raises(Exception, match="fmi3DoStep"):
            unit.doStep(0.0, size)
        assert unit.getFloat64([0, *Q, *QD]) == [0.0, *STATE["q"], *STATE["qd"]]
        assert "expected a positive multiple of 0.002" in log[-1]
        unit.doStep(0.0, 3 * DT)
        assert unit.getFloat64([0])[0] == 3 * DT


@pytest.mark.parametrize(("reference", "value"), [(1, float("nan")), (0, 1.0), (7, 1.0), (99, 1.0), (3, 0.5)])
def test_values_that_cannot_be_set_are_refused(arm: Path, reference: int, value: float) -> None:
    """NaN, time, an acceleration, an unknown variable, a position after the start."""
    with instance(arm, "slave") as unit:
        with pytest.raises(Exception, match="fmi3SetFloat64"):
            unit.setFloat64([reference], [value])
        assert unit.getFloat64([*TAU, *Q]) == [*STATE["tau"], *STATE["q"]]


def test_model_exchange_has_the_derivatives_of_the_gradient(arm: Path) -> None:
    state = {name: [value] for name, value in STATE.items()}
    exact = evaluate(trace(ARM, "forward_dynamics_gradient"), state)
    with instance(arm, "model") as unit:
        for references, name in ((Q, "dqdd_dq"), (QD, "dqdd_dqd"), (TAU, "minv")):
            for j, known in enumerate(references):
                column = unit.getDirectionalDerivative(QDD, [known], [1.0])
                np.testing.assert_allclose(column, exact[name][0][:, j], rtol=1e-12)
        seed = [0.3, -0.7, 1.1, 0.2, -0.4, 0.9]
        forward = unit.getDirectionalDerivative([*QD, *QDD], [*TAU, *Q, *QD], seed)
        assert forward[:2] == seed[4:]  # q changes by qd
        weights = [0.5, 0.25, -1.0, 2.0]
        backward = unit.getAdjointDerivative([*QD, *QDD], [*TAU, *Q, *QD], weights, nSensitivity=6)
        np.testing.assert_allclose(np.dot(weights, forward), np.dot(backward, seed), rtol=1e-12)


def test_model_exchange_integrates_to_the_rollouts_states(arm: Path) -> None:
    result = fmpy.simulate_fmu(
        str(arm),
        fmi_type="ModelExchange",
        stop_time=0.2,
        output_interval=0.2,
        start_values={"q[1]": 0.3, "q[2]": -0.4, "qd[1]": 1.0, "tau[2]": 0.5},
        relative_tolerance=1e-9,
    )
    rollout = dynagate.Rollout(ARM, steps=100, dt=DT, integrator="rk4", device="numpy")
    expected = rollout(np.array([0.3, -0.4]), np.array([1.0, 0.0]), np.tile([0.0, 0.5], (100, 1)))
    found = [result[-1][name] for name in ("q[1]", "q[2]", "qd[1]", "qd[2]")]
    np.testing.assert_allclose(found, [*expected.q[-1], *expected.qd[-1]], rtol=1e-5)


def test_a_saved_state_repeats_the_steps(arm: Path) -> None:
    with instance(arm, "slave") as unit:
        saved = unit.getFMUState()
        text = unit.serializeFMUState(saved)
        unit.doStep(0.0, 5 * DT)
        first = unit.getFloat64([0, *Q, *QD])
        unit.setFMUState(saved)
        unit.doStep(0.0, 5 * DT)
        assert unit.getFloat64([0, *Q, *QD]) == first
        unit.setFMUState(unit.deserializeFMUState(text))
        assert unit.getFloat64([*Q, *QD]) == [*STATE["q"], *STATE["qd"]]
        unit.freeFMUState(saved)


def test_declarations_are_those_of_the_standard(arm: Path, tmp_path: Path) -> None:
    """The source compiles with the standard's own headers, which FMPy ships, in the place of its declarations."""
    headers = Path(fmpy.__file__).parent / "c-code"
    with zipfile.ZipFile(arm) as archive:
        (tmp_path / "unit.c").write_bytes(archive.read("sources/two_joint_arm_fmu.c"))
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wno-unused-parameter", "-Werror", "-fsyntax-only"]
    subprocess.run([*command, tmp_path / "unit.c"], check=True)
    standard = ["-I", headers, '-DDYNAGATE_FMI_HEADER="fmi3Functions.h"', "-Wno-strict-prototypes"]
    subprocess.run([*command, *standard, tmp_path / "unit.c"], check=True)
    functions = set(re.findall(r"^#define (fmi3\w+) +fmi3FullName", (headers / "fmi3Functions.h").read_text(), re.M))
    assert len(functions) > 60
    with zipfile.ZipFile(arm) as archive:
        (binary,) = (name for name in archive.namelist() if name.endswith(".so"))
        (tmp_path / "unit.so").write_bytes(archive.read(binary))
    rows = subprocess.run(["nm", "-D", "-P", tmp_path / "unit.so"], check=True, capture_output=True, text=True).stdout
    exported = {name for name, kind, *_ in map(str.split, rows.splitlines()) if kind == "T"}
    assert exported == functions


def test_a_free_body_has_co_simulation_only(tmp_path: Path) -> None:
    robot = floating_robot(14, tmp_path)
    file = tmp_path / "free.fmu"
    Fmu(robot, AlgorithmOptions(dt=0.01)).write(file)
    assert validate_fmu(file) == []
    description = fmpy.read_model_description(file)
    assert description.modelExchange is None
    start = np.array([float(v.start) for v in description.modelVariables if re.match(r"q\[", v.name)])
    np.testing.assert_array_equal(start, dynagate.neutral(robot))
    start_values = {f"qd[{k + 1}]": 0.1 * (k + 1) for k in range(robot.nv)}
    result = fmpy.simulate_fmu(
        str(file), stop_time=0.2, step_size=0.01, output_interval=0.01, start_values=start_values
    )
    rollout = dynagate.Rollout(robot, steps=20, dt=0.01, device="numpy")
    expected = rollout(dynagate.neutral(robot), np.array(list(start_values.values())), np.zeros((20, robot.nv)))
    found = [result[-1][f"q[{k + 1}]"] for k in range(robot.nq)]
    np.testing.assert_allclose(found, expected.q[-1], rtol=1e-10, atol=1e-12)


def test_what_is_no_unit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="variable parameters"):
        Fmu(ARM.with_variable("gravity"))
    file = tmp_path / "arm.fmu"
    for options, text in (
        (["--function", "mass_matrix"], "--fmu and --function are both given"),
        (["--folder", str(tmp_path / "c")], "--folder and --fmu are all given"),
        (["--cuda"], "--fmu and --cuda are both given"),
        (["--dt", "-1"], "--dt"),
        (["--integrator", "none"], "--integrator"),
        (["--variable", "gravity"], "variable parameters"),
    ):
        done = CliRunner().invoke(main, ["emit", "two_joint_arm", "--fmu", str(file), *options])
        assert done.exit_code != 0
        assert text in done.output
    done = CliRunner().invoke(main, ["emit", "two_joint_arm", "--fmu", str(tmp_path / "arm.zip")])
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []
    assert isinstance(ARM, Robot)
