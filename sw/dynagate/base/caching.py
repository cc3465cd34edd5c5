"""In-memory caches for the whole package: thread-safe, limited in size, with keys that compare the objects
themselves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from dynagate.base.forks import renew_in_child

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Same:
    """A key that stands for one object: two keys are equal only if they hold the same object.

    The key keeps the object alive, so no other object can get its address.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


class Cache(Generic[Key, Value]):
    """Values by key. Those that were not requested for longest are dropped first.

    Threads and forked processes may share it. Two threads that request a missing value at once may both make it.

    Args:
        most: Largest total size of the values. A value that is larger is not kept.
        size: Returns the size of a value. By default each value counts one.
    """

    def __init__(self, most: int, size: Callable[[Value], int] = lambda value: 1) -> None:
        self._most, self._size, self._total = most, size, 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        renew_in_child(self, "_lock")

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made on first use. An error of `make` is raised, and nothing is kept then."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._total += self._size(value)
            while self._total > self._most:
                _, dropped = self._values.popitem(last=False)
                self._total -= self._size(dropped)
        return value
