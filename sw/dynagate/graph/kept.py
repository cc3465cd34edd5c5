"""The graphs that were traced last: what asks for one again, under the same options, has it without a second trace."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from dynagate.base.forks import renew_in_child
from dynagate.graph.graph import Graph

MOST = 200_000
"""Operations of all that are kept together, some 100 MB: a graph of more is not."""


class Kept:
    """Graphs by what they were traced from; the least recently used ones are dropped first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._graphs: OrderedDict[Hashable, tuple[object, Graph]] = OrderedDict()
        self._lock = threading.Lock()
        renew_in_child(self, "_lock")

    def graph(self, key: Hashable, source: object, make: Callable[[], Graph]) -> Graph:
        """The graph of a key, made on first use. source: what has no hash, and must be the very same object."""
        with self._lock:
            kept = self._graphs.pop(key, None)
            if kept is not None and kept[0] is source:
                self._graphs[key] = kept
                return kept[1]
        graph = make()
        with self._lock:
            self._graphs[key] = source, graph
            count = sum(len(graph) for _, graph in self._graphs.values())
            while count > self._most:
                count -= len(self._graphs.popitem(last=False)[1][1])
        return graph
