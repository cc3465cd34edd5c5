"""A graph whose ports are known before its operations: a function that an earlier process traced and opened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from dynagate.graph.graph import Graph, Port

Kept = TypeVar("Kept", bound="KeptGraph")


class KeptGraph(Graph):
    """A graph that the cache knows by a key. Its operations are traced when something first reads them.

    Opening compiled code or the interpreter needs the ports and a few facts, not the operations.
    """

    key: str = ""
    """Key of what the cache keeps for the graph; "" for a graph that was made from another one."""

    @classmethod
    def of(cls: type[Kept], graph: Graph, key: str) -> Kept:
        """Return a traced graph that the cache knows.

        Args:
            graph: The graph.
            key: Key of the request that the graph was traced for.
        """
        kept = object.__new__(cls)
        kept.__dict__.update(graph.__dict__, key=key)
        return kept

    @classmethod
    def untraced(cls: type[Kept], facts: bytes, key: str, trace: Callable[[], Graph]) -> Kept:
        """Return a graph without operations.

        Args:
            facts: Result of `facts` for the same graph.
            key: Key of the request that the graph was traced for.
            trace: Function that returns the graph with its operations.

        Raises:
            ValueError, KeyError, TypeError: `facts` has another format.
        """
        content = json.loads(facts)
        sides = {side: tuple(_port(port) for port in content[side]) for side in ("inputs", "outputs")}
        numbers = {name: frozenset(map(int, content[name])) for name in ("zeros", "angles")}
        kept = object.__new__(cls)
        names = {name: str(content[name]) for name in ("name", "robot")}
        kept.__dict__.update(names, **sides, **numbers, forces=(), key=key, _trace=trace)
        return kept

    def facts(self) -> bytes:
        """Return the names, ports, zeros and angles as JSON."""
        sides = {side: [asdict(port) for port in getattr(self, side)] for side in ("inputs", "outputs")}
        numbers = {"zeros": sorted(self.zeros), "angles": sorted(self.angles)}
        return json.dumps({"name": self.name, "robot": self.robot, **sides, **numbers}).encode()

    def with_outputs(self, outputs: Iterable[Port], change: str) -> Graph:
        """Return the graph with other outputs of the same nodes.

        Args:
            outputs: The outputs.
            change: Name of the change, which becomes part of the key.
        """
        if not self.key:
            return super().with_outputs(outputs, change)
        kept = object.__new__(type(self))
        facts = {"zeros": self.zeros, "angles": self.angles}
        fields = {"name": self.name, "robot": self.robot, "inputs": self.inputs, "forces": self.forces}
        traced = {"nodes": self.nodes} if "nodes" in vars(self) else {"_trace": lambda: self}
        kept.__dict__.update(fields, **facts, **traced, outputs=tuple(outputs), key=f"{self.key}-{change}")
        return kept

    def __reduce__(self) -> Any:
        """Pickle as a plain graph."""
        return Graph, (self.name, self.robot, self.nodes, self.inputs, self.outputs, self.forces)

    if not TYPE_CHECKING:  # type checkers know the attribute

        def __getattr__(self, name: str) -> Any:
            if name == "nodes" and "_trace" in vars(self):
                self.__dict__["nodes"] = self._trace().nodes
                return vars(self)["nodes"]
            raise AttributeError(f"{type(self).__name__} has no '{name}'")


def _port(content: dict[str, Any]) -> Port:
    lists: dict[str, Any] = {name: tuple(content[name]) for name in ("shape", "nodes", "sizes")}
    vectors = tuple((start, stop) for start, stop in content["unit_vectors"])
    return Port(**{**content, **lists, "unit_vectors": vectors})
