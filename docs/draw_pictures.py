"""Draws the pictures of the pages from what their own blocks compute: `python docs/draw_pictures.py` writes them anew.

`tests/test_docs.py` runs the blocks of each page, and compares the pictures of it with these files."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from dynagate import draw, robots
from dynagate.scene.pictures import sweep
from PIL import Image, ImageDraw

DOCS = Path(__file__).parent
TOLERANCE = 2.0
"""Pixels by which a picture may differ on another processor, whose last digits are others."""

DIFFERENT = 0.01
"""Part of a motion's picture that may differ."""

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
Space = dict[str, Any]


def motion(robot: Any, q: Any, dt: float) -> str:
    return draw(robot, np.asarray(q), dt=dt).data.decode()


def tree(_: Space) -> str:
    from dynagate.views.tree import draw_tree

    return draw_tree(robots.load("hyq"))


def blocks(space: Space) -> str:
    from dynagate.views.blocks import draw_blocks

    return draw_blocks(space["design"])


def schedule(space: Space) -> str:
    from dynagate.views.gantt import draw_schedule

    return draw_schedule(space["design"].robot.name, space["design"].plan)


def solution(space: Space) -> str:
    """The motion that Newton's method ends with."""
    held = space["jnp"].repeat(space["solution"].reshape(5, -1), 10, axis=0)
    run = space["run"](space["q"], space["qd"], space["hold"] + space["inertia"] * held)
    return motion(space["arm"], run.q, 0.01)


def joints(_: Space) -> str:
    """As `dynagate view` shows them."""
    return motion("two_joint_arm", sweep("two_joint_arm"), 0.02)


PICTURES: dict[str, tuple[str, Callable[[Space], str]]] = {
    "arm_joints.svg": ("tutorials/hour.md", joints),
    "arm_fall.svg": ("tutorials/hour.md", lambda space: motion(space["robot"], space["motions"].q[0], 0.005)),
    "arm_reach.svg": ("tutorials/hour.md", lambda space: motion(space["robot"], space["path"], 0.005)),
    "arm_ilqr.svg": ("tutorials/robotics.md", lambda space: motion(space["arm"], space["plan"].q, 0.02)),
    "arm_newton.svg": ("tutorials/learning.md", solution),
    "hyq_trot.svg": ("tutorials/legged.md", lambda space: motion(space["dog"], space["path"][::2], 0.02)),
    "datapath.svg": ("tutorials/hardware.md", blocks),
    "schedule.svg": ("tutorials/hardware.md", schedule),
    "tree.svg": ("models.md", tree),
}
"""Picture in docs/pictures -> the page whose blocks it shows the result of, and how it is drawn from their names."""


def of_page(page: str) -> Iterator[tuple[Path, Callable[[Space], str]]]:
    """The pictures of a page, by its path in docs/."""
    for name, (shown, drawn) in PICTURES.items():
        if shown == page:
            yield DOCS / "pictures" / name, drawn


def painted(picture: str, frame: int) -> Any:
    """Return a frame of a motion's picture in gray, (height, width), at a tenth of its coordinates' resolution."""
    root = ElementTree.fromstring(picture)
    groups = root.findall("{http://www.w3.org/2000/svg}g")
    _, _, width, height = (int(x) for x in root.attrib["viewBox"].split())
    image = Image.new("L", (width // 20, height // 20), 255)
    canvas = ImageDraw.Draw(image)
    for path in groups[frame * (len(groups) - 1) // 4]:
        if path.get("class") == "l":
            continue
        red, green, blue = bytes.fromhex(path.get("fill", "#bbbbbb")[1:])
        for loop in path.attrib["d"].split("M")[1:]:
            numbers = np.array(re.findall(r"-?\d+", loop), float).reshape(-1, 2).cumsum(axis=0) / 20.0
            canvas.polygon([tuple(point) for point in numbers], fill=(red + green + blue) // 3)
    return np.asarray(image, int)


def differs(picture: str, kept: str) -> str:
    """Say where a picture differs from the kept one; "" if it does not. Motions are compared as pixels."""
    if 'mask="url(#f)"' in kept:
        if (frames := picture.count("<g")) != kept.count("<g"):
            return f"it has {frames} frames"
        parts = [float((np.abs(painted(picture, k) - painted(kept, k)) > 40).mean()) for k in range(5)]
        return f"{max(parts):.1%} of a frame differs" if max(parts) > DIFFERENT else ""
    if NUMBER.sub("0", picture) != NUMBER.sub("0", kept):
        return "it has other parts"
    numbers, others = (np.array(NUMBER.findall(text), float) for text in (picture, kept))
    most = float(np.abs(numbers - others).max(initial=0.0))
    return f"a number differs by {most:g}" if most > TOLERANCE else ""


def main() -> None:
    (DOCS / "pictures").mkdir(exist_ok=True)
    for page in dict.fromkeys(page for page, _ in PICTURES.values()):
        space: Space = {}
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for block in re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), flags=re.S | re.M):
                exec(compile(block, page, "exec"), space)
            for path, drawn in of_page(page):
                path.write_text(drawn(space).rstrip() + "\n")
                print(path)
            os.chdir(DOCS)


if __name__ == "__main__":
    main()
