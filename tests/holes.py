"""Holes in the stream to a simulated accelerator."""

from __future__ import annotations

from typing import Any

import pytest
from dynagate.host.sim_links import BeatQueue


def punch(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """From now on TKEEP leaves the first byte of beat `at` of each transfer out."""
    put = BeatQueue.put

    def with_hole(ring: BeatQueue, beats: Any, marks: Any, stream: Any) -> None:
        marks[at] |= 2
        put(ring, beats, marks, stream)

    monkeypatch.setattr(BeatQueue, "put", with_hole)
