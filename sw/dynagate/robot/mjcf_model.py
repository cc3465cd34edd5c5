"""MuJoCo's compiled model of an MJCF file: its numbers and names, read in a separate process.

MuJoCo is never imported in this process, because its import loads plugins from the working directory.
"""

from __future__ import annotations

import importlib.util
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dynagate.base.errors import MissingExtraError
from dynagate.robot.errors import RobotError
from dynagate.robot.robot_xml import check_file
from dynagate.robot.sandbox import TOO_LARGE, read_apart

KINDS = ("body", "joint", "geom", "site", "equality", "tendon", "actuator", "flex")
"""Kinds of objects whose names are kept."""
ARRAYS = ("n", "qpos", "body_", "jnt_", "dof_", "geom_", "site_", "eq_", "tendon_", "actuator_")
"""Prefixes of the model attributes that are kept. Attributes of meshes, textures and skins are not."""
OPTIONS = ("timestep", "gravity", "disableflags", "enableflags", "density", "viscosity", "wind", "integrator")
"""Names of the model options that are kept."""


class CompiledModel:
    """A model that MuJoCo compiled: the attributes of its MjModel that `ARRAYS` and `KINDS` list.

    Attributes:
        name: Name of the model, "" if the file has none.
        removed: Body of each collision mesh that was removed, one entry per mesh.
        opt: MjModel.opt, with the fields of `OPTIONS`.
        constants: MuJoCo's enumerations as in its module: `constants.mjtJoint.mjJNT_FREE` is an int.
        body, joint, site...: Functions that return the object with a number, with its `name`, "" if it has none.
    """

    opt: SimpleNamespace
    constants: SimpleNamespace

    def __init__(self, content: bytes) -> None:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        names = json.loads(bytes(values.pop("text")))
        self.name: str = names["name"]
        self.removed: list[str] = names["removed"]
        self.opt = SimpleNamespace(**names["options"])
        self.constants = SimpleNamespace(**{kind: SimpleNamespace(**of) for kind, of in names["constants"].items()})
        self._names: dict[str, list[str]] = names["names"]
        self._values = {**values, **names["sizes"]}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._names:
            return self._named(name)
        if name not in self._values:
            raise AttributeError(name)
        return self._values[name]

    def _named(self, kind: str) -> Callable[[int], SimpleNamespace]:
        return lambda number: SimpleNamespace(name=self._names[kind][number])


def compiled(path: Path) -> CompiledModel:
    """Compile an MJCF file with MuJoCo. Meshes may be missing if all masses are in the file.

    Raises:
        RobotError: The file is missing or too large, MuJoCo rejects it, or MuJoCo needs more time or memory than
            `dynagate.robot.sandbox` allows.
        MissingExtraError: The `mujoco` package is not installed.
    """
    if importlib.util.find_spec("mujoco") is None:
        raise MissingExtraError("MJCF is read by the module 'mujoco'; pip install 'dynagate[mjcf]'", code="DG-MJCF-014")
    check_file(path, "an MJCF")
    return CompiledModel(read_apart("MuJoCo", compile_file, str(path.absolute())))


def compile_file(path: str) -> bytes:
    """Return the content of `CompiledModel` for a file. Raise RobotError with MuJoCo's reason if it cannot be
    compiled.
    """
    try:
        import mujoco
    except ImportError as error:
        raise RobotError(
            f"the module 'mujoco' cannot be imported ({error}); pip install 'dynagate[mjcf]'", code="DG-MJCF-015"
        ) from None

    messages: list[str] = []
    mujoco.set_mju_user_warning(messages.append)  # otherwise MuJoCo writes a log file to the working directory
    try:
        spec = mujoco.MjSpec.from_file(path)
        removed = _without_meshes(spec, mujoco)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `check_invertible` reports masses near zero
            model = spec.compile()
    except RuntimeError:  # MuJoCo could not allocate memory
        raise RobotError(f"MuJoCo {TOO_LARGE}", code="DG-MJCF-016") from None
    except (ValueError, mujoco.FatalError) as error:
        text = " ".join(str(error).split())
        raise RobotError(
            f"MuJoCo {TOO_LARGE}" if "allocate" in text else f"MuJoCo refuses it: {text}", code="DG-MJCF-017"
        ) from None
    if any("NaN" in text for text in messages):
        raise RobotError(
            "has a NaN among its numbers, which MuJoCo takes for one that is not given; expected numbers",
            code="DG-MJCF-018",
        )
    return _content(model, mujoco, removed)


def _content(model: Any, mujoco: Any, removed: list[str]) -> bytes:
    """Return the content of `CompiledModel` for an MjModel. `removed` lists the bodies of removed collision meshes."""
    values = {name: getattr(model, name) for name in dir(model) if name.startswith(ARRAYS)}
    enumerations = {name: getattr(mujoco, name) for name in dir(mujoco) if name.startswith("mjt")}
    counts = {"body": model.nbody, "joint": model.njnt, "equality": model.neq, "actuator": model.nu}
    names = {
        "removed": removed,
        "name": model.names[: model.names.index(b"\0")].decode(errors="replace"),
        "sizes": {name: value for name, value in values.items() if isinstance(value, int)},
        "names": {
            kind: [getattr(model, kind)(k).name for k in range(counts.get(kind, getattr(model, f"n{kind}", 0)))]
            for kind in KINDS
        },
        "options": {
            name: np.asarray(getattr(model.opt, name)).tolist() for name in OPTIONS if hasattr(model.opt, name)
        },
        "constants": {
            name: {member: int(value) for member, value in kind.__members__.items()}
            for name, kind in enumerations.items()
            if hasattr(kind, "__members__")
        },
    }
    arrays: dict[str, Any] = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    buffer = io.BytesIO()
    arrays["text"] = np.frombuffer(json.dumps(names).encode(), np.uint8)
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _without_meshes(spec: Any, mujoco: Any) -> list[str]:
    """Remove meshes that contribute no mass, with the files that they name. Return the bodies of removed collision
    meshes.
    """
    shapes = [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]
    if spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE or not all(
        geom.parent.explicitinertial or geom.parent.name == "world" for geom in shapes
    ):
        return []
    removed = [geom.parent.name for geom in shapes if geom.contype or geom.conaffinity]
    for painted in [*spec.geoms, *spec.sites, *spec.tendons]:
        painted.material = ""
    for element in [*shapes, *spec.meshes, *spec.textures, *spec.materials, *spec.skins]:
        spec.delete(element)
    return removed
