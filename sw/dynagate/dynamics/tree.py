"""The kinematic tree of a robot, with passes that run link by link on scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynagate.base.caching import Cache
from dynagate.base.naming import scope
from dynagate.dynamics.links import Links, LinkStep, PassStep, TreeStep
from dynagate.dynamics.model import Model
from dynagate.dynamics.spatial import Array, Scalar
from dynagate.robot.model import Robot


class Tree(Model, Links):
    """A robot to run algorithms on: its constants (`Model`), and passes over its links (`Links`)."""

    def configurations(self, q: Sequence[Scalar]) -> list[Sequence[Scalar]]:
        return [q[part] for _, part, _ in self.robot.slices()]

    def velocities(self, values: Sequence[Scalar]) -> list[Sequence[Scalar]]:
        return [values[part.start : part.stop] for part in self.dofs]

    def rows(self, values: Array) -> list[Sequence[Scalar]]:
        return list(values)

    def vector(self, values: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        return [value for of_link in values for value in of_link]

    def map(self, step: LinkStep, *values: Sequence[Any]) -> list[Any]:
        return [step(link, *own) for link, *own in zip(self.each_link, *values, strict=True)]

    def recompute(self, step: LinkStep, *values: Sequence[Any]) -> list[Any]:
        return self.map(step, *values)

    def down(self, part: str, step: PassStep, *values: Sequence[Any]) -> list[Any]:
        passed: list[Any] = []
        results = []
        for i, (link, *own) in enumerate(zip(self.each_link, *values, strict=True)):
            with scope(part, f"link{i}"):
                p = self.parents[i]
                on, result = step(link, passed[p] if p >= 0 else None, *own)
                passed.append(on)
                results.append(result)
        return results

    def up(self, part: str, step: PassStep, *values: Sequence[Any], own: Sequence[Any] | None = None) -> list[Any]:
        """Run a pass from the leaves to the base.

        Args:
            part: Name of the algorithm, for recorded operations.
            step: The step of the pass.
            values: Values of the links, each with an entry per link.
            own: Initial value of each link, to which its children's messages are added. By default a leaf receives
                None.
        """
        below: list[Any] = [None for _ in self.links] if own is None else list(own)
        results: list[Any] = [None for _ in self.links]
        for i, (link, *of_link) in reversed(list(enumerate(zip(self.each_link, *values, strict=True)))):
            with scope(part, f"link{i}"):
                on, results[i] = step(link, below[i], *of_link)
                p = self.parents[i]
                if p >= 0:
                    below[p] = on if below[p] is None else below[p] + on
        return results

    @property
    def tree(self) -> Tree:
        return self

    def gather(self, part: str, step: TreeStep, by_link: Sequence[bool], *values: Any) -> tuple[Any, ...]:
        with scope(part):
            return step(self, *values)

    def broadcast(self, value: Any) -> list[Any]:
        return [value for _ in self.links]


_TREES: Cache[Robot, Tree] = Cache(most=16)


def tree_of(robot: Robot) -> Tree:
    """Return the tree of a robot with its own numbers. Callers share the tree and must not change it."""
    try:
        hash(robot)
    except TypeError:  # a link holds a list, which has no hash
        return Tree(robot)
    return _TREES.get(robot, lambda: Tree(robot))
