"""The headers of this folder, as files beside a C text that includes them, or in one text with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_OURS = re.compile(r'^#include "(dynagate_\w+\.(?:h|cuh))"[^\n]*\n', flags=re.M)


@cache
def header(name: str) -> str:
    """The text of a file of this folder. Raises FileNotFoundError."""
    return (files("dynagate.native") / name).read_text()


def with_headers(texts: Mapping[str, str]) -> dict[str, str]:
    """C texts by file name, and behind them the headers that they include, with those that these include."""
    whole, left = dict(texts), list(texts.values())
    while left:
        for name in _OURS.findall(left.pop(0)):
            if name not in whole:
                whole[name] = header(name)
                left.append(whole[name])
    return whole


def in_one_text(*names: str) -> str:
    """Headers with what they include in its place, once, for a text that is a file of its own."""
    return "".join(_expanded(names, set()))


def _expanded(names: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    for name in names:
        if name in seen:
            continue
        seen.add(name)
        before, *pairs = _OURS.split(header(name))
        yield before
        for included, text in zip(pairs[::2], pairs[1::2], strict=True):
            yield from _expanded((included,), seen)
            yield text
