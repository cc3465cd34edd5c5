"""A robot drawn as a tree: a row per link, with its joint and the joint's limits."""

from __future__ import annotations

from dynagate.robot import Joint, Link, Robot
from dynagate.views.svg import BLUE, FAINT, INK, SKY, Canvas, shortened

ROW, INDENT, BOX, LEFT = 34, 26, 190, 10
LETTERS = 26


def draw_tree(robot: Robot) -> str:
    """Return the links as SVG, each indented under its parent."""
    depths = _depths(robot)
    order = _order(robot)
    widest = max(depths, default=0) + 1
    canvas = Canvas(LEFT + widest * INDENT + BOX + 500, (len(order) + 1) * ROW + 10, f"{robot.name} as its tree")
    canvas.rectangle(LEFT, 6, BOX, 22, fill=INK)
    canvas.text(LEFT + 8, 21, "base", color="white")
    rows = {-1: 0, **{k: row for row, k in enumerate(order, 1)}}
    for k in order:
        link = robot.links[k]
        x, y = LEFT + (depths[k] + 1) * INDENT, rows[k] * ROW + 6
        elbow = x - INDENT + 10
        canvas.line([(elbow, rows[link.parent] * ROW + 28), (elbow, y + 11), (x, y + 11)])
        hint = f"{link.name}: {link.mass:.4g} kg, center of mass {', '.join(f'{c:.4g}' for c in link.com)} m"
        canvas.rectangle(x, y, BOX, 22, fill=SKY, edge=BLUE, hint=hint)
        canvas.text(x + 8, y + 15, shortened(link.name, LETTERS))
        canvas.text(x + BOX + 10, y + 15, joint_text(link), color=FAINT)
    return canvas.markup()


def joint_text(link: Link) -> str:
    """Return the joint above a link in one line: name, type, and limits with units."""
    joint = link.joint
    return ", ".join([f"{shortened(joint.name, LETTERS)}: {joint.type}", *limits(joint)])


def limits(joint: Joint) -> list[str]:
    """Return the limits of a joint, with their units."""
    length, force = joint.kind.units
    parts = []
    if joint.lower is not None and joint.upper is not None:
        parts.append(f"{joint.lower:.3g} to {joint.upper:.3g} {length}")
    if joint.velocity is not None:
        parts.append(f"{joint.velocity:.3g} {length}/s")
    if joint.effort is not None:
        parts.append(f"{joint.effort:.3g} {force}")
    return parts


def _depths(robot: Robot) -> list[int]:
    """Return the depth of each link below the base."""
    depths: list[int] = []
    for link in robot.links:
        depths.append(0 if link.parent < 0 else depths[link.parent] + 1)
    return depths


def _order(robot: Robot) -> list[int]:
    """Return the order of rows: each link is followed by the links below it."""
    below: dict[int, list[int]] = {}
    for k, link in enumerate(robot.links):
        below.setdefault(link.parent, []).append(k)
    order, waiting = [], below.get(-1, [])[::-1]
    while waiting:
        order.append(k := waiting.pop())
        waiting += below.get(k, [])[::-1]
    return order
