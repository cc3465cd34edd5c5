"""design.json: the hash of its content, the checksums of the Verilog beside it, and reading it back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.errors import ArgumentError, Error
from dynagate.base.storage import read_file, read_json
from dynagate.design import consistent
from dynagate.design.design import Design, Streamed
from dynagate.design.verilog_list import LIST, ListError, is_verilog, read_list
from dynagate.fixedpoint.files import FORMATS

FORMAT_VERSION = 9
FILE = "design.json"
BITSTREAM = "bitstream.json"
"""Measurements of a bitstream that free tools made, in its folder."""
EXPECTED = "the folder that dynagate.build returned"
REBUILD = "build the design again"
SIMULATORS = ("icarus", "verilator")
"""Those that `dynagate verify` runs."""
BENCH = "tests"
"""Of the folder in a design's folder that verifies it."""
_TEXTS = ("bench.v", "main.cpp", "rules.sv", "Makefile", "verify.sh")
_VECTORS = ("inputs.hex", "expected.hex", "ends.hex", "masks.hex", "rounds.hex", "reference.hex")
MOST_FAULTS = 3
"""That an error tells: the others follow from them, as a rule."""


class DesignError(Error, ValueError):
    """A design that is missing, damaged, of another format version, or not the device's; the text names the file and
    what was expected."""


def sealed(design: Design) -> Design:
    """The design with its hash, as it is read from design.json."""
    content = design.to_json()
    return Design.from_json({**content, "hash": content_hash(content)})


def with_files(design: Design, texts: Mapping[str, str]) -> Design:
    """The design with `files`: the sha256 of each file beside it, by name. The hash does not cover them, because the
    Verilog holds the hash."""
    return replace(design, files={name: checksum(text) for name, text in texts.items()})


def text_of(design: Design) -> str:
    """What design.json holds."""
    return json.dumps(design.to_json(), indent=1) + "\n"


def content_hash(content: Mapping[str, Any]) -> str:
    """The sha256 of all but the hash itself and `files`."""
    covered = {key: value for key, value in content.items() if key not in ("hash", "files")}
    return _sha256(json.dumps(covered, sort_keys=True).encode())


def checksum(text: str) -> str:
    """The sha256 of a file's text, as `files` of a design has it."""
    return _sha256(text.encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def load(path: str | PathLike[str], *, bench: bool = True) -> Design:
    """The design of design.json, by its path or its folder's, checked against its hash; files that are listed in it
    and lie beside it are checked against their checksums. bench: those of its bench too. Raises DesignError."""
    path = Path(path) / FILE if os.path.isdir(path) else Path(path)
    if (path.parent / BITSTREAM).is_file() and not path.exists():
        raise DesignError(
            f"{path.parent} holds a bitstream of a processor's cores and no design; expected the folder of a program "
            "for them, which `dynagate build ROBOT --board BOARD` prints"
        )
    content = read_hashed(path, "design", EXPECTED, FORMAT_VERSION)
    try:
        design = Design.from_json(content)
    except ArgumentError as error:
        raise DesignError(f"{path} is not a design: {error}; {REBUILD}") from None
    if faults := list(islice(consistent.faults(design), MOST_FAULTS)):
        raise DesignError(f"{path} is not a design: {'; '.join(faults)}; {REBUILD}")
    check_files(path, design, bench=bench)
    return design


def check_files(path: Path, design: Streamed, *, bench: bool = True) -> None:
    """The files beside a design against their checksums. path: of what the design was read from. bench: also the files
    of its bench. Raises DesignError."""
    needed, verilog = {*top_files(design), *([LIST] if design.modules else [])}, set(verilog_files(design))
    if not needed <= set(design.files):
        raise DesignError(f"{path} lacks the checksums of {', '.join(sorted(needed))}; {REBUILD}")
    benches = bench_names(design)
    if unknown := set(design.files) - {LIST, FORMATS} - verilog - benches:
        raise DesignError(f"{path} has a checksum of {min(unknown)!r}, which no design has; {REBUILD}")
    for name, expected in design.files.items():
        if bench or name not in benches:
            _check_file(path.parent / name, expected)
    if design.modules:
        _check_list(path.parent, design)


def _check_list(folder: Path, design: Streamed) -> None:
    if not (folder / LIST).is_file():
        return
    try:
        listed = read_list(folder)
    except ListError as error:
        raise DesignError(str(error)) from None
    if listed != verilog_files(design):
        raise DesignError(f"{folder / LIST} does not list the files of design.json; {REBUILD}")


def read_hashed(path: Path, what: str, expected: str, version: int) -> dict[str, Any]:
    """The content of a JSON file of this format, checked against the hash in it. what, expected: the file, and what
    would do, for the text. Raises DesignError."""
    content = read_json(path, DesignError, what, expected)
    if content.get("format") != version:
        raise DesignError(f"{path} has format {content.get('format')!r}; expected {version}: {REBUILD}")
    if content.get("hash") != (actual := content_hash(content)):
        raise DesignError(
            f"{path} was changed or damaged: its content has hash {actual:.16}, not {content.get('hash')!s:.16}; "
            f"{REBUILD}"
        )
    return content


def verilog_files(design: Streamed) -> list[str]:
    """Names of the files with a design's Verilog, as it was read from design.json."""
    return [name for name in design.files if is_verilog(name, design.modules)]


def top_files(design: Streamed) -> list[str]:
    """Names of the files of the modules that a design has for certain."""
    return [f"{name}.v" for name in design.modules]


def bench_folder(design: Streamed, module: str) -> str:
    """Where the bench of a module lies in a design's folder."""
    return BENCH if module == design.modules[0] else f"{BENCH}/{module}"


def bench_texts_of(module: str, *, first: bool = True) -> tuple[str, ...]:
    """Names of the files of a bench, but for its vectors. first: whether the module is the design's first."""
    return (*_TEXTS, f"test_{module}.py", *(("README.md",) if first else ()))


def bench_vectors_of(module: str) -> tuple[str, ...]:
    """Names of the files with the vectors of a bench."""
    return (*_VECTORS, *(("registers.hex",) if module != "datapath" else ()))


def bench_names(design: Streamed) -> set[str]:
    """All files of a design's benches, by their place in its folder."""
    return {
        f"{bench_folder(design, module)}/{name}"
        for module in design.modules
        for name in (*bench_texts_of(module, first=module == design.modules[0]), *bench_vectors_of(module))
    }


def _check_file(path: Path, checksum: object) -> None:
    try:
        actual = _sha256(read_file(path))
    except FileNotFoundError:  # a host with a device needs no Verilog
        return
    except OSError as error:
        raise DesignError(f"cannot read {path} ({error.strerror}); {REBUILD}") from error
    if actual != checksum:
        raise DesignError(
            f"{path} was changed or damaged: its sha256 is {actual:.16}, expected {checksum!s:.16}; {REBUILD}"
        )


def is_whole(folder: Path, design: Design) -> bool:
    """Whether a folder holds this design and its Verilog, none of it damaged."""
    try:
        kept = load(folder)
    except DesignError:
        return False
    return kept.hash == design.hash and all((folder / name).is_file() for name in (*verilog_files(kept), LIST))
