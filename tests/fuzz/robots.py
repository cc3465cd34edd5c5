"""Robots that do not ship, as recipes: light links, hands, balls, sliding joints, joints that mimic others.

A recipe is JSON: {"links": [...], "gravity": [x, y, z], "urdf": true}. A link is a dict of

    name, parent  text; the base where the robot has no link of that name
    joint         "revolute", "continuous", "prismatic", "spherical", "floating", "fixed" ("fixed" in URDF alone)
    axis, at      in the joint frame, of any length; the joint's place on the parent, m
    turn, tilt    of the joint frame, and of the inertia in the link: roll, pitch and yaw in whole degrees
    mass, com     kg, m
    radii         of the mass's spread about its center, along the axes of `tilt`, m
    damping, armature, friction, lower, upper, velocity, effort    as in URDF
    mimic         {"link": name of the link above which the leader is, "multiplier", "offset"}

and everything but the name may be left out, so that a case can shrink by dropping entries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from dynagate import Robot
from dynagate.robot.parts import Joint, Link, Mimic
from dynagate.robot.vectors import matrix3, vector3

Recipe = dict[str, Any]
SINGLE = ("revolute", "continuous", "prismatic")
DEFAULTS: Recipe = {
    "joint": "revolute",
    "axis": [0.0, 0.0, 1.0],
    "turn": [0, 0, 0],
    "at": [0.0, 0.0, 0.0],
    "mass": 1.0,
    "com": [0.0, 0.0, 0.1],
    "radii": [0.1, 0.1, 0.1],
    "tilt": [0, 0, 0],
    "damping": 0.0,
    "armature": 0.0,
    "friction": 0.0,
    "lower": -2.5,
    "upper": 2.5,
    "velocity": 6.0,
    "effort": 100.0,
}
GRAVITY = [0.0, 0.0, -9.81]


def completed(recipe: Recipe) -> list[Recipe]:
    """The links with all their entries. Parents and leaders that the robot does not have are left out."""
    names = {link["name"]: link for link in recipe["links"]}
    links = []
    for link in recipe["links"]:
        whole = {**DEFAULTS, **link}
        if recipe.get("urdf"):
            whole["armature"] = 0.0  # which URDF lacks
        if whole.get("parent") not in names:
            whole.pop("parent", None)
        leader = names.get(whole.get("mimic", {}).get("link"))
        if leader is None or "mimic" in leader or whole["joint"] not in SINGLE:
            whole.pop("mimic", None)
        links.append(whole)
    return links


def rotation(degrees: list[int]) -> np.ndarray:
    """Roll, pitch and yaw about fixed axes, as URDF has them; right angles are exact."""
    result = np.eye(3)
    for k, angle in enumerate(degrees):
        c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        if angle % 90 == 0:
            c, s = round(c), round(s)
        turn = np.eye(3)
        i, j = (k + 1) % 3, (k + 2) % 3
        turn[i, i] = turn[j, j] = c
        turn[j, i], turn[i, j] = s, -s
        result = turn @ result
    return result


def unit(axis: list[float]) -> np.ndarray:
    return np.array(axis, float) / np.linalg.norm(axis)


def inertia(link: Recipe) -> np.ndarray:
    """About the center of mass, in the link's axes, kg m²."""
    tilt = rotation(link["tilt"])
    second = link["mass"] * tilt @ np.diag(np.square(link["radii"])) @ tilt.T
    return np.trace(second) * np.eye(3) - second


def robot_of(recipe: Recipe, folder: Path) -> Robot:
    """The robot, through the project's own classes or, where the recipe says so, its reader of URDF."""
    if recipe.get("urdf"):
        path = folder / "drawn.urdf"
        path.write_text(_urdf(recipe))
        return Robot.from_urdf(path, gravity=vector3(recipe.get("gravity", GRAVITY)))
    links = completed(recipe)
    places = {link["name"]: k for k, link in enumerate(links)}
    made = [
        Link(
            link["name"],
            places[link["parent"]] if "parent" in link else -1,
            _joint(link),
            float(link["mass"]),
            vector3(link["com"]),
            matrix3(inertia(link)),
        )
        for link in links
    ]
    return Robot("drawn", tuple(made), gravity=vector3(recipe.get("gravity", GRAVITY)))


def _joint(link: Recipe) -> Joint:
    single = link["joint"] in SINGLE
    ends = {"lower": link["lower"], "upper": link["upper"]} if link["joint"] in ("revolute", "prismatic") else {}
    mimic = link.get("mimic")
    return Joint(
        f"{link['name']}_joint",
        link["joint"],
        matrix3(rotation(link["turn"])),
        vector3(link["at"]),
        vector3(unit(link["axis"])) if single else (0.0, 0.0, 1.0),
        damping=link["damping"],
        armature=link["armature"],
        friction=link["friction"],
        velocity=link["velocity"],
        effort=link["effort"],
        mimic=Mimic(f"{mimic['link']}_joint", mimic["multiplier"], mimic.get("offset", 0.0)) if mimic else None,
        **ends,
    )


def _urdf(recipe: Recipe) -> str:
    lines = ['<robot name="drawn">', '<link name="base"/>']
    for link in completed(recipe):
        i = inertia(link)
        entries = " ".join(f'i{"xyz"[a]}{"xyz"[b]}="{float(i[a, b])!r}"' for a in range(3) for b in range(a, 3))
        lines.append(
            f'<link name="{link["name"]}"><inertial><origin xyz="{_text(link["com"])}"/>'
            f'<mass value="{link["mass"]!r}"/><inertia {entries}/></inertial></link>'
        )
        mimic = link.get("mimic")
        follows = (
            f'<mimic joint="{mimic["link"]}_joint" multiplier="{mimic["multiplier"]}" '
            f'offset="{mimic.get("offset", 0.0)}"/>'
            if mimic
            else ""
        )
        lines.append(
            f'<joint name="{link["name"]}_joint" type="{link["joint"]}"><parent link="{link.get("parent", "base")}"/>'
            f'<child link="{link["name"]}"/>'
            f'<origin xyz="{_text(link["at"])}" rpy="{_text(np.radians(link["turn"]))}"/>'
            f'<axis xyz="{_text(unit(link["axis"]))}"/>'
            f'<limit lower="{link["lower"]}" upper="{link["upper"]}" velocity="{link["velocity"]}" '
            f'effort="{link["effort"]}"/>'
            f'<dynamics damping="{link["damping"]}" friction="{link["friction"]}"/>{follows}</joint>'
        )
    return "\n".join([*lines, "</robot>"])


def _text(values: Any) -> str:
    return " ".join(repr(float(v)) for v in values)


# Drawing


def draw_robot(random: np.random.Generator, most: int = 4, kinds: tuple[str, ...] = ()) -> Recipe:
    """A robot of up to `most` moving links. kinds: of `KINDS` to choose from; all unless given."""
    return KINDS[str(random.choice(kinds or tuple(KINDS)))](random, most)


def number(random: np.random.Generator, low: float, high: float) -> float:
    """With two digits, so that a case is short."""
    return float(f"{random.uniform(low, high):.2g}")


def _some(random: np.random.Generator, chance: float) -> bool:
    return bool(random.random() < chance)


def _link(random: np.random.Generator, name: str, parent: str, joint: str, mass: float, length: float) -> Recipe:
    """A link of about this mass (kg) and length (m)."""
    link: Recipe = {"name": name, "parent": parent, "joint": joint}
    if joint in SINGLE:
        axes = ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0])
        oblique = [number(random, -1, 1) + 0.01 for _ in range(3)]
        link["axis"] = list(axes[random.integers(3)]) if _some(random, 0.7) else oblique
    if _some(random, 0.5):
        right = [int(90 * random.integers(-1, 3)) for _ in range(3)]
        link["turn"] = right if _some(random, 0.5) else [int(random.integers(-170, 170)) for _ in range(3)]
    if parent:
        link["at"] = [number(random, -length, length) if _some(random, 0.4) else 0.0 for _ in range(2)] + [length]
    link["mass"] = number(random, 0.6 * mass, 1.4 * mass)
    link["com"] = [number(random, -0.3, 0.3) * length if _some(random, 0.5) else 0.0 for _ in range(2)] + [0.5 * length]
    link["radii"] = [float(f"{number(random, 0.15, 0.4) * length:.2g}") for _ in range(3)]
    if _some(random, 0.3):
        link["tilt"] = [int(random.integers(-80, 80)) for _ in range(3)]
    if _some(random, 0.3):
        link["damping"] = float(f"{number(random, 0.01, 0.1) * mass * length:.2g}")
    if _some(random, 0.3):
        link["armature"] = float(f"{number(random, 0.01, 0.3) * mass * length**2:.2g}")
    if _some(random, 0.3):
        link["friction"] = float(f"{number(random, 0.05, 0.3) * mass * length:.2g}")
    return link


def _light(random: np.random.Generator, most: int) -> Recipe:
    """A finger: a chain of links of 1 to 30 g that turn."""
    mass, length = 10.0 ** number(random, -3, -1.5), number(random, 0.02, 0.05)
    count = int(random.integers(1, most + 1))
    return {"links": [_link(random, f"l{k}", f"l{k - 1}" if k else "", "revolute", mass, length) for k in range(count)]}


def _hand(random: np.random.Generator, most: int) -> Recipe:
    """Fingers of two links on a palm, whose second joints mimic the first ones; the palm may be free in space."""
    links = [
        _link(random, "palm", "", str(random.choice(["floating", "revolute", "fixed"], p=[0.3, 0.4, 0.3])), 0.3, 0.08)
    ]
    finger = 0
    while len(links) < most:
        near = _link(random, f"near{finger}", "palm", "revolute", 0.03, 0.04)
        far = _link(random, f"far{finger}", f"near{finger}", "revolute", 0.02, 0.03)
        if _some(random, 0.7):
            far["mimic"] = {"link": f"near{finger}", "multiplier": float(random.choice([-1.0, 0.5, 1.0, 1.3]))}
        links += [near, far]
        finger += 1
    links = links[: max(most, 2)]
    for link in links[1:]:
        link.setdefault("at", [0.0, number(random, -0.05, 0.05), 0.05])
    recipe: Recipe = {"links": links}
    if links[0]["joint"] == "fixed":
        recipe["urdf"] = True
    return recipe


def _ball(random: np.random.Generator, most: int) -> Recipe:
    """Quaternions: spherical and floating joints, and others behind them."""
    count = int(random.integers(1, min(most, 3) + 1))
    links = []
    for k in range(count):
        joint = str(random.choice(["floating", "spherical"] if k == 0 else ["spherical", "revolute", "prismatic"]))
        links.append(_link(random, f"l{k}", f"l{k - 1}" if k else "", joint, number(random, 0.2, 2.0), 0.2))
    return {"links": links}


def _arm(random: np.random.Generator, most: int) -> Recipe:
    """A tree of kilograms from URDF, with links on fixed joints and joints of all kinds that URDF has."""
    links = []
    for k in range(int(random.integers(1, most + 1))):
        parent = f"l{k - 1}" if k and _some(random, 0.75) else (f"l{random.integers(k)}" if k else "")
        joint = str(random.choice(["revolute", "continuous", "prismatic"], p=[0.55, 0.2, 0.25]))
        link = _link(random, f"l{k}", parent, joint, 2.0, 0.3)
        leaders = [each["name"] for each in links if each["joint"] in SINGLE and "mimic" not in each]
        if leaders and _some(random, 0.2):
            multiplier = float(random.choice([-1.0, 0.5, 1.3]))
            link["mimic"] = {"link": str(random.choice(leaders)), "multiplier": multiplier, "offset": 0.1}
        links.append(link)
        if _some(random, 0.25):
            bolted = _link(random, f"tool{k}", f"l{k}", "fixed", 0.5, 0.1)
            links.append(
                {key: value for key, value in bolted.items() if key not in ("armature", "damping", "friction")}
            )
    return {"links": links, "urdf": True}


KINDS = {"light": _light, "hand": _hand, "ball": _ball, "arm": _arm}
