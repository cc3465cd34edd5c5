"""Content of design.json and Verilog, changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord
from dynagate.design.files import FILE, content_hash, text_of, with_files
from dynagate.design.verilog_list import LIST, files_of, read_list
from dynagate.dynamics import TOGETHER


def resealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the hash that it should have."""
    return {**content, "hash": content_hash(content)}


def functions_of(text: str) -> dict[str, Any]:
    """Options of `build` for one function, or for several names with commas, one for each sample."""
    names = list(TOGETHER) if text == "all" else text.split(",")
    return {"function": names, "per_sample": True} if len(names) > 1 else {"function": text}


def verilog(top: Path) -> str:
    """The text of a module and its parts."""
    return "\n".join(path.read_text() for path in files_of(top))


def faulty(top: Path, folder: Path, old: str, new: str | Callable[[re.Match[str]], str], count: int = 0) -> Path:
    """The Verilog of a module and its parts in one file with some places changed, in a folder of its own."""
    changed, found = re.subn(old, new, verilog(top), count=count)
    assert found, f"nothing to change: {old}"
    place = folder / "faulty"
    place.mkdir()
    (place / top.name).write_text(changed)
    return place / top.name


def plant(top: Path, old: str, new: str, count: int = 0) -> None:
    """Changes places of a module and its parts where they lie."""
    changes = 0
    for path in files_of(top):
        text, found = re.subn(old, new, path.read_text(), count=count)
        path.write_text(text)
        changes += found
        if count and changes:
            break
    assert changes, f"nothing to change: {old}"


def relisted(folder: Path, design: DesignRecord[DatapathBody]) -> None:
    """Writes design.json anew, with the checksums of the Verilog that lies beside it."""
    names = (*read_list(folder), LIST)
    content = text_of(with_files(design, {name: (folder / name).read_bytes().decode() for name in names}))
    (folder / FILE).write_text(content)
