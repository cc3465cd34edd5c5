"""Every command on every robot that the project is measured with."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from dynagate.cli import main

from tests.robots import measured_file

ROBOTS = {
    "aliengo": [],
    "atlas": ["--allow-unphysical"],
    "baxter": ["--ignore-friction"],
    "gen3_7dof": ["--round-rotations", "1e-5"],
    "hyq": [],
    "iiwa14": [],
    "ur10e": [],
    "z1": ["--ignore-friction"],
}
"""And the options that their files need."""

COMMANDS = {
    "info": ["--form", "ltdl"],
    "emit": ["--function", "inverse_dynamics", "--folder", "emitted"],
    "build": ["--function", "center_of_mass", "--ii", "32", "--axi", "128", "--folder", "designs"],
}
LONG = {
    "build": ["--function", "inverse_dynamics", "--error", "1e-3", "--ii", "32", "--folder", "designs"],
    "run": ["--function", "inverse_dynamics", "--ii", "32", "--states", "64", "--folder", "designs"],
    "sweep": ["--function", "inverse_dynamics", "--word", "20:20", "--states", "200", "--folder", "sweep"],
    "synth": ["--function", "mass_matrix", "--ii", "32", "--folder", "designs"],
    "closed-loop": ["--policy", "word", "--word", "24:24"],
    "bench": ["--batch", "256", "--no-pinocchio"],
}


REFUSED = {
    ("build", "atlas"): "words of 27 bits give tau an error of",
    ("run", "atlas"): "FAIL: ",
}
"""Joints from -100,000 to 100,000 rad leave an angle few bits."""


def check(command: str, name: str, options: list[str]) -> None:
    done = CliRunner().invoke(main, [command, str(measured_file(name)), *ROBOTS[name], *options])
    if (text := REFUSED.get((command, name))) and options == LONG[command]:
        assert done.exit_code == 1
        assert text in done.output
    else:
        assert done.exit_code == 0, done.output


EVERY_COMMAND = ("z1",)
"""A robot with friction. The others run one command each, in turn; the long tests run the rest."""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(command, name, marks=[] if name in EVERY_COMMAND or (k + at) % 3 == 0 else [pytest.mark.long])
        for at, command in enumerate(COMMANDS)
        for k, name in enumerate(ROBOTS)
    ],
)
def test_commands_run_on_every_robot(command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(command, name, COMMANDS[command])


@pytest.mark.long
@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("command", LONG)
def test_long_commands_run_on_every_robot(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(command, name, LONG[command])
