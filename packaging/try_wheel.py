"""Builds sdist and wheel, checks their metadata, and tries the wheel on every Python that the package is for.

`make wheel`, or `python packaging/try_wheel.py [PYTHON ...]` for some interpreters alone. Each gets a fresh environment
without the versions of constraints.txt, as a user does. Downloads. The exit status is 0 where all that are here pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN = ["run", "two_joint_arm", "--function", "mass_matrix_inverse", "--ii", "2", "--states", "64"]
EXTRA = "sim"


class Failure(Exception):
    """What was tried, and what came instead."""


def versions() -> list[str]:
    """Those that the classifiers name."""
    pattern = r"Programming Language :: Python :: (3\.\d+)"
    return [match[1] for text in PROJECT["classifiers"] if (match := re.fullmatch(pattern, text))]


def interpreters(version: str) -> list[str]:
    """Places to look for a Python, those of pyenv among them."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    homes = sorted(pyenv.glob(f"{version}.*"), reverse=True)
    return [f"python{version}", *(str(home / "bin" / "python") for home in homes)]


def find(version: str) -> str | None:
    """An interpreter of this version that starts; a name on the path may be that of a program that refuses."""
    for name in interpreters(version):
        program = shutil.which(name)
        command = [program or "", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if program and subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == version:
            return program
    return None


def call(command: Sequence[str | Path], *, folder: Path, status: int = 0, expected: str = "") -> str:
    """What a command prints. Raises Failure: another status, or no such text."""
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


def built(folder: Path) -> Path:
    """The wheel, made from the sdist as a package index's users make it. Both pass `twine check`."""
    call([sys.executable, "-m", "build", "--outdir", folder, ROOT], folder=folder)
    products = sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))
    print(call([sys.executable, "-m", "twine", "check", "--strict", *products], folder=folder), end="")
    return next(path for path in products if path.suffix == ".whl")


def tried(program: str, wheel: Path, folder: Path) -> str:
    """Without extras `run` names the one that it needs; with it, it passes. Returns the seconds of each step."""
    start = time.monotonic()
    call([program, "-m", "venv", folder / "venv"], folder=folder)
    python, dynagate = folder / "venv" / "bin" / "python", folder / "venv" / "bin" / "dynagate"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call([*pip, wheel], folder=folder)
    call([dynagate, "info", "two_joint_arm", "--form", "aba"], folder=folder, expected="forward_dynamics")
    call([dynagate, *RUN], folder=folder, status=1, expected=f"pip install 'dynagate[{EXTRA}]'")
    call([dynagate, "doctor"], folder=folder, status=1, expected=f"to get it: pip install 'dynagate[{EXTRA}]'")
    call([*pip, f"{wheel}[{EXTRA}]"], folder=folder)
    installed = time.monotonic()
    call([dynagate, "doctor"], folder=folder, expected="all that 'dynagate run' needs is here")
    call([python, "-m", "dynagate", *RUN], folder=folder, expected="PASS")
    return f"installed in {installed - start:.0f} s, run in {time.monotonic() - installed:.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python", nargs="*", help="an interpreter; all versions of the classifiers unless given")
    named = parser.parse_args().python
    chosen = {name: shutil.which(name) for name in named} or {version: find(version) for version in versions()}
    failed = False
    with tempfile.TemporaryDirectory(prefix="dynagate-wheel-") as place:
        try:
            wheel = built(Path(place))
        except Failure as error:
            print(error)
            return 1
        for number, (name, program) in enumerate(chosen.items()):
            if program is None:
                print(f"Python {name}: not here, not tried", flush=True)
                continue
            folder = Path(place) / str(number)
            folder.mkdir()
            try:
                print(f"Python {name}: {tried(program, wheel, folder)}", flush=True)
            except Failure as error:
                failed = True
                print(f"Python {name}: {error}", flush=True)
        if not failed:
            (ROOT / "dist").mkdir(exist_ok=True)
            for path in wheel.parent.glob("dynagate-*"):
                print(shutil.copy(path, ROOT / "dist"))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
