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
from dynagate.native.compile import CompileError, cache_folder
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
    own float32 for ∂q̈/∂q and ∂q̈/∂q̇, where it was asked for."""

    name: str
    times: dict[str, tuple[float, float]]
    float32_error: tuple[float, float] | None


def pinocchio(robot: Robot, *, single: bool = False) -> Peer | str:
    """Pinocchio's C++ library on this robot, or why it could not be had. The first time compiles for minutes; single,
    which adds its error in float32, takes some more and 8 GB of memory."""
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix"
    if not (prefix / "include" / "pinocchio").is_dir():
        return "Pinocchio is not installed: pip install 'dynagate[bench]'"
    eigen = prefix / "include" / "eigen3"
    if not eigen.is_dir():
        return "Eigen's headers are not installed: pip install 'dynagate[bench]'"
    try:
        program = _compiled(prefix, eigen, ["-DSINGLE"] if single else [])
    except CompileError as error:
        return str(error)
    done = subprocess.run([program], input=_described(robot), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"the Pinocchio program ended with status {done.returncode}: {done.stderr.strip()}"
    rows = {name: (float(a), float(b)) for name, a, b in (line.split() for line in done.stdout.splitlines())}
    return Peer("Pinocchio C++", rows, rows.pop("float32_error", None))


def _compiled(prefix: Path, eigen: Path, chosen: Sequence[str]) -> Path:
    source = files("dynagate.bench") / "pinocchio_peer.cpp"
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompileError("no 'g++' on the path; it compiles the Pinocchio program to compare with")
    key = hashlib.sha256((source.read_text() + " ".join([*FLAGS, *chosen]) + str(prefix)).encode()).hexdigest()[:16]
    target = cache_folder() / f"pinocchio-{key}"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(".made")
        libraries = [f"-L{prefix / 'lib'}", "-lpinocchio_default", f"-Wl,-rpath,{prefix / 'lib'}"]
        command: Sequence[str] = [
            compiler, *FLAGS, *chosen, f"-I{prefix / 'include'}", f"-I{eigen}", str(source), *libraries, "-o", str(made)
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CompileError(f"g++ failed on the Pinocchio program: {done.stderr.splitlines()[-1:]}")
        made.replace(target)
    return target


def _described(robot: Robot) -> str:
    lines = [str(len(robot.links))]
    for link in robot.links:
        joint = link.joint
        kind = "revolute" if joint.type == "continuous" else joint.type
        inertia = np.array(link.inertia)[np.triu_indices(3)]
        numbers = [*np.ravel(joint.rotation), *joint.translation, *joint.axis, link.mass, *link.com, *inertia]
        lines.append(" ".join([str(link.parent), kind, *(repr(float(x)) for x in numbers)]))
    return "\n".join(lines) + "\n"
