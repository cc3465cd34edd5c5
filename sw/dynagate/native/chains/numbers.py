"""Numbers of a serial chain that loops over its links read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.serial_chains.cfa import check_bodies, constants
from dynagate.dynamics.serial_chains.scans import check_serial
from dynagate.dynamics.tree import Tree
from dynagate.native.chains.steps import BLOCK_NUMBERS
from dynagate.robot import Robot

Array = npt.NDArray[Any]
FORCES = ("cfa", "cfa_refined")
"""Forms that compute constraint forces."""


@dataclass(frozen=True)
class ChainNumbers:
    """Numbers of a serial chain, as `steps` names them."""

    slides: Array
    """Whether each joint is prismatic, (links,)."""
    links: Array
    """Numbers of the links, (links, LINK_NUMBERS)."""
    blocks: Array
    """Numbers of the links for constraint forces, (links, BLOCK_NUMBERS); one row of zeros for other forms."""
    base: Array
    """Acceleration of the base less gravity, (6,), angular first."""
    rotors: bool
    """Whether a joint has an armature."""

    @classmethod
    def of(cls, robot: Robot, form: str) -> ChainNumbers:
        """Return the numbers of a robot.

        Args:
            robot: A serial chain of revolute and prismatic joints.
            form: "jsiia", "abia", "cfa" or "cfa_refined".

        Raises:
            RobotError: The robot branches, or has coupled joints, joints with several degrees of freedom, or massless
                links for constraint forces.
        """
        robot.check_uncoupled("forward dynamics of long chains")
        tree = Tree(robot, reduced=False)
        (check_bodies if form in FORCES else check_serial)(tree)
        blocks = _block_numbers(tree) if form in FORCES else np.zeros((1, BLOCK_NUMBERS))
        slides = np.array([tree.slides(i) for i in tree.links], dtype=np.uint8)
        base = np.array([0.0, 0.0, 0.0, *tree.base_acceleration], dtype=np.float64)
        return cls(slides, _link_numbers(tree), blocks, base, any(a > 0.0 for a in tree.armature))

    @property
    def loses_digits(self) -> bool:
        """Whether constraint forces are up to 1e6 times the accelerations: joints slide or have rotors."""
        return self.rotors or bool(self.slides.any())


def _link_numbers(tree: Tree) -> Array:
    """Return the numbers of the links, (links, LINK_NUMBERS)."""
    rows = []
    for i, link in enumerate(tree.robot.links):
        mass, first, second = tree.inertias[i]
        upper = np.array(second, dtype=np.float64)[np.triu_indices(3)]
        armature = link.joint.armature
        pose = [*np.ravel(link.joint.rotation), *link.joint.translation]
        rows.append([*pose, mass, *first, *upper, armature, link.joint.damping, math.sqrt(armature)])
    return np.array(rows, dtype=np.float64)


def _block_numbers(tree: Tree) -> Array:
    """Return the numbers of the links for constraint forces, (links, BLOCK_NUMBERS)."""
    links = constants(tree)
    mobility, fixed, above = (np.array(part, dtype=np.float64) for part in (links.mobility, links.fixed, links.above))
    coupled = np.zeros_like(mobility)
    coupled[:-1] = mobility[:-1] @ fixed[1:].transpose(0, 2, 1)
    return np.concatenate([part.reshape(len(part), 36) for part in (mobility, above, coupled)], axis=1)
