"""Links whose operations fail, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dynagate.host import DeviceLink
from dynagate.host.links import DeviceError


def failing(patch: pytest.MonkeyPatch, kind: type[DeviceLink], at: int) -> list[DeviceLink]:
    """Let one operation of the links of a kind fail, counted from the first one, and return the links that were used.

    patch: what replaces the methods of the kind.
    """
    links: list[DeviceLink] = []
    left = iter(range(at, 0, -1))

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(link: DeviceLink, *args: Any) -> Any:
            links.append(link)
            if next(left, 0) == 1:
                raise DeviceError("the cable is out")
            return real(link, *args)

        return operation

    for name in ("read_register", "write_register", "reset", "write", "read", "carry"):
        patch.setattr(kind, name, counted(getattr(kind, name)))
    return links


def check_closed_on_failure(patch: pytest.MonkeyPatch, kind: type[DeviceLink], opened: Callable[[], Any]) -> int:
    """Open a device again and again, with another operation of its link that fails each time, and check that the link
    is closed. Return how many operations an opening takes."""
    at = 0
    while True:
        device, failure = None, ""
        with patch.context() as broken:
            links = failing(broken, kind, at + 1)
            try:
                device = opened()
            except DeviceError as error:
                failure = str(error)
        if device is not None:
            device.close()
            return at
        assert "the cable is out" in failure
        assert links[-1].closed, f"the link stays open after operation {at}"
        at += 1
