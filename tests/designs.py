"""Content of design.json, changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynagate.design.files import content_hash


def resealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the hash that it should have."""
    return {**content, "hash": content_hash(content)}
