"""Read the mesh files of a robot with trimesh in a separate process: a small file may request gigabytes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.extras import brought_by
from dynagate.robot.errors import RobotError
from dynagate.robot.sandbox import SECONDS, read_apart
from dynagate.robot.visuals import GRAY, mesh_bytes
from dynagate.views.scene.solids import Solid, surface

MAX_TRIANGLES = 2_000_000
"""Largest number of triangles of a mesh, and of all meshes of a robot, that a page shows."""
SECONDS_PER_MESH = 2
"""Processor time in s that trimesh may take for each mesh, in addition to SECONDS for its import."""


def read_meshes(robot: Path, names: Sequence[str], folder: Path) -> Mapping[str, Solid | RobotError]:
    """Return the meshes of a robot's file by name; a RobotError for each mesh that cannot be read.

    Args:
        robot: The URDF file.
        names: The meshes as the URDF names them.
        folder: The folder in which their files must lie.

    Raises:
        MissingExtraError: trimesh is not installed (extra `view`).
    """
    meshes: dict[str, Solid | RobotError] = {}
    contents: dict[str, tuple[bytes, str]] = {}
    for name in names:
        try:
            contents[name] = mesh_bytes(robot, name, folder)
        except RobotError as error:
            meshes[name] = error
    try:
        meshes |= _read(contents)
    except RobotError:  # one mesh ended the process, so read them one by one
        for name, content in contents.items():
            try:
                meshes |= _read({name: content})
            except RobotError as error:
                meshes[name] = RobotError(
                    f"mesh {name:.200} cannot be read as .{content[1]} ({error})", code="DG-VIEW-007"
                )
    total = 0
    for name, mesh in meshes.items():
        if not isinstance(mesh, RobotError):
            total += len(mesh.corners)
            if total > MAX_TRIANGLES:
                meshes[name] = RobotError(
                    f"mesh {name:.200}: the robot's meshes have more than {MAX_TRIANGLES} triangles; expected fewer",
                    code="DG-VIEW-008",
                )
    return meshes


def _read(contents: Mapping[str, tuple[bytes, str]]) -> dict[str, Solid | RobotError]:
    """Return meshes, or what is wrong with them, by name. Raises RobotError: the reader takes too long or too much."""
    import tempfile

    with brought_by("view", "a robot with meshes"):
        import trimesh  # noqa: F401

    if not contents:
        return {}
    with tempfile.TemporaryDirectory() as work:
        files = []
        for k, (content, kind) in enumerate(contents.values()):
            path = Path(work) / f"{k}.{kind}"
            path.write_bytes(content)
            files.append((str(path), kind))
        seconds = SECONDS + SECONDS_PER_MESH * len(files)
        result = read_apart("trimesh", load_meshes, files, seconds=seconds)
    with np.load(io.BytesIO(result), allow_pickle=False) as arrays:
        faults = json.loads(bytes(arrays["faults"]))
        meshes: dict[str, Solid | RobotError] = {}
        for k, (name, (_, kind)) in enumerate(contents.items()):
            if faults[k]:
                meshes[name] = RobotError(
                    f"mesh {name:.200} cannot be read as .{kind} ({faults[k]})", code="DG-VIEW-009"
                )
                continue
            meshes[name] = _surface(arrays, k)
    return meshes


def _surface(arrays: Mapping[str, Any], k: int) -> Solid:
    """Return the surface of mesh k of those that `load_meshes` returned. Colors that fit no face or vertex are left
    out."""
    vertices, faces = arrays[f"vertices{k}"], arrays[f"faces{k}"]
    colors: npt.NDArray[Any] = np.tile(np.array(GRAY, np.uint8), (len(faces), 1))
    for kind, count in (("face", len(faces)), ("vertex", len(vertices))):
        own = np.atleast_2d(arrays[f"{kind}_colors{k}"])[:, :3] if f"{kind}_colors{k}" in arrays else np.zeros((0, 3))
        if len(own) == 1:
            colors[:] = own
        elif len(own) == count and own.shape[1] == 3:
            colors = own if kind == "face" else own[faces].mean(axis=1).round()
    return surface(vertices, faces, colors.astype(np.uint8))


def load_meshes(files: Sequence[tuple[str, str]]) -> bytes:
    """Return vertices, faces and colors of mesh files, as .npz; runs in the other process. files: path and format."""
    arrays: dict[str, Any] = {}
    faults = []
    for k, (path, kind) in enumerate(files):
        try:
            own = mesh_arrays(Path(path).read_bytes(), kind)
        except Exception as error:  # any of trimesh's parsers may fail, or run out of memory
            text = error.text if isinstance(error, RobotError) else str(error)
            faults.append((" ".join(text.split()) or type(error).__name__)[:100])
        else:
            faults.append("")
            arrays |= {f"{name}{k}": values for name, values in own.items()}
    arrays["faults"] = np.frombuffer(json.dumps(faults).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def mesh_arrays(content: bytes, kind: str) -> dict[str, Any]:
    """Return the vertices, faces and colors of one mesh file."""
    import trimesh

    # without a resolver, so that no other file is opened
    shape: Any = trimesh.load(io.BytesIO(content), file_type=kind, force="mesh", resolver=None, process=False)
    if not len(shape.faces) or not np.isfinite(shape.vertices).all():
        raise RobotError("no triangles", code="DG-VIEW-010")
    if not 0 <= np.min(shape.faces) <= np.max(shape.faces) < len(shape.vertices):
        raise RobotError("a triangle without corners", code="DG-VIEW-011")
    if len(shape.faces) > MAX_TRIANGLES:
        raise RobotError(f"more than {MAX_TRIANGLES} triangles", code="DG-VIEW-012")
    arrays = {"vertices": np.asarray(shape.vertices, np.float64), "faces": np.asarray(shape.faces, np.int64)}
    if shape.visual.kind == "texture":
        shape.visual = shape.visual.to_color()
    if shape.visual.kind in ("vertex", "face"):
        colors = f"{shape.visual.kind}_colors"
        arrays[colors] = np.asarray(getattr(shape.visual, colors), np.uint8)
    return arrays
