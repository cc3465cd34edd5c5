"""The folder of a design: design.json with a hash of its content, and checksums of the files next to it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.ownership import build_command
from dynagate.base.storage import read_file, read_json
from dynagate.design import consistent
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import FILE, REBUILD, AnyBody, DesignError, DesignRecord
from dynagate.design.program import ProgramBody
from dynagate.design.verilog_list import LIST, ListError, is_verilog, read_list
from dynagate.fixedpoint.models.files import FORMATS

FORMAT_VERSION = 12
OLD_PROGRAM = "program.json"
"""Name of the record of a program up to format 3 of programs."""
BITSTREAM = "bitstream.json"
"""Name of the file, in a bitstream's folder, with measurements by free tools."""
EXPECTED = "the folder that dynagate.build returned"
SIMULATORS = ("icarus", "verilator")
"""Simulators that `dynagate verify` can run."""
BENCH = "tests"
"""Name of the folder with the benches, inside the design's folder."""
_TEXTS = ("bench.v", "main.cpp", "rules.sv", "Makefile", "verify.sh")
_VECTORS = ("inputs.hex", "expected.hex", "ends.hex", "masks.hex", "rounds.hex", "reference.hex")
MOST_FAULTS = 3
"""Number of inconsistencies that an error lists, since further ones usually follow from them."""


def sealed(design: DesignRecord[AnyBody]) -> DesignRecord[AnyBody]:
    """Return the record with its hash, as it is read from design.json."""
    content = design.to_json()
    return DesignRecord.from_json({**content, "hash": content_hash(content)})


def with_files(design: DesignRecord[AnyBody], texts: Mapping[str, str]) -> DesignRecord[AnyBody]:
    """Return the record with `files`: the sha256 of each file next to it, by name.

    The hash does not cover them, because the Verilog holds the hash.
    """
    return replace(design, files={name: checksum(text) for name, text in texts.items()})


def text_of(design: DesignRecord[Any]) -> str:
    """Return the content of design.json for a record."""
    return json.dumps(design.to_json(), indent=1) + "\n"


def content_hash(content: Mapping[str, Any]) -> str:
    """Return the sha256 of a record without the hash itself and `files`."""
    covered = {key: value for key, value in content.items() if key not in ("hash", "files")}
    return _sha256(json.dumps(covered, sort_keys=True).encode())


def checksum(text: str) -> str:
    """Return the sha256 of a file's text, as in `files` of a design."""
    return _sha256(text.encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def load(path: str | PathLike[str], *, bench: bool = True) -> DesignRecord[Any]:
    """Read the record of a design and check it.

    Args:
        path: Path of design.json, or of its folder.
        bench: Whether to check the files of the bench too.

    Returns:
        The record. Its hash is right, its parts fit each other, and each file listed in it that lies next to it has the
        right checksum.

    Raises:
        DesignError: A file is missing, damaged, inconsistent, or of another format.
    """
    path = Path(path) / FILE if os.path.isdir(path) else Path(path)
    if not os.path.exists(path):
        _refuse_others(path.parent)
    content = read_hashed(path, "design", EXPECTED, FORMAT_VERSION)
    try:
        design = DesignRecord.from_json(content)
    except ArgumentError as error:
        raise DesignError(f"{path} is not a design: {error}; {REBUILD}", code="DG-DESIGN-004") from None
    if faults := list(islice(consistent.faults(design), MOST_FAULTS)):
        raise DesignError(f"{path} is not a design: {'; '.join(faults)}; {REBUILD}", code="DG-DESIGN-005")
    check_files(path, design, bench=bench)
    return design


def body_of(path: str | PathLike[str]) -> str | None:
    """Return the body that a folder's design.json names, unchecked; None if it names none."""
    path = Path(path) / FILE if os.path.isdir(path) else Path(path)
    try:
        body = read_json(path, DesignError, "design", EXPECTED).get("body")
    except DesignError:
        return "program" if os.path.isfile(path.parent / OLD_PROGRAM) else None
    return body if isinstance(body, str) else None


def load_datapath(path: str | PathLike[str], *, bench: bool = True) -> DesignRecord[DatapathBody]:
    """Read the record of a datapath, as `load`. Raise DesignError also if it is the record of a program."""
    return _of_body(load(path, bench=bench), DatapathBody, path)


def load_program(path: str | PathLike[str], *, bench: bool = True) -> DesignRecord[ProgramBody]:
    """Read the record of a program, as `load`. Raise DesignError also if it is the record of a datapath."""
    return _of_body(load(path, bench=bench), ProgramBody, path)


def _of_body(design: DesignRecord[Any], kind: type[AnyBody], path: str | PathLike[str]) -> DesignRecord[AnyBody]:
    if not isinstance(design.body, kind):
        raise DesignError(f"{os.fspath(path)} holds a {design.body.kind}; expected a {kind.kind}", code="DG-DESIGN-006")
    return design


def _refuse_others(folder: Path) -> None:
    """Raise DesignError if a folder without design.json holds something else of dynagate."""
    if os.path.isfile(folder / BITSTREAM):
        raise DesignError(
            f"{folder} holds a bitstream of a processor's cores and no design; expected the folder of a program "
            "for them, which `dynagate build ROBOT --board BOARD` prints",
            code="DG-DESIGN-007",
        )
    old = folder / OLD_PROGRAM
    if os.path.isfile(old):
        content = read_json(old, DesignError, "program", EXPECTED)
        raise DesignError(
            f"{old} was written by an earlier version of dynagate, which had no {FILE} for programs; "
            f"{REBUILD}{_command(content)}",
            code="DG-DESIGN-008",
        )


def check_files(path: Path, design: DesignRecord[Any], *, bench: bool = True) -> None:
    """Check the files of a design's folder against their checksums.

    Args:
        path: Where the design was read from.
        design: The record.
        bench: Whether to check the files of its bench too.

    Raises:
        DesignError: A file is missing, unexpected or changed.
    """
    needed, verilog = {*top_files(design), *([LIST] if design.modules else [])}, set(verilog_files(design))
    if not needed <= set(design.files):
        raise DesignError(f"{path} lacks the checksums of {', '.join(sorted(needed))}; {REBUILD}", code="DG-DESIGN-009")
    benches = bench_names(design)
    if unknown := set(design.files) - {LIST, FORMATS} - verilog - benches:
        raise DesignError(
            f"{path} has a checksum of {min(unknown)!r}, which no design has; {REBUILD}", code="DG-DESIGN-010"
        )
    for name, expected in design.files.items():
        if bench or name not in benches:
            _check_file(path.parent / name, expected)
    if design.modules:
        _check_list(path.parent, design)


def _check_list(folder: Path, design: DesignRecord) -> None:
    """Raise DesignError if files.f exists and does not list the design's Verilog."""
    if not (folder / LIST).is_file():
        return
    try:
        listed = read_list(folder)
    except ListError as error:
        raise DesignError(str(error), code="DG-DESIGN-011") from None
    if listed != verilog_files(design):
        raise DesignError(f"{folder / LIST} does not list the files of design.json; {REBUILD}", code="DG-DESIGN-012")


def read_hashed(path: Path, what: str, expected: str, version: int) -> dict[str, Any]:
    """Read a JSON file with a format version and a hash.

    Args:
        path: The file.
        what: Kind of the file, for the error.
        expected: The expected file, for the error.
        version: Expected format version.

    Returns:
        The content.

    Raises:
        DesignError: The file is missing, damaged, or of another version.
    """
    content = read_json(path, DesignError, what, expected)
    if content.get("format") != version:
        raise DesignError(
            f"{path} has format {content.get('format')!r}; expected {version}: {REBUILD}{_command(content)}",
            code="DG-DESIGN-013",
        )
    if content.get("hash") != (actual := content_hash(content)):
        raise DesignError(
            f"{path} was changed or damaged: its content has hash {actual:.16}, not {content.get('hash')!s:.16}; "
            f"{REBUILD}",
            code="DG-DESIGN-014",
        )
    return content


def _command(content: Mapping[str, Any]) -> str:
    """Return the command that builds a design of an older format again, if its record has what that takes."""
    robot, core = content.get("robot"), content.get("core")
    name = robot.get("name") if isinstance(robot, dict) else None
    pace = "--ii", content.get("ii")
    if isinstance(core, dict):
        pace = "--units", core.get("units")
    command = build_command(name, content.get("function"), f"{pace[0]} {pace[1]}" if type(pace[1]) is int else "")
    return f", for example `{command}` with its other options" if command else ""


def verilog_files(design: DesignRecord[Any]) -> list[str]:
    """Return the names of the files with a design's Verilog, from its record."""
    return [name for name in design.files if is_verilog(name, design.modules)]


def top_files(design: DesignRecord[Any]) -> list[str]:
    """Return the names of the files that a design's top modules always have."""
    return [f"{name}.v" for name in design.modules]


def bench_folder(design: DesignRecord[Any], module: str) -> str:
    """Return the folder of a module's bench inside the design's folder."""
    return BENCH if module == design.modules[0] else f"{BENCH}/{module}"


def bench_texts_of(module: str, *, first: bool = True) -> tuple[str, ...]:
    """Return the names of a bench's files without its vectors. `first` is True for the design's first module."""
    return (*_TEXTS, f"test_{module}.py", *(("README.md",) if first else ()))


def bench_vectors_of(module: str) -> tuple[str, ...]:
    """Return the names of the files with a bench's vectors."""
    return (*_VECTORS, *(("registers.hex",) if module != "datapath" else ()))


def bench_names(design: DesignRecord[Any]) -> set[str]:
    """Return all files of a design's benches, by their path in its folder."""
    return {
        f"{bench_folder(design, module)}/{name}"
        for module in design.modules
        for name in (*bench_texts_of(module, first=module == design.modules[0]), *bench_vectors_of(module))
    }


def _check_file(path: Path, checksum: object) -> None:
    """Raise DesignError if a file exists and its sha256 differs from the checksum."""
    try:
        actual = _sha256(read_file(path))
    except FileNotFoundError:  # a host with a device needs no Verilog
        return
    except OSError as error:
        raise DesignError(f"cannot read {path} ({error.strerror}); {REBUILD}", code="DG-DESIGN-015") from error
    if actual != checksum:
        raise DesignError(
            f"{path} was changed or damaged: its sha256 is {actual:.16}, expected {checksum!s:.16}; {REBUILD}",
            code="DG-DESIGN-016",
        )


def is_whole(folder: Path, design: DesignRecord[Any], others: Sequence[str] = ()) -> bool:
    """Return whether a folder holds this design with all its files undamaged, and further required files."""
    try:
        kept = load(folder)
        kept.body.check_folder(folder, kept)
    except DesignError:
        return False
    names = (*verilog_files(kept), *([LIST] if kept.modules else []), *others)
    return kept.hash == design.hash and all((folder / name).is_file() for name in names)
