"""Write the files that verify a design: for each module a self-checking bench in Verilog, one in cocotb, and rules in
SVA.

Except for the overflow delays and the number of vectors, their text follows from design.json. It is written again and
compared before a bench runs, so an edited bench is never run by mistake. The vectors follow from the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
from dynagate.base.ownership import with_head
from dynagate.base.storage import read_file
from dynagate.base.untrusted import plain_text
from dynagate.design.bodies import body_row
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.design.files import bench_folder, bench_texts_of, bench_vectors_of, checksum
from dynagate.hw.vectors.drawn import Vectors
from dynagate.hw.vectors.subject import Subject, subjects
from dynagate.hw.vectors.values import VectorCounts, values

COCOTB = "test_bench.py"
"""Template of the cocotb bench."""
_LATE = re.compile(r"^  localparam integer LATE = (\d{1,2}(?:, LATE_\d+ = \d{1,2})*);$", flags=re.M)
_HEX = re.compile(r"// [\x20-\x7e]*\n(?:[0-9a-f]*\n)*")


def in_bench(design: DesignRecord[Any]) -> DesignRecord[Any]:
    """Return the record as benches need it: with the streams of the shell around the hardware."""
    record: DesignRecord[Any] = body_row(design.body.kind).hardware().in_bench(design)
    return record


def bench_files(design: DesignRecord, late: Sequence[int], vectors: Mapping[str, Vectors]) -> dict[str, str]:
    """Return all files of a design's benches, by path in the design's folder.

    Args:
        design: Record of the design.
        late: Cycles by which overflow bits follow the values, for each function.
        vectors: Vectors by module.
    """
    files: dict[str, str] = {}
    for subject in subjects(design, late):
        own = vectors[subject.module]
        beats = own.inputs.size // own.inputs.shape[-1]
        results = own.expected.size // own.expected.shape[-1]
        counts = VectorCounts(len(own.ends), len(own.operations), beats, results, len(own.rounds))
        texts = {**bench_texts(subject, late, counts), **vector_texts(subject, own)}
        files |= {f"{subject.folder}/{name}": text for name, text in texts.items()}
    return files


def bench_texts(subject: Subject, late: Sequence[int], counts: VectorCounts) -> dict[str, str]:
    """Return the files of a module's bench without its vectors, by name."""
    filled = values(subject, late, counts, _template)
    texts = {name: _filled(_template(_source(name)), filled) for name in _texts_of(subject.design, subject.module)}
    return {
        name: text if name.endswith(".md") else with_head(name, text, subject.design.head)
        for name, text in texts.items()
    }


def vector_texts(subject: Subject, vectors: Vectors) -> dict[str, str]:
    """Return the vectors by file name: a heading that names the design, then a line of hexadecimal digits for each
    entry.
    """
    head = f"// vectors of design {subject.design.hash}\n"
    rows = [b"" if row is None else row.astype(">f8").tobytes() for row in vectors.reference]
    lines: dict[str, Iterable[str]] = {
        "inputs.hex": _lines(vectors.inputs, subject.in_bits),
        "expected.hex": _lines(vectors.expected, subject.out_bits),
        "ends.hex": [f"{end:x}" for end in vectors.ends],
        "masks.hex": _lines(vectors.masks, subject.out_bits),
        "rounds.hex": [f"{bound:x}" for bound in vectors.rounds],
        "registers.hex": [f"{operation.bits:016x}" for operation in vectors.operations],
        "reference.hex": [row.hex() for row in rows],
    }
    names = bench_vectors_of(subject.module)
    return {name: head + "".join(f"{line}\n" for line in lines[name]) for name in names}


def _lines(words: Words, bits: int) -> Iterator[str]:
    """Yield a line for each beat of words (samples, beats, words)."""
    digits = -(-bits // 4)
    for row in words.reshape(-1, words.shape[-1]):
        number = int.from_bytes(np.ascontiguousarray(row, "<u4").tobytes(), "little")
        yield f"{number:0{digits}x}"


def bench_faults(design: DesignRecord, folder: Path) -> Iterator[str]:
    """Yield a text for each bench file in a design's folder that is missing, edited or of another design.

    Args:
        design: Record of the design in that folder.
        folder: The folder.
    """
    for module in design.modules:
        yield from _faults_of(design, module, folder)


def _faults_of(design: DesignRecord, module: str, folder: Path) -> Iterator[str]:
    """Yield a text for each wrong file of one module's bench."""
    bench, vectors = bench_folder(design, module), bench_vectors_of(module)
    texts = _texts_of(design, module)
    place = folder / bench
    contents: dict[str, str] = {}
    for name in (*texts, *vectors):
        try:
            contents[name] = read_file(place / name).decode()
        except FileNotFoundError:
            yield f"{place / name} is missing"
        except (OSError, UnicodeDecodeError) as error:
            yield f"{place / name} cannot be read ({error})"
    if len(contents) < len(texts) + len(vectors):
        return
    for name in vectors:
        head = contents[name].partition("\n")[0]
        if head != f"// vectors of design {design.hash}":
            said = plain_text(head.rpartition(" ")[2][:16])
            yield f"{place / name} has vectors of design {said}; expected those of {design.hash[:16]}"
        elif not _HEX.fullmatch(contents[name]) or checksum(contents[name]) != design.files.get(f"{bench}/{name}"):
            yield f"{place / name} was edited or damaged"
    late = late_of(contents["bench.v"], design)
    expected = {} if late is None else _expected(design, module, late, contents)
    for name in texts:
        if contents[name] != expected.get(name):
            yield f"{place / name} was edited, or written by another version of dynagate"


def _expected(design: DesignRecord, module: str, late: Sequence[int], contents: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a bench as they follow from the design."""
    counts = VectorCounts(
        *(_rows(contents, name) for name in ("ends.hex", "registers.hex", "inputs.hex", "expected.hex", "rounds.hex"))
    )
    (subject,) = (each for each in subjects(design, late) if each.module == module)
    return bench_texts(subject, late, counts)


def _texts_of(design: DesignRecord, module: str) -> tuple[str, ...]:
    """Return the names of the text files of a module's bench."""
    return bench_texts_of(module, first=module == design.modules[0])


def _rows(contents: Mapping[str, str], name: str) -> int:
    """Return the number of vectors in a file."""
    return contents[name].count("\n") - 1 if name in contents else 0


def late_of(text: str, design: DesignRecord) -> list[int] | None:
    """Return the overflow delays that the text of a bench states; None if it states none.

    This is the only fact that neither design.json nor the vectors hold.
    """
    line = _LATE.search(text)
    late = [] if line is None else [int(part.rpartition(" ")[2]) for part in line[1].split(", ")]
    return late if len(late) == max(len(design.functions), 1) else None


def _source(name: str) -> str:
    """Return the template of a file: the cocotb bench is named after its module."""
    return COCOTB if name.startswith("test_") else name


def _template(name: str) -> str:
    """Return the text of a template."""
    return (resources(__package__) / "templates" / f"{name}.in").read_text(encoding="utf-8")


def _filled(text: str, filled: Mapping[str, str]) -> str:
    """Fill in the values of a template."""
    return re.sub(r"<< (\w+) >>", lambda match: filled[match[1]], text)
