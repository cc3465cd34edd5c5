"""The URDF parser: a URDF file becomes a tree of moving links.

`robot_xml` parses the XML. This module interprets it, without silent defaults for anything that affects dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from dynagate.base.arguments import check_flags
from dynagate.base.nearest import nearest
from dynagate.base.warned import warn
from dynagate.robot.arguments import check_reading, path_of
from dynagate.robot.composite_joints import PARTS, compose
from dynagate.robot.constraint import Constraint
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.file_errors import FileErrors, warn_of_friction
from dynagate.robot.geometry import origin_of
from dynagate.robot.inertia import check_inertia
from dynagate.robot.kinds import KINDS, kind_of, single_kinds
from dynagate.robot.mimic_elements import NoLeader, followed
from dynagate.robot.parts import Frame, Joint, Link, Mimic
from dynagate.robot.robot_xml import attribute, number, numbers, only, parse
from dynagate.robot.rotations import NEAR, Rounding
from dynagate.robot.tree import RobotTree
from dynagate.robot.unread_content import listed, unread
from dynagate.robot.urdf_loops import take_closures
from dynagate.robot.urdf_rotors import armatures
from dynagate.robot.vectors import STANDARD_GRAVITY, Matrix3, Vector3, matrix3, vector3, without_noise

ROOT_JOINT = "root_joint"
"""Name of the joint of a floating base, as in Pinocchio. A number is appended if the file has a joint of this name."""

WORLD = "world"
"""Name of the link that a file need not define: the base."""

MASSLESS: tuple[float, Vector3, Matrix3] = (0.0, (0.0, 0.0, 0.0), ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
"""Mass, center of mass and inertia of a massless link."""


@dataclass(frozen=True)
class Options:
    """Options of `read_urdf`, which documents them."""

    floating_base: bool
    gravity: Vector3
    lock: Mapping[str, float]
    damping: bool
    ignore_friction: bool
    allow_unphysical: bool
    unlimited: bool
    lax: bool
    round_rotations: float


def read_urdf(
    path: str | PathLike[str],
    *,
    floating_base: bool = False,
    gravity: Vector3 = STANDARD_GRAVITY,
    lock: Mapping[str, float] | None = None,
    damping: bool = True,
    ignore_friction: bool = False,
    allow_unphysical: bool = False,
    unlimited: bool = False,
    lax: bool = False,
    round_rotations: float = 1e-9,
    expanded: bytes | None = None,
) -> RobotTree:
    """Read a robot from a URDF file.

    Links on fixed joints are merged into the link that carries them; links fixed to the base are dropped.

    Args:
        path: The file.
        floating_base: Whether the root link moves freely, by a floating joint named ROOT_JOINT, instead of being the
            base.
        gravity: Acceleration of gravity in the base frame, m/s².
        lock: Positions of joints to lock, rad or m, by name. A RobotWarning lists positions outside the joint's limits.
            A mimic joint follows its leader and does not move if the leader is locked.
        damping: Whether to read joint damping.
        ignore_friction: Whether to leave out Coulomb friction. Otherwise a RobotWarning explains that friction acts
            only with `Robot.with_friction` or the force `Friction`.
        allow_unphysical: Whether to accept masses and inertias that no rigid body has.
        unlimited: Whether joints without usable position limits have none, so that revolute ones are sampled from -π to
            π, and velocity and effort limits that are negative or 0 are dropped. Infinite limits are always dropped.
        lax: Whether to ignore XML errors that lose nothing of the robot, such as an undeclared prefix. A RobotWarning
            lists them.
        round_rotations: Angle in rad within which rotations are rounded to right angles. Files write π/2 with ten or so
            digits, and an entry of 5e-12 instead of 0 costs a multiplier. A RobotWarning suggests a value if a file has
            fewer digits. 0 disables rounding. `Robot.rounding` is the largest correction.
        expanded: Text to parse instead of the file's, after macros were expanded.

    Raises:
        RobotError: The file is missing, too large, not XML, or describes no tree of supported joints with physical
            inertias. The text starts with the file's name and lists all errors by joint or link, with the options that
            accept them.
    """
    path = path_of(path, "from_urdf")
    check_reading(gravity, lock, round_rotations)
    check_flags(
        floating_base=floating_base,
        damping=damping,
        ignore_friction=ignore_friction,
        allow_unphysical=allow_unphysical,
        unlimited=unlimited,
        lax=lax,
    )
    options = Options(
        floating_base, gravity, lock or {}, damping, ignore_friction, allow_unphysical, unlimited, lax, round_rotations
    )
    try:
        root, overlooked = parse(path, lax=lax, text=expanded)
        reader = _Reader(root, options)
        robot = reader.robot()
    except RobotError as error:
        raise RobotError(f"{path.name}: {error}", code="DG-URDF-028") from None
    warn_of_friction(path.name, robot)
    for text in (*overlooked, *reader.remarks()):
        warn(f"{path.name}: {text}", RobotWarning, code="DG-URDF-029")
    return robot


def _near_right_angles(rounding: Rounding) -> str:
    """Return the warning about rotations that miss right angles by a few decimals; empty without such rotations or if
    rounding is off.
    """
    if not rounding.uncorrected or rounding.within == 0.0:
        return ""
    largest = max(rounding.uncorrected.values())
    enough = min(10.0 ** math.ceil(math.log10(largest)), NEAR)
    kinds = [(kind, sum(where.startswith(kind) for where in rounding.uncorrected)) for kind in ("joint", "link")]
    value = f"{enough:.0e}".replace("e-0", "e-")
    count = " and ".join(f"{n} {kind}{'' if n == 1 else 's'}" for kind, n in kinds if n)
    return (
        f"rotations of {count} are up to {largest:.1e} rad from right angles, as 1.5708 is from π/2, which costs "
        f"products; round_rotations={value} (--round-rotations {value}) makes them right angles"
    )


@dataclass
class _VisitedLink:
    """A link during the walk down the tree."""

    name: str
    joint: str | None
    """Name of the joint that leads to the link; None for the root."""
    owner: int
    """Index of the moving link that carries it, -1 for the base."""
    rotation: np.ndarray
    """Rotation (3, 3) in that link's frame."""
    translation: np.ndarray
    """Origin (3,) in that link's frame, m."""


class _Reader:
    """Conversion of one file. Errors that an option accepts are recorded in `errors`, and reading continues as if it
    was set.
    """

    def __init__(self, root: Any, options: Options) -> None:
        self.options = options
        self.errors = FileErrors(options.lock)
        self.rounding = Rounding(options.round_rotations)
        self.name = root.get("name") or "robot"
        self.left_out = compose(root)
        self.closures = take_closures(root, self.rounding)
        self.link_elements = _named(root, "link")
        self.joint_elements = _named(root, "joint")
        self.implied = self._imply_world(root)
        self.links: list[Link] = []
        self.frames: list[Frame] = []
        self.pinned: list[tuple[str, str, str, float]] = []  # error, joint, type and only possible position
        self.out_of_limits: list[str] = []  # joints that `lock` holds outside their limits
        self.unread = False  # an element had an error, so masses are unknown
        self.left_out += unread(root)
        self.armatures, rotors = armatures(root, self.joint_elements)
        if rotors:
            self.left_out.append(
                f"rotor inertia and gear ratio of transmission {listed(rotors)} are not read, because each has several "
                "joints or none of the file; robot.with_armature(rotor inertia, gear ratio) adds them"
            )
        self.zero: dict[str, list[str]] = {}  # kind of a limit that is 0 -> joints

    def _imply_world(self, root: Any) -> bool:
        """Return whether the base is an undefined link "world", as in Drake's files: some joint has it as its
        parent.
        """
        parents = {parent.get("link") for parent in root.iterfind("joint/parent")}
        if self.options.floating_base or WORLD not in parents or WORLD in self.link_elements:
            return False
        self.link_elements[WORLD] = root.makeelement("link", name=WORLD)
        return True

    def remarks(self) -> Iterator[str]:
        """Yield the warnings about a robot that was read."""
        if self.implied:
            yield "link 'world' is not defined and taken for the base"
        yield from self.out_of_limits
        yield from self.left_out
        if self.zero:
            by_joints: dict[str, list[str]] = {}
            for kind, names in self.zero.items():
                by_joints.setdefault(_some(names), []).append(kind)
            limits = " and ".join(f"{' and '.join(kinds)} limit 0 of joint {some}" for some, kinds in by_joints.items())
            yield (
                f"{limits} is kept, so bounds=True holds such a joint; unlimited=True (--unlimited) reads it as no "
                "limit"
            )
        if text := _near_right_angles(self.rounding):
            yield text

    def robot(self) -> RobotTree:
        """Return the robot of the file. Raise RobotError with all errors that were found."""
        top, children = self._tree()
        if self.options.floating_base:
            self._link(top, -1, Joint(self._root_joint(), "floating"))
        else:
            self.frames.append(Frame(top, -1))
        self._walk(top, children)
        for text, name, kind, position in self.pinned:
            # if no joint moves, the limits are probably placeholders
            if kind_of(kind).turning and not self.links:
                self.errors.add(text, unlimited=True, code="DG-URDF-030")
            else:
                self.errors.add(text, lock={name: position}, code="DG-URDF-031")
        if not self.options.allow_unphysical:
            self._check_masses()
        if not self.links and not self.errors:
            self.errors.add(
                f"robot '{self.name}' has no moving joint on its fixed base", floating_base=True, code="DG-URDF-032"
            )
        constraints: tuple[Constraint, ...] = ()
        if not self.errors:
            with _RecordedError(self):
                constraints = self._close()
        if self.errors:
            raise self.errors.error()
        return RobotTree(
            self.name,
            tuple(self.links),
            vector3(self.options.gravity),
            rounding=self.rounding.largest_correction,
            frames=tuple(self.frames),
            constraints=constraints,
        )

    def _close(self) -> tuple[Constraint, ...]:
        """Return the loops of the file, and add their frames."""
        places = {frame.name: frame for frame in self.frames}
        places |= {link.name: Frame(link.name, i) for i, link in enumerate(self.links)}
        constraints = []
        for closure in self.closures:
            first, second = closure.frames(places)
            if first.link == second.link:
                self.left_out.append(f"loop '{closure.name}' is between places of one link and is not read")
                continue
            for frame in (first, second):
                if frame.name in places:
                    raise RobotError(
                        f"loop '{closure.name}' needs the name '{frame.name}' for a frame, which a link has; expected "
                        "another name for the loop",
                        code="DG-URDF-033",
                    )
                places[frame.name] = frame
                self.frames.append(frame)
            constraints.append(closure.constraint)
        if constraints:
            names = listed([f"'{constraint.frame[:-2]}'" for constraint in constraints])
            self.left_out.append(
                f"loop {names} is read: constrained functions, such as constrained_forward_dynamics, hold it; all "
                "others see the open tree"
            )
        return tuple(constraints)

    def _tree(self) -> tuple[str, dict[str, list[str]]]:
        """Return the root link, and the joints below each link. Raise RobotError if they do not form a tree."""
        if not self.link_elements:
            raise RobotError("has no <link>; expected at least one", code="DG-URDF-034")
        unknown = [name for name in self.options.lock if name not in self.joint_elements]
        if unknown:
            near = nearest(unknown[0], self.joint_elements)
            raise RobotError(
                f"lock names joint {_some(unknown)}{near}, which the file does not define", code="DG-URDF-035"
            )
        children: dict[str, list[str]] = {name: [] for name in self.link_elements}
        above: dict[str, str] = {}
        for name, element in self.joint_elements.items():
            with _RecordedError(self):
                parent, child = (self._end(element, name, end) for end in ("parent", "child"))
                if child in above:
                    raise RobotError(
                        f"link '{child}' is the child of joints '{above[child]}' and '{name}': a loop; expected a tree",
                        code="DG-URDF-036",
                    )
                above[child] = name
                children[parent].append(name)
        if self.errors:
            raise self.errors.error()
        roots = [name for name in self.link_elements if name not in above]
        if not roots:
            raise RobotError(
                f"the joints {_some(self.joint_elements)} form a loop; expected a tree with one root link",
                code="DG-URDF-037",
            )
        if len(roots) > 1:
            raise RobotError(f"has {len(roots)} root links ({_some(roots)}); expected one", code="DG-URDF-038")
        return roots[0], children

    def _end(self, element: Any, joint: str, end: str) -> str:
        """Return the name of the link at one end of a joint, <parent> or <child>."""
        child = only(element, end, f"joint '{joint}'")
        name = None if child is None else child.get("link")
        if not name:
            raise RobotError(f"joint '{joint}' has no <{end} link=>", code="DG-URDF-039")
        if name not in self.link_elements:
            free = ", as the base that floating_base=True frees" if name == WORLD and end == "parent" else ""
            raise RobotError(
                f"joint '{joint}' has {end} link '{name}', which the file does not define{free}", code="DG-URDF-040"
            )
        return str(name)

    def _root_joint(self) -> str:
        """Return a name for the floating joint that no joint of the file has."""
        name, k = ROOT_JOINT, 1
        while name in self.joint_elements:
            name, k = f"{ROOT_JOINT}_{k + 1}", k + 1
        return name

    def _walk(self, top: str, children: dict[str, list[str]]) -> None:
        """Visit all links depth first, so that a chain's links are numbered consecutively."""
        seen = set()
        stack = [_VisitedLink(top, None, len(self.links) - 1, np.eye(3), np.zeros(3))]
        while stack:
            visited = stack.pop()
            seen.add(visited.name)
            if visited.joint is not None:
                with _RecordedError(self):
                    self._cross_joint(visited, visited.joint)
            for below in reversed(children[visited.name]):
                turn, shift = np.eye(3), np.zeros(3)
                with _RecordedError(self):
                    turn, shift = origin_of(self.joint_elements[below], f"joint '{below}'", self.rounding)
                rotation = self.rounding.rotation(visited.rotation @ turn, f"joint '{below}'")
                translation = visited.rotation @ shift + visited.translation
                child = self.joint_elements[below].find("child").get("link")
                stack.append(_VisitedLink(child, below, visited.owner, rotation, translation))
        unreached = [name for name in self.link_elements if name not in seen]
        if unreached:
            raise RobotError(
                f"links {_some(unreached)} form a loop away from the root '{top}'; expected a tree", code="DG-URDF-041"
            )

    def _cross_joint(self, visited: _VisitedLink, name: str) -> None:
        """Continue behind a joint: a moving joint begins a link, and the link behind a fixed joint is merged."""
        element = self.joint_elements[name]
        kind = attribute(element, "type", f"joint '{name}'")
        mimic = None if kind == "fixed" else self._followed(name, kind)
        held = mimic if isinstance(mimic, float) else self._locked_position(element, name, kind, mimic)
        if held is not None:
            self._move_by_locked_joint(visited, element, name, kind, held)
            kind = "fixed"
        if kind != "fixed":
            joint = self._joint(element, name, kind, visited)
            if isinstance(mimic, Mimic):
                joint = replace(joint, mimic=mimic)
            self._link(visited.name, visited.owner, joint)
            visited.owner, visited.rotation, visited.translation = len(self.links) - 1, np.eye(3), np.zeros(3)
        else:
            self._frame(visited)
            if visited.owner >= 0:
                self._merge(visited)

    def _frame(self, visited: _VisitedLink) -> None:
        """Add a frame with the name of a link that is fixed to another one."""
        pose = matrix3(visited.rotation), vector3(without_noise(visited.translation))
        self.frames.append(Frame(visited.name, visited.owner, *pose))

    def _followed(self, name: str, kind: str) -> Mimic | float | None:
        """Return how a moving joint follows another one, or the position where it is locked; 0 if only locking accepts
        it.
        """
        _check_type(name, kind)
        try:
            mimic = followed(name, self.joint_elements, self.options.lock)
        except NoLeader as fault:
            self.errors.add(str(fault), lock={name: fault.at}, code="DG-URDF-042")
            return fault.at
        if isinstance(mimic, Mimic) and kind not in single_kinds():
            raise RobotError(
                f"joint '{name}' is {kind} and mimics another; expected one of {', '.join(single_kinds())}",
                code="DG-URDF-043",
            )
        return mimic

    def _locked_position(self, element: Any, name: str, kind: str, mimic: Mimic | None) -> float | None:
        """Return the position at which a moving joint is locked, by the option or because only one position is
        possible.
        """
        if kind == "fixed" or mimic is not None:
            return None
        if name in self.options.lock:
            self._check_locked(element, f"joint '{name}'", kind, self.options.lock[name])
            return self.options.lock[name]
        where = f"joint '{name}'"
        limit = only(element, "limit", where)
        if kind_of(kind).limited and limit is not None and limit.get("lower") and limit.get("upper"):
            position, upper = (number(limit, key, where, infinite=True) for key in ("lower", "upper"))
            if position != upper or (self.options.unlimited and kind_of(kind).turning):
                return None
            text = f"{where} has limits [{position}, {upper}]; expected lower < upper"
        else:
            return None
        self.pinned.append((text, name, kind, position))
        return position

    def _check_locked(self, element: Any, where: str, kind: str, position: float) -> None:
        """Record a position outside the joint's limits, such as one in degrees."""
        if not kind_of(kind).limited:
            return
        with suppress(RobotError):  # limits that cannot be read do not matter here
            limit = only(element, "limit", where)
            if limit is None:
                return
            lower, upper = (number(limit, key, where, infinite=True) for key in ("lower", "upper"))
            if lower < upper and not lower <= position <= upper:
                unit, _ = kind_of(kind).units
                self.out_of_limits.append(
                    f"{where} is held at {position:g} {unit}, beyond its limits [{lower:g}, {upper:g}]"
                )

    def _move_by_locked_joint(self, visited: _VisitedLink, element: Any, name: str, kind: str, position: float) -> None:
        """Move to the pose of the link below a locked joint."""
        if not kind_of(kind).single:
            raise RobotError(
                f"joint '{name}' is {kind} and has no single position to lock it at; make it fixed in the file",
                code="DG-URDF-044",
            )
        axis = self._axis(element, f"joint '{name}'")
        if kind_of(kind).sliding:
            visited.translation = visited.translation + visited.rotation @ axis * position
            return
        turn = self.rounding.about_axis(axis, position, f"joint '{name}'")
        visited.rotation = self.rounding.rotation(visited.rotation @ turn, f"joint '{name}'")

    def _joint(self, element: Any, name: str, kind: str, visited: _VisitedLink) -> Joint:
        """Return a moving joint with its pose, axis, limits, damping and friction."""
        where = f"joint '{name}'"
        has_axis, limited = kind_of(kind).has_axis, kind_of(kind).limited
        axis = np.array([0.0, 0.0, 1.0]) if not has_axis else self._axis(element, where)
        limit = only(element, "limit", where)
        lower, upper = (None, None) if not limited else self._range(element, limit, name, kind)
        most: dict[str, float | None] = {}
        for key in ("velocity", "effort"):
            value = None if limit is None or limit.get(key) is None else number(limit, key, where, infinite=True)
            if value == math.inf or (value == 0.0 and self.options.unlimited):
                value = None
            if value == 0.0 and element.find("mimic") is None:
                self.zero.setdefault(key, []).append(name)
            if value is not None and value < 0.0:
                if not self.options.unlimited:
                    self.errors.add(
                        f"{where} has a negative {key} limit ({value:g})", unlimited=True, code="DG-URDF-045"
                    )
                value = None
            most[key] = value
        return Joint(
            name,
            kind,
            matrix3(visited.rotation),
            vector3(visited.translation),
            vector3(axis),
            lower=lower,
            upper=upper,
            velocity=most["velocity"],
            effort=most["effort"],
            damping=self._resistance(element, where, "damping"),
            armature=self.armatures.get(name, 0.0),
            friction=self._resistance(element, where, "friction"),
        )

    def _range(self, element: Any, limit: Any, name: str, kind: str) -> tuple[float | None, float | None]:
        """Return the position limits, None if the joint has none.

        Missing or unusable limits are recorded as an error, except with `unlimited` and for mimic joints.
        """
        where = f"joint '{name}'"
        if limit is None or limit.get("lower") is None or limit.get("upper") is None:
            text = f"{where} is {kind} but has no <limit lower= upper=>"
        else:
            lower, upper = (number(limit, key, where, infinite=True) for key in ("lower", "upper"))
            if lower < upper and math.isfinite(upper - lower):
                return lower, upper
            if (lower, upper) == (-math.inf, math.inf):
                return None, None
            text = f"{where} has limits [{lower}, {upper}]; expected lower < upper"
        if element.find("mimic") is not None:
            return None, None
        if kind_of(kind).sliding:
            text += " in m"
        if not self.options.unlimited:
            self.errors.add(text, unlimited=True, code="DG-URDF-046")
        return None, None

    def _resistance(self, element: Any, where: str, name: str) -> float:
        """Return the damping or friction of a joint, 0 if it is left out."""
        dynamics = only(element, "dynamics", where)
        value = 0.0 if dynamics is None or not dynamics.get(name) else number(dynamics, name, where)
        if self.options.ignore_friction if name == "friction" else not self.options.damping:
            return 0.0
        if value < 0.0 and name == "friction":
            self.errors.add(
                f"{where} has friction {value:g}; expected 0 or more", ignore_friction=True, code="DG-URDF-047"
            )
            return 0.0
        if value < 0.0:
            raise RobotError(
                f"{where} has damping {value:g}; expected 0 or more, or damping=False to leave it out",
                code="DG-URDF-048",
            )
        return value

    def _axis(self, element: Any, where: str) -> np.ndarray:
        """Return the unit vector of a joint's axis; (1, 0, 0) if the file has none, as URDF defines."""
        child = only(element, "axis", where)
        axis = np.array([1.0, 0.0, 0.0]) if child is None else numbers(child, "xyz", where, 3)
        if float(np.linalg.norm(axis)) < 1e-9:
            raise RobotError(
                f"{where} has axis {axis.tolist()}; expected a direction that is not zero", code="DG-URDF-049"
            )
        return self.rounding.axis(axis, where)

    def _link(self, name: str, owner: int, joint: Joint) -> None:
        """Add a moving link with its mass, center of mass and inertia; zeros if it only carries a frame."""
        mass, com, inertia = MASSLESS
        with _RecordedError(self):
            inertial = only(self.link_elements[name], "inertial", f"link '{name}'")
            if inertial is not None:
                values = self._mass_distribution(inertial, f"link '{name}'")
                mass, com, inertia = values[0], vector3(values[1]), matrix3(values[2])
        self.links.append(Link(name, owner, joint, mass, com, inertia))

    def _merge(self, visited: _VisitedLink) -> None:
        """Merge the body of a fixed link into the moving link that carries it."""
        with _RecordedError(self):
            inertial = only(self.link_elements[visited.name], "inertial", f"link '{visited.name}'")
            if inertial is None:
                return
            mass, com, inertia = self._mass_distribution(inertial, f"link '{visited.name}'")
            com = visited.rotation @ com + visited.translation
            inertia = visited.rotation @ inertia @ visited.rotation.T
            self.links[visited.owner] = self.links[visited.owner].joined(mass, vector3(com), matrix3(inertia))

    def _mass_distribution(self, inertial: Any, where: str) -> tuple[float, np.ndarray, np.ndarray]:
        """Return mass, center of mass (3,) and inertia (3, 3) about it, in the link's axes, from an <inertial>
        element.
        """
        mass_element, inertia_element = only(inertial, "mass", where), only(inertial, "inertia", where)
        if mass_element is None:
            raise RobotError(f"{where} has an <inertial> without <mass value=>", code="DG-URDF-050")
        if inertia_element is None:
            raise RobotError(f"{where} has an <inertial> without <inertia ixx= ... izz=>", code="DG-URDF-051")
        mass = number(mass_element, "value", where)
        if mass < 0.0 and not self.options.allow_unphysical:
            self.errors.add(
                f"{where} has mass {mass:g} kg; expected 0 or more", allow_unphysical=True, code="DG-URDF-052"
            )
            self.unread = True
        xx, xy, xz, yy, yz, zz = (
            number(inertia_element, key, where) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        rotation, com = origin_of(inertial, where, self.rounding)
        return mass, com, rotation @ inertia @ rotation.T

    def _check_masses(self) -> None:
        """Check that bodies are physical and that a massless link moves some mass below it.

        Massless links connect the axes of a joint that has several.
        """
        moved = self._moves_mass()
        if self.links and not any(moved) and not self.unread:
            self.errors.add(
                "no link that moves has a mass, so the file has no dynamics; its frames, Jacobians and inverse "
                "kinematics can be used",
                allow_unphysical=True,
                code="DG-URDF-053",
            )
            return
        followed = {
            link.joint.mimic.joint for link, mass in zip(self.links, moved, strict=True) if link.joint.mimic and mass
        }
        for i in reversed(range(len(self.links))):
            link = self.links[i]
            reported = self.unread and link.mass < 0.0
            if (link.mass != 0.0 or np.any(link.inertia)) and not reported:
                try:
                    check_inertia(link.name, link.mass, link.com, link.inertia)
                except RobotError as error:
                    self.errors.add(str(error), allow_unphysical=True, code="DG-URDF-054")
            if not self.unread and not moved[i] and link.joint.mimic is None and link.joint.name not in followed:
                text = f"link '{link.name}' moves but has no mass, nor has any link beyond it; expected an <inertial>"
                if link.joint.has_quaternion:
                    self.errors.add(text, code="DG-URDF-055")
                else:
                    self.errors.add(text, lock={link.joint.name: 0.0}, code="DG-URDF-056")

    def _moves_mass(self) -> list[bool]:
        """Return, for each link, whether it or a link below it has a mass or an inertia."""
        moved = [link.mass != 0.0 or bool(np.any(link.inertia)) for link in self.links]
        for i, link in reversed(list(enumerate(self.links))):
            if link.parent >= 0:
                moved[link.parent] |= moved[i]
        return moved


class _RecordedError:
    """Context that records a RobotError which no option accepts, so that reading continues."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, RobotError):
            return False
        self._reader.errors.add(str(error), code="DG-URDF-057")
        self._reader.unread = True
        return True


def _check_type(name: str, kind: str) -> None:
    if kind not in KINDS:
        raise RobotError(
            f"joint '{name}' has type '{kind}'; supported: {', '.join(KINDS)}, fixed, {', '.join(PARTS)}",
            code="DG-URDF-058",
        )


def _named(root: Any, tag: str) -> dict[str, Any]:
    """Return the elements with a tag by their names. Raise RobotError if a name is repeated."""
    elements: dict[str, Any] = {}
    for element in root.findall(tag):
        name = element.get("name")
        if not name:
            raise RobotError(f"line {element.sourceline}: a <{tag}> has no name", code="DG-URDF-059")
        if name in elements:
            raise RobotError(f"line {element.sourceline}: a second <{tag}> is named '{name}'", code="DG-URDF-060")
        elements[name] = element
    return elements


def _some(names: Any) -> str:
    names = sorted(names)
    shown = ", ".join(f"'{name}'" for name in names[:4])
    return shown + (", ..." if len(names) > 4 else "")
