"""MJCF file -> MuJoCo's MjModel, by MuJoCo's compiler in a process of its own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.errors import MissingExtraError
from dynagate.robot.apart import TOO_LARGE, read_apart
from dynagate.robot.markup import check_file
from dynagate.robot.model import RobotError


def compiled(path: Path) -> Any:
    """MuJoCo's MjModel. Meshes are not read where all masses are in the file, so that none need be there.

    Raises RobotError: the file is missing or too large, MuJoCo refuses it, or needs more time or memory than
    `dynagate.robot.apart` gives it; MissingExtraError without the `mujoco` package."""
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("MJCF is read by the module 'mujoco'; pip install 'dynagate[mjcf]'") from None
    check_file(path, "an MJCF")
    return mujoco.MjModel.from_binary_path("model", {"model": read_apart("MuJoCo", compile_file, str(path))})


def compile_file(path: str) -> bytes:
    """MuJoCo's binary form of its model of a file. Raises RobotError with MuJoCo's reason."""
    import mujoco

    said: list[str] = []
    mujoco.set_mju_user_warning(said.append)  # else MuJoCo writes a log file where it is called
    try:
        spec = mujoco.MjSpec.from_file(path)
        _without_meshes(spec, mujoco)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of masses that are near to none, which `check_invertible` names
            model = spec.compile()
    except RuntimeError:  # of MuJoCo's where the system gives it no memory
        raise RobotError(f"MuJoCo {TOO_LARGE}") from None
    except (ValueError, mujoco.FatalError) as error:
        text = " ".join(str(error).split())
        raise RobotError(f"MuJoCo {TOO_LARGE}" if "allocate" in text else f"MuJoCo refuses it: {text}") from None
    if any("NaN" in text for text in said):
        raise RobotError("has a NaN among its numbers, which MuJoCo takes for one that is not given; expected numbers")
    buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


def _without_meshes(spec: Any, mujoco: Any) -> None:
    """Take out shapes that no mass comes from, and the files that they name."""
    shapes = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]
    if spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE or not all(
        geom.parent.explicitinertial or geom.parent.name == "world" for geom in shapes
    ):
        return
    for painted in [*spec.geoms, *spec.sites, *spec.tendons]:
        painted.material = ""
    for element in [*shapes, *spec.meshes, *spec.textures, *spec.materials, *spec.skins]:
        spec.delete(element)
