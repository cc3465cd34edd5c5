"""Draw contact.svg and loop.svg for docs/constraints.md: `python docs/constraints_pictures.py` rewrites them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from dynagate import Robot, evaluate, neutral, robots, trace
from dynagate.robot import Joint, Link
from dynagate.views.svg import BLUE, FAINT, GRID, INK, ORANGE, RED, Canvas

FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")
SCALE = 260.0  # pixels a meter
NEWTONS = 0.16  # pixels a newton


def places(robot: Robot, q: np.ndarray, frames: Sequence[str]) -> list[np.ndarray]:
    """Return the position (3,) of each frame, m."""
    return [evaluate(trace(robot, f"frame_pose_{name}"), {"q": q[None]})["frame_position"][0] for name in frames]


def contact() -> str:
    """Draw HyQ from its left side, on four feet and on two, with the contact forces."""
    hyq = robots.load("hyq", floating_base=True)
    for foot in FEET:
        hyq = hyq.with_contact(foot)
    q = neutral(hyq)
    q[[8, 11, 14, 17]], q[[9, 12, 15, 18]] = [0.6, 0.6, -0.6, -0.6], [-1.2, -1.2, 1.2, 1.2]
    still = {"q": q[None], "qd": np.zeros((1, 18)), "qdd": np.zeros((1, 18))}
    legs = [[f"{leg}_upper_leg", f"{leg}_lower_leg", f"{leg}_foot"] for leg in ("lf", "rf", "lh", "rh")]
    lines = [places(hyq, q, leg) for leg in legs]
    canvas = Canvas(640, 330, "A quadruped on four feet and on two, with the forces of its feet")
    ground = min(leg[-1][2] for leg in lines)
    for left, active, title in ((170, (1, 1, 1, 1), "active = 1 1 1 1"), (470, (1, 0, 0, 1), "active = 1 0 0 1")):
        state = {**still, "active": np.array([active], dtype=float)}
        force = evaluate(trace(hyq, "constrained_inverse_dynamics"), state)["force"].reshape(4, 3)

        def pixel(point: np.ndarray, left: int = left) -> tuple[float, float]:
            return left + SCALE * float(point[0] + 0.12 * point[1]), 240.0 - SCALE * float(point[2] - ground)

        canvas.line([(left - 145, 242), (left + 145, 242)], color=GRID, width=4)
        canvas.line([pixel(lines[2][0]), pixel(lines[0][0])], color=INK, width=14)
        for leg, on, f in sorted(zip(lines, active, force, strict=True), key=lambda row: row[0][0][1], reverse=True):
            lifted = [leg[0], leg[1] + [0.03, 0, 0.02], leg[2] + [0, 0, 0.12]]
            canvas.line([pixel(point) for point in (leg if on else lifted)], color=BLUE if on else FAINT, width=4)
            if on:
                x, y = pixel(leg[-1])
                canvas.arrow([(x, y), (x + NEWTONS * float(f[0]), y - NEWTONS * float(f[2]))], color=RED)
        canvas.text(left, 290, title, anchor="middle", bold=True)
        canvas.text(left, 308, f"{force[:, 2].sum():.0f} N on its feet", anchor="middle", color=FAINT)
    canvas.text(20, 24, "M q̈ + h = τ + Jᵀ λ", bold=True, size=14)
    canvas.text(20, 42, "λ: force of each foot that holds (red); 0 of those in the air", color=FAINT)
    return canvas.markup() + "\n"


def four_bar() -> Robot:
    """Return a crank and a rocker on the base, and a coupler, as a tree."""
    inertia = ((0.01, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))

    def link(name: str, parent: int, at: float, mass: float) -> Link:
        joint = Joint(name, "revolute", translation=(at, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
        return Link(name, parent, joint, mass, (0.25, 0.0, 0.0), inertia)

    robot = Robot("four_bar", (link("crank", -1, 0.0, 0.5), link("coupler", 0, 0.3, 1.0), link("rocker", -1, 0.9, 0.8)))
    return robot.with_frame("pin", "coupler", (0.8, 0.0, 0.0)).with_frame("eye", "rocker", (0.5, 0.0, 0.0))


def loop() -> str:
    """Draw a four-bar linkage as an open tree, and closed by a loop."""
    robot = four_bar()
    canvas = Canvas(640, 300, "A four-bar: the tree of its file, and the loop that closes it")
    crank = -0.9
    elbow = 0.3 * np.array([np.cos(crank), -np.sin(crank)])
    across = np.array([0.9, 0.0]) - elbow
    distance = float(np.linalg.norm(across))
    base = np.arctan2(across[1], across[0])
    inner = np.arccos((0.8**2 + distance**2 - 0.5**2) / (2 * 0.8 * distance))
    coupler = base + inner
    tip = elbow + 0.8 * np.array([np.cos(coupler), np.sin(coupler)])
    rocker = np.arctan2(tip[1], tip[0] - 0.9)
    closed = np.array([crank, -coupler - crank, -rocker])
    opened = closed + np.array([0.0, 0.3, -0.3])
    for left, q, title in ((40, opened, "a tree"), (370, closed, "with_loop('pin', 'eye')")):
        elbow3, pin, eye = places(robot, q, ["coupler", "pin", "eye"])

        def pixel(point: Sequence[float], left: int = left) -> tuple[float, float]:
            return left + 250.0 * float(point[0]), 235.0 - 250.0 * float(point[2])

        wall = [pixel((0.0, 0.0, 0.0)), pixel((0.9, 0.0, 0.0))]
        canvas.line(wall, color=GRID, width=4)
        canvas.line([wall[0], pixel(elbow3), pixel(pin)], color=BLUE, width=5)
        canvas.line([wall[1], pixel(eye)], color=ORANGE, width=5)
        if np.linalg.norm(pin - eye) > 1e-6:
            canvas.line([pixel(pin), pixel(eye)], color=RED, width=2)
            middle = pixel((pin + eye) / 2)
            canvas.text(middle[0] + 8, middle[1] - 8, "e, open", color=RED)
        for x, y in (*wall, pixel(elbow3), pixel(pin), pixel(eye)):
            canvas.rectangle(x - 4, y - 4, 8, 8, fill=INK)
        canvas.text(left + 112, 280, title, anchor="middle", bold=True)
    canvas.text(20, 24, "J q̈ + J̇ q̇ + d J q̇ + k e + c λ = 0", bold=True, size=14)
    canvas.text(20, 42, "the pin of the coupler (blue) stays in the eye of the rocker (orange)", color=FAINT)
    return canvas.markup() + "\n"


PICTURES = {"contact.svg": contact, "loop.svg": loop}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (Path(__file__).parent / name).write_text(draw())
