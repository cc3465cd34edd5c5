"""A scene as a web page of one file, which draws it with WebGL and needs no network."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.views.scene.camera import ASPECT, AZIMUTH, ELEVATION, FIELD
from dynagate.views.scene.look import AMBIENT, DARK, KEY, KEY_SIDE, LIGHT, SHINE, SKY
from dynagate.views.scene.pixels import FAR
from dynagate.views.scene.scene import Scene

TEMPLATE = Path(__file__).parent / "page.html"


def page(scene: Scene, theme: str = "auto", version: int | None = None) -> str:
    """Return the page.

    theme: "light", "dark", or "auto" as the reader's browser has. version: Number of the motion, if the page asks its
    server for later ones; None for a file.
    """
    order = np.argsort(scene.carrier, kind="stable")
    carriers, starts, counts = np.unique(scene.carrier[order], return_index=True, return_counts=True)
    values = {
        "title": scene.title,
        "theme": theme,
        "version": version,
        "corners": _text(scene.solid.corners[order], np.float32),
        "normals": _text(np.round(127.0 * scene.solid.normals[order]), np.int8),
        "colors": _text(scene.solid.colors[order], np.uint8),
        "bodies": _text(scene.body[order], np.uint16),
        "ranges": np.stack([carriers, starts, counts], axis=1).tolist(),
        "carriers": scene.poses.shape[1],
        "motion": motion(scene),
        "size": scene.size,
        "azimuth": AZIMUTH,
        "elevation": ELEVATION,
        "distance": scene.camera.distance,
        "field": FIELD,
        "aspect": ASPECT,
        "far": FAR,
        "key": KEY_SIDE,
        "lights": (AMBIENT, SKY, KEY, SHINE),
        "light": asdict(LIGHT),
        "dark": asdict(DARK),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, theme_colors in (("LIGHT_PAPER", LIGHT), ("DARK_PAPER", DARK)):
        text = text.replace(name, "#" + bytes(theme_colors.paper).hex())
    return text.replace("SCENE", json.dumps(values, allow_nan=False).replace("<", "\\u003c"), 1)


def motion(scene: Scene) -> dict[str, Any]:
    """Return the part of a scene that changes from one motion to another."""
    assert math.isfinite(scene.ground)
    return {
        "frames": scene.frames,
        "dt": scene.dt,
        "ground": scene.ground,
        "poses": _text(scene.poses, np.float32),
        "targets": _text(scene.camera.target, np.float32),
    }


def _text(values: Any, kind: Any) -> str:
    return b64encode(np.ascontiguousarray(values, np.dtype(kind).newbyteorder("<")).tobytes()).decode()
