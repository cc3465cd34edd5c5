"""Locks that work in a forked process.

A fork copies a lock that another thread holds, but not this thread, so nothing would release it in the child. Objects
with locks register here and get new locks in each child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_owners: weakref.WeakKeyDictionary[Any, tuple[str, ...]] = weakref.WeakKeyDictionary()


def renew_in_child(owner: Any, *attributes: str) -> None:
    """Replace these locks of an object in every process that is forked from this one.

    Owners that share a lock share the new one too.
    """
    _owners[owner] = attributes


def _renew() -> None:
    renewed: dict[int, Any] = {}
    for owner, attributes in list(_owners.items()):
        for name in attributes:
            old = getattr(owner, name)
            if id(old) not in renewed:
                # the old lock stays in the pair, so that no new one gets its address
                renewed[id(old)] = old, threading.RLock() if hasattr(old, "_is_owned") else threading.Lock()
            setattr(owner, name, renewed[id(old)][1])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
