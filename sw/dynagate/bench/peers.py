"""Other libraries, compiled and measured on this computer if their parts are installed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from dynagate.base.process import run
from dynagate.native.cache import cache_folder, kept
from dynagate.native.compile import CompileError
from dynagate.robot import Robot

FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-DNDEBUG",
    "-w",
    # as Pinocchio's own CMake files define them
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
)
"""Compiler options for Pinocchio."""


@dataclass(frozen=True)
class Peer:
    """Times of another library."""

    name: str
    """Name of the library."""
    times: dict[str, tuple[float, float]]
    """Median and interquartile range in ns per call by function, on one core in float64."""
    float32_error: tuple[float, float] | None
    """Relative errors of its float32 for ∂q̈/∂q and ∂q̈/∂q̇, if requested."""


def pinocchio(robot: Robot, *, single: bool = False) -> Peer | str:
    """Measure Pinocchio's C++ library for a robot, or return the reason why it is not available.

    The first call compiles for minutes. With `single`, which adds its error in float32, it takes longer and 8 GB of
    memory.
    """
    libraries = installed()
    if isinstance(libraries, str):
        return libraries
    try:
        program = compiled("pinocchio_peer.cpp", [*FLAGS, *(["-DSINGLE"] if single else [])], libraries)
    except CompileError as error:
        return str(error)
    done = subprocess.run([program], input=described(robot), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"the Pinocchio program ended with status {done.returncode}: {done.stderr.strip()}"
    rows = {name: (float(a), float(b)) for name, a, b in (line.split() for line in done.stdout.splitlines())}
    return Peer("Pinocchio C++", rows, rows.pop("float32_error", None))


def installed() -> Path | str:
    """Return the folder with Pinocchio, Eigen and their headers, or a text that lists what is missing."""
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix"
    if not (prefix / "include" / "pinocchio").is_dir():
        return "Pinocchio is not installed: pip install 'dynagate[bench]'"
    if not (prefix / "include" / "eigen3").is_dir():
        return "Eigen's headers are not installed: pip install 'dynagate[bench]'"
    return prefix


def compiled(file: str, flags: Sequence[str], prefix: Path, also: Sequence[str] = ()) -> Path:
    """Compile one of the C++ files of this package against Pinocchio, unless it was compiled before.

    Args:
        file: Name of the file.
        flags: Compiler options.
        prefix: Folder of the libraries.
        also: Arguments for additional libraries.

    Raises:
        CompileError: The compiler is missing or failed.
    """
    folder = files("dynagate.bench")
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompileError("no 'g++' on the path; it compiles the programs to compare with", code="DG-BENCH-010")
    texts = [(folder / name).read_text() for name in (file, "robot_model.hpp")]
    key = hashlib.sha256("\n".join([*texts, *flags, *also, str(prefix)]).encode()).hexdigest()[:16]
    name = file.partition("_")[0]
    command = [compiler, *flags, f"-I{prefix / 'include'}", f"-I{prefix / 'include' / 'eigen3'}", str(folder / file)]
    command += [*also, f"-L{prefix / 'lib'}", "-lpinocchio_default", f"-Wl,-rpath,{prefix / 'lib'}"]

    def make(work: Path, result: Path) -> None:
        run([*command, "-o", str(result / name)], CompileError, folder=result)

    return kept(cache_folder() / f"{name}-{key}", make, CompileError) / name


def described(robot: Robot) -> str:
    """Return the robot as `robot_model.hpp` reads it."""
    robot.check_uncoupled("the comparison with Pinocchio")
    lines = [str(len(robot.links))]
    for link in robot.links:
        joint = link.joint
        kind = joint.kind.file_name
        inertia = np.array(link.inertia)[np.triu_indices(3)]
        numbers = [*np.ravel(joint.rotation), *joint.translation, *joint.axis, link.mass, *link.com, *inertia]
        lines.append(" ".join([str(link.parent), kind, *(repr(float(x)) for x in numbers)]))
    return "\n".join(lines) + "\n"
