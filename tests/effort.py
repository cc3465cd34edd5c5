"""Limits on work, counted in function calls: the same number on every machine, whatever else runs on it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooMuchWorkError(Exception):
    """The code under test made more function calls than the test allows."""


@contextmanager
def at_most_calls(limit: int) -> Iterator[list[int]]:
    """Stop the body with TooMuchWorkError after `limit` calls of functions, in Python or in C.

    Yields a list with one number: how many calls were made so far.
    """
    made = [0]

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            made[0] += 1
            if made[0] > limit:
                raise TooMuchWorkError(f"more than {limit} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield made
    finally:
        sys.setprofile(before)
