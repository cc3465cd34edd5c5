"""Outputs chosen at build time: only these are computed, and only these go on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import robots, trace
from dynagate.cli import main
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.hw.rtl.axi import Axi

GRADIENT = "forward_dynamics_gradient"
ARM = robots.load("two_joint_arm")


@pytest.mark.parametrize("outputs", [("dqdd_dq",), ("minv", "qdd"), "qdd"])
def test_chosen_outputs_are_those_of_the_whole_graph(outputs: Sequence[str]) -> None:
    whole, part = trace(ARM, GRADIENT), trace(ARM, GRADIENT, outputs=outputs)
    names = [outputs] if isinstance(outputs, str) else outputs
    assert [port.name for port in part.outputs] == [port.name for port in whole.outputs if port.name in names]
    assert len(part) < len(whole)
    states = Region.of(ARM).states(whole, 8, seed=1)
    expected, results = evaluate(whole, states), evaluate(part, states)
    for name in names:
        np.testing.assert_allclose(results[name], expected[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        (("qdd", "torque"), f"{GRADIENT} has no output 'torque'; expected some of qdd, dqdd_dq, dqdd_dqd, minv"),
        ((), f"{GRADIENT} without outputs; expected some of qdd, dqdd_dq, dqdd_dqd, minv"),
    ],
)
@pytest.mark.parametrize("device", ["numpy", "cpu", "fixed", "sim"])
def test_an_output_that_there_is_not_is_named(outputs: Sequence[str], text: str, device: str, tmp_path: Path) -> None:
    make = dynagate.build if device == "sim" else dynagate.compile
    options = {"folder": tmp_path} if device == "sim" else {"device": device}
    with pytest.raises(ValueError, match="expected some of") as error:
        make(ARM, GRADIENT, outputs=outputs, **options)
    assert error.value.text == text
    assert not list(tmp_path.iterdir())


def test_a_shell_sends_the_chosen_outputs_alone(tmp_path: Path) -> None:
    axi = Axi(width=64)
    built = dynagate.build(ARM, GRADIENT, ii=8, axi=axi, outputs=("dqdd_dq",), folder=tmp_path)
    assert built.design.axi is not None
    assert built.design.axi.words.output == 4
    sampled = Region.of(ARM).states(built.graph, 16, seed=1)
    states = {name: value.astype(np.float32) for name, value in sampled.items()}
    with dynagate.open(built, shell=True) as hardware, dynagate.open(built.folder, device="fixed") as integers:
        results = hardware(**states)
        assert list(results) == ["dqdd_dq"]
        np.testing.assert_array_equal(results.dqdd_dq, integers(**states).dqdd_dq.astype(np.float32))


def test_the_command_line_names_the_nearest_output(tmp_path: Path) -> None:
    arguments = ["build", "two_joint_arm", "--outputs", "dqdd_dq,minw", "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert f"no output 'minw' (did you mean 'minv'?); {GRADIENT} has qdd, dqdd_dq, dqdd_dqd, minv" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", ",", "qdd,,minv"])
def test_an_empty_name_on_the_command_line_is_refused(text: str) -> None:
    result = CliRunner().invoke(main, ["build", "two_joint_arm", "--outputs", text])
    assert result.exit_code == 2
    assert f"'{text}' has an empty name; expected names with commas between, such as qdd,minv" in result.output


def test_the_command_line_builds_them(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["build", "two_joint_arm", "--outputs", "qdd,minv", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    with dynagate.open(Path(result.output.split()[-1]), device="numpy") as accelerator:
        assert [port.name for port in accelerator.device.outputs] == ["qdd", "minv"]
