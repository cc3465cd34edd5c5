"""Other people's programs, built and measured here, where their parts are installed."""

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


@dataclass(frozen=True)
class Peer:
    """times: function -> (median, distance of the quartiles) in ns per call, one core, double. float32_error: of its
    own float32 for ∂q̈/∂q and ∂q̈/∂q̇, if requested."""

    name: str
    times: dict[str, tuple[float, float]]
    float32_error: tuple[float, float] | None


def pinocchio(robot: Robot, *, single: bool = False) -> Peer | str:
    """Pinocchio's C++ library on this robot, or why it could not be had. The first time compiles for minutes; single,
    which adds its error in float32, takes some more and 8 GB of memory."""
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
    """Return the folder with Pinocchio, Eigen and their headers, or a text that says what is missing."""
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix"
    if not (prefix / "include" / "pinocchio").is_dir():
        return "Pinocchio is not installed: pip install 'dynagate[bench]'"
    if not (prefix / "include" / "eigen3").is_dir():
        return "Eigen's headers are not installed: pip install 'dynagate[bench]'"
    return prefix


def compiled(file: str, flags: Sequence[str], prefix: Path, also: Sequence[str] = ()) -> Path:
    """Return the program of one of the files next to this one, compiled against Pinocchio unless it is there. also:
    arguments that name further libraries. Raises CompileError."""
    folder = files("dynagate.bench")
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompileError("no 'g++' on the path; it compiles the programs to compare with")
    texts = [(folder / name).read_text() for name in (file, "robot_model.hpp")]
    key = hashlib.sha256("\n".join([*texts, *flags, *also, str(prefix)]).encode()).hexdigest()[:16]
    name = file.partition("_")[0]
    command = [compiler, *flags, f"-I{prefix / 'include'}", f"-I{prefix / 'include' / 'eigen3'}", str(folder / file)]
    command += [*also, f"-L{prefix / 'lib'}", "-lpinocchio_default", f"-Wl,-rpath,{prefix / 'lib'}"]

    def make(work: Path, result: Path) -> None:
        run([*command, "-o", str(result / name)], CompileError, folder=result)

    return kept(cache_folder() / f"{name}-{key}", make, CompileError) / name


def described(robot: Robot) -> str:
    """The robot as `robot_model.hpp` reads it."""
    robot.check_uncoupled("the comparison with Pinocchio")
    lines = [str(len(robot.links))]
    for link in robot.links:
        joint = link.joint
        kind = joint.kind.file_name
        inertia = np.array(link.inertia)[np.triu_indices(3)]
        numbers = [*np.ravel(joint.rotation), *joint.translation, *joint.axis, link.mass, *link.com, *inertia]
        lines.append(" ".join([str(link.parent), kind, *(repr(float(x)) for x in numbers)]))
    return "\n".join(lines) + "\n"
