"""Options of a call that differ from their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynagate.base.arguments import equal


def changed_options(options: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Return the options that differ from their defaults. options: value and default, by name."""
    return {
        name: value
        for name, (value, default) in options.items()
        if value is not None and not (equal(value, default) and type(value) is type(default))
    }
