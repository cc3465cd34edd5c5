"""Robots as lines, and lines that move as a GIF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dynagate.forces.contact import Point
from dynagate.robot import Robot
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.collections import LineCollection

from examples.papers.position_based.figure import axes
from examples.papers.position_based.kinematics import place
from examples.papers.position_based.links import links_of

SIDE = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
"""x and z of the world: seen along y."""

OBLIQUE = np.array([[1.0, 0.0], [0.35, 0.2], [0.0, 1.0]])
"""As `SIDE`, with y drawn aslant."""

ABOVE = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
"""x and y of the world: seen along z."""


def skeleton(robot: Robot, q: Any, view: np.ndarray, feet: Sequence[Point] = ()) -> np.ndarray:
    """Lines (steps, lines, 2, 2) in m of a robot at q (steps, nq): in each link with mass from its joint to the joints
    that it carries, to its feet, and to the far side of its center of mass."""
    names = [link.name for link in robot.links]
    ends = [(link.parent, link.joint.translation) for link in robot.links if link.parent >= 0]
    ends += [(names.index(point.link), point.position) for point in feet]
    ends += [(i, tuple(2.0 * x for x in link.com)) for i, link in enumerate(robot.links)]
    ends = [(i, end) for i, end in ends if robot.links[i].mass and any(end)]
    links, pose, twist = links_of(robot), np.empty((len(names), 3, 4)), np.empty((robot.nv, 6))
    frames = []
    for configuration in np.asarray(q, float):
        place(links, configuration, pose, twist)
        frames.append(np.array([(pose[i, :, 3], pose[i, :, :3] @ end + pose[i, :, 3]) for i, end in ends]))
    return np.array(frames) @ view


def overlay(panel: Any, lines: np.ndarray, every: int) -> None:
    """Draws one step in so many, the first of them pale."""
    shown = lines[::every]
    for k, part in enumerate(shown):
        panel.add_collection(LineCollection(part, colors="tab:blue", alpha=0.2 + 0.8 * (k / len(shown))))
    panel.autoscale_view()
    panel.set(aspect="equal")


def animate(tracks: dict[str, np.ndarray], path: Path, dt: float) -> None:
    """Writes a GIF with a panel for each title -> lines (steps, lines, 2, 2), in real time. dt: s between steps."""
    figure, panels = axes(len(tracks))
    drawings = []
    for panel, (title, lines) in zip(panels, tracks.items(), strict=True):
        (left, low), (right, high) = lines.min((0, 1, 2)) - 0.1, lines.max((0, 1, 2)) + 0.1
        panel.set(title=title, xlim=(left, right), ylim=(low, high), aspect="equal")
        drawings.append((panel.add_collection(LineCollection(lines[0], colors="tab:blue")), lines))

    def frame(k: int) -> list[Any]:
        for drawing, lines in drawings:
            drawing.set_segments(lines[min(k, len(lines) - 1)])
        return [drawing for drawing, _ in drawings]

    longest = max(len(lines) for lines in tracks.values())
    FuncAnimation(figure, frame, longest).save(path, PillowWriter(round(1.0 / dt)), dpi=72)
