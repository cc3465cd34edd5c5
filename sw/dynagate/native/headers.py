"""The C files of this folder: written next to a generated file that includes them, or expanded into it.

All of them are read when this module is imported. The Python generators agree with them on the layout of structures and
tables, so a running process must not combine its modules with C files of a later installation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files

_OURS = re.compile(r'^#include "(dynagate_\w+\.(?:h|cuh))"[^\n]*\n', flags=re.M)


_TEXTS = {
    path.name: path.read_text()
    for path in files("dynagate.native").iterdir()
    if path.name.endswith((".c", ".h", ".cuh"))
}


def header(name: str) -> str:
    """Return the text of a C file of this folder.

    Raises:
        FileNotFoundError: The folder had no such file when this module was imported.
    """
    if name not in _TEXTS:
        raise FileNotFoundError(f"dynagate.native has no file '{name}'")
    return _TEXTS[name]


def with_headers(texts: Mapping[str, str]) -> dict[str, str]:
    """Return generated texts by file name, followed by the headers that they include, directly or indirectly."""
    whole, left = dict(texts), list(texts.values())
    while left:
        for name in _OURS.findall(left.pop(0)):
            if name not in whole:
                whole[name] = header(name)
                left.append(whole[name])
    return whole


def in_one_text(*names: str) -> str:
    """Return headers as one text, each included header expanded once, for a file that includes nothing."""
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
