"""Build the sdist and the wheel, check their metadata, and try both in fresh environments.

`make wheel`, or `python packaging/try_wheel.py [PYTHON ...]` for some interpreters. The wheel is tried on each Python
that the package supports and this computer has. The sdist is unpacked, installed with the extra `dev`, and some of its
tests run. The environments ignore constraints.txt, as a user's environment does. Packages are downloaded. The exit
status is 0 if every trial passes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = ["run", "two_joint_arm", "--function", "mass_matrix_inverse", "--ii", "2", "--states", "64"]
EXTRA = "sim"
SDIST_TESTS = ["tests/robot/test_urdf.py", "tests/dynamics/test_dynamics.py", "tests/project/test_forge.py"]
"""Tests of the unpacked sdist: a parser, C and numpy against Pinocchio, and the files around the package."""


class Failure(Exception):
    """A command, its output, and the expected status and text."""


def versions() -> list[str]:
    """Return the versions of Python that the classifiers list."""
    pattern = r"Programming Language :: Python :: (3\.\d+)"
    return [match[1] for text in PROJECT["classifiers"] if (match := re.fullmatch(pattern, text))]


def interpreters(version: str) -> list[str]:
    """Return where a Python may be: on the path, or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    homes = sorted(pyenv.glob(f"{version}.*"), reverse=True)
    return [f"python{version}", *(str(home / "bin" / "python") for home in homes)]


def find(version: str) -> str | None:
    """Return an interpreter of this version that starts. A program on the path may only refuse to run."""
    for name in interpreters(version):
        program = shutil.which(name)
        command = [program or "", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if program and subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == version:
            return program
    return None


def call(command: Sequence[str | Path], *, folder: Path, status: int = 0, expected: str = "") -> str:
    """Run a command and return its output. Raises Failure for another status, or if the expected text is absent."""
    environment = {**os.environ, "DYNAGATE_CACHE": str(folder / "cache"), "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    text = done.stdout + done.stderr
    if done.returncode != status or expected not in text:
        what = " ".join(map(str, command))
        raise Failure(f"{what}\nended with status {done.returncode}, expected {status} and '{expected}':\n{text}")
    return text


def built(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist, into a folder. Both pass `twine check`.

    Returns:
        The sdist and the wheel.
    """
    call([sys.executable, "-m", "build", "--outdir", folder, source], folder=folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    print(call([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel], folder=folder), end="")
    return sdist, wheel


def environment(program: str | Path, folder: Path) -> tuple[Path, list[str | Path]]:
    """Make an environment in a folder. Returns its Python and the beginning of a command that installs packages."""
    call([program, "-m", "venv", folder / "venv"], folder=folder)
    python = folder / "venv" / "bin" / "python"
    return python, [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def sdist_tried(sdist: Path, folder: Path) -> str:
    """Unpack the sdist, install it with the extra `dev`, and run some of its tests. Returns their last line."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = [path for path in folder.iterdir() if path.is_dir()]
    python, pip = environment(sys.executable, folder)
    call([*pip, f"{source}[dev]"], folder=folder)
    text = call([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SDIST_TESTS], folder=source)
    return text.strip().splitlines()[-1]


def wheel_tried(program: str, wheel: Path, folder: Path) -> str:
    """Install the wheel without extras, where `run` must name the missing extra, then with it. Returns the seconds."""
    start = time.monotonic()
    python, pip = environment(program, folder)
    dynagate = python.parent / "dynagate"
    call([*pip, wheel], folder=folder)
    call([dynagate, "info", "two_joint_arm", "--form", "aba"], folder=folder, expected="forward_dynamics")
    call([dynagate, *RUN], folder=folder, status=1, expected=f"pip install 'dynagate[{EXTRA}]'")
    call([dynagate, "doctor"], folder=folder, status=1, expected=f"to get it: pip install 'dynagate[{EXTRA}]'")
    call([*pip, f"{wheel}[{EXTRA}]"], folder=folder)
    installed = time.monotonic()
    call([dynagate, "doctor"], folder=folder, expected="all that 'dynagate run' needs is here")
    call([python, "-m", "dynagate", *RUN], folder=folder, expected="PASS")
    return f"installed in {installed - start:.0f} s, run in {time.monotonic() - installed:.0f} s"


def all_tried(source: Path, products: Path, pythons: dict[str, str | None]) -> bool:
    """Build from a source folder, try the sdist and the wheel, and copy both to a folder if every trial passes.

    Args:
        source: The folder with pyproject.toml.
        products: The folder that receives the sdist and the wheel.
        pythons: Interpreters by name, or None for one that this computer does not have.

    Returns:
        True if every trial passes.
    """
    with tempfile.TemporaryDirectory(prefix="dynagate-wheel-") as place:
        folders = (Path(place) / str(number) for number in range(len(pythons) + 2))

        def passes(name: str, trial: Callable[[Path], object]) -> bool:
            folder = next(folders)
            folder.mkdir()
            try:
                print(f"{name}: {trial(folder)}", flush=True)
            except Failure as error:
                print(f"{name}: {error}", flush=True)
                return False
            return True

        files: list[Path] = []
        if not passes("build", lambda folder: files.extend(built(source, folder)) or "passed"):
            return False
        sdist, wheel = files
        passed = [passes("sdist", partial(sdist_tried, sdist))]
        for name, program in pythons.items():
            if program is None:
                print(f"Python {name}: not on this computer, not tried", flush=True)
            else:
                passed.append(passes(f"Python {name}", partial(wheel_tried, program, wheel)))
        if all(passed):
            products.mkdir(exist_ok=True)
            for path in files:
                print(shutil.copy(path, products))
        return all(passed)


def main() -> int:
    """Build and try the working tree. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="*", help="an interpreter; all versions of the classifiers by default")
    named = parser.parse_args().python
    if absent := [name for name in named if not shutil.which(name)]:
        parser.error(f"no such interpreter: {', '.join(absent)}")
    chosen = {name: shutil.which(name) for name in named} or {version: find(version) for version in versions()}
    return int(not all_tried(ROOT, ROOT / "dist", chosen))


if __name__ == "__main__":
    sys.exit(main())
