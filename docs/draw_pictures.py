"""Draw the pictures of pages and examples from the values that their own code computes.

`python docs/draw_pictures.py` rewrites all pictures, or only those of the pages that are passed as arguments. Tests run
the same code and compare the pictures with the files.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from dynagate import Shapes, draw, robots
from dynagate.views.scene.pictures import sweep
from PIL import Image, ImageDraw

DOCS = Path(__file__).resolve().parent
TOLERANCE = 2.0
"""Difference in pixels that another processor may cause by other last digits."""

DIFFERENT = 0.01
"""Fraction of a motion's pixels that may differ."""

EXAMPLE = "../examples/"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
Space = dict[str, Any]


def motion(robot: Any, q: Any, dt: float) -> str:
    return draw(robot, np.asarray(q), dt=dt).data.decode()


def still(robot: Any, q: Any) -> str:
    return draw(robot, np.asarray(q)).data.decode()


def tree(_: Space) -> str:
    from dynagate.views.tree import draw_tree

    return draw_tree(robots.load("hyq"))


def blocks(space: Space) -> str:
    from dynagate.views.blocks import draw_blocks

    return draw_blocks(space["design"])


def schedule(space: Space) -> str:
    from dynagate.views.gantt import draw_schedule

    return draw_schedule(space["design"].robot.name, space["design"].hardware.plan)


def solution(space: Space) -> str:
    """Draw the motion at which Newton's method ends."""
    held = space["jnp"].repeat(space["solution"].reshape(5, -1), 10, axis=0)
    run = space["run"](space["q"], space["qd"], space["hold"] + space["inertia"] * held)
    return motion(space["arm"], run.q, 0.01)


def joints(_: Space) -> str:
    """Draw the joints as `dynagate view` shows them."""
    return motion("two_joint_arm", sweep("two_joint_arm"), 0.02)


def slide(space: Space) -> str:
    """Draw the sliding box."""
    return draw(space["box"], space["motion"].q[::32], dt=0.032, shapes=Shapes(space["file"])).data.decode()


def weight(space: Space) -> str:
    """Draw the arm with the weight of the payload as an arrow."""
    force = {"forearm": [0.0, 0.0, -9.81 * float(space["payload"][0])]}
    return draw("two_joint_arm", [0.6, -1.2], forces=force).data.decode()


def cycles(space: Space) -> str:
    """Draw the cycles of the programs as bars."""
    from dynagate.views.bars import draw_bars

    bars = {each.function.replace("_", " "): {"latency": float(each.latency)} for each in space["programs"]}
    return draw_bars("two_joint_arm on a core of four units", {"": bars}, {"latency": "#4878d0"}, "cycles")


def found(space: Space) -> str:
    """Draw the motion by the torques that JAX found."""
    run = space["simulate"](space["start"], space["jnp"].zeros(2), space["hold"] + space["torques"])
    return motion("two_joint_arm", run.q[::4], 0.04)


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
    "01_gradients.svg": (EXAMPLE + "01_gradients.py", lambda space: still("iiwa14", space["q"])),
    "02_pd_gravity.svg": (EXAMPLE + "02_pd_gravity.py", lambda space: motion("iiwa14", space["path"][:1001:80], 0.08)),
    "03_ilqr.svg": (EXAMPLE + "03_ilqr.py", lambda space: motion("two_joint_arm", space["plan"].q[::4], 0.08)),
    "04_mppi.svg": (EXAMPLE + "04_mppi.py", lambda space: motion("two_joint_arm", space["path"][::5], 0.1)),
    "05_jax_rollout_gradient.svg": (EXAMPLE + "05_jax_rollout_gradient.py", found),
    "06_contacts.svg": (EXAMPLE + "06_contacts.py", slide),
    "07_variable_masses.svg": (EXAMPLE + "07_variable_masses.py", weight),
    "08_datapath.svg": (EXAMPLE + "08_datapath.py", blocks),
    "09_zynq_processor.svg": (EXAMPLE + "09_zynq_processor.py", cycles),
    "10_pynq.svg": (EXAMPLE + "10_pynq.ipynb", lambda space: motion("two_joint_arm", space["path"][::4], 0.04)),
    "11_tour.svg": (EXAMPLE + "11_tour.ipynb", lambda space: motion("two_joint_arm", space["motion"].q[::4], 0.02)),
    "12_inverse_kinematics.svg": (
        EXAMPLE + "12_inverse_kinematics.py",
        lambda space: motion("iiwa14", space["path"][::4], 0.08),
    ),
    "14_constraints.svg": (
        EXAMPLE + "14_constraints.py",
        lambda space: motion("two_joint_arm", space["plans"]["constrained"].q[::3], 0.06),
    ),
    "15_actuators.svg": (
        EXAMPLE + "15_actuators.py",
        lambda space: motion("two_joint_arm", space["motion"].q[:301:12], 0.012),
    ),
    "16_whole_body_torque.svg": (
        EXAMPLE + "16_whole_body_torque.py",
        lambda space: still("hyq", space["q"][7:]),
    ),
    "17_check_robot.svg": (EXAMPLE + "17_check_robot.py", lambda space: still("two_joint_arm", space["q"])),
    "13_identification.svg": (
        EXAMPLE + "13_identification.py",
        lambda space: motion("iiwa14", space["unseen"][0][:100:4], 0.4),
    ),
}
"""Picture in docs/pictures -> the page or example that computes it, and a function that draws it from the page's
variables.
"""


def computed(page: Path) -> Space:
    """Run the Python of a page, an example or a notebook, and return its names."""
    if page.suffix == ".py":
        return runpy.run_path(str(page), run_name="__main__")
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text())["cells"]
        parts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    else:
        parts = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.S | re.M)
    space: Space = {}
    for part in parts:
        exec(compile(part, page.name, "exec"), space)
    return space


def of_page(page: str) -> Iterator[tuple[Path, Callable[[Space], str]]]:
    """Yield the pictures of a page: their files, and functions that draw them from its names.

    Args:
        page: Path of the page or example in docs/.
    """
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
    """Return how a picture differs from the stored one, or "". Motions are compared as pixels."""
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
    known = dict.fromkeys(page for page, _ in PICTURES.values())
    chosen = [os.path.relpath(path, DOCS) for path in sys.argv[1:]] or list(known)
    if unknown := set(chosen) - set(known):
        sys.exit(f"no pictures of {', '.join(sorted(unknown))}; expected paths of {', '.join(known)}")
    for page in chosen:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            space = computed(DOCS / page)
            for path, drawn in of_page(page):
                path.write_text(drawn(space).rstrip() + "\n")
                print(path)
            os.chdir(DOCS)


if __name__ == "__main__":
    main()
