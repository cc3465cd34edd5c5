"""What a design's folder holds to verify it: a self-checking bench in plain Verilog, one in cocotb, rules as SVA.

Their text follows from design.json alone but for the cycles by which overflow bits follow their values, so it can be
written again and compared: nobody runs a bench that somebody else has edited. The vectors follow from the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path

import numpy as np
from dynagate.base.untrusted import plain_text
from dynagate.design.design import Design, Stream
from dynagate.design.files import BENCH, BENCH_TEXTS, BENCH_VECTORS, checksum
from dynagate.design.payload import Words
from dynagate.hw.bench.vectors import Vectors

SIMULATORS = ("icarus", "verilator")
"""Those that `dynagate verify` runs."""
TO_RESULT = 2
"""Cycles from the one in which a result and its overflow bits are there until the output stream offers it."""
_LATE = re.compile(r"^  localparam integer LATE = (\d{1,2}(?:, LATE_\d+ = \d{1,2})*);$", flags=re.M)
_HEX = re.compile(r"// [\x20-\x7e]*\n(?:[0-9a-f]*\n)*")
_WORD = re.compile(r"\W", flags=re.ASCII)


def bench_files(design: Design, late: Sequence[int], vectors: Vectors) -> dict[str, str]:
    """Every file of a design's bench, by its place in the design's folder. late: of each function, the cycles by which
    overflow bits follow their values."""
    texts = {**bench_texts(design, late, len(vectors.inputs)), **vector_texts(design, vectors)}
    return {f"{BENCH}/{name}": text for name, text in texts.items()}


def bench_texts(design: Design, late: Sequence[int], count: int) -> dict[str, str]:
    """The files of a bench without its vectors, by name. count: of samples."""
    values = _values(design, late, count)
    return {name: _filled(_template(name), values) for name in BENCH_TEXTS}


def vector_texts(design: Design, vectors: Vectors) -> dict[str, str]:
    """The vectors as text, by name: a line of hexadecimal digits a sample, behind one that names the design."""
    head = f"// vectors of design {design.hash}\n"
    rows = [b"" if row is None else row.astype(">f8").tobytes() for row in vectors.reference]
    lines: dict[str, Iterable[str]] = {
        "inputs.hex": _lines(vectors.inputs, design.input),
        "expected.hex": _lines(vectors.expected, design.output),
        "ends.hex": [f"{end:x}" for end in vectors.ends],
        "masks.hex": _lines(vectors.masks, design.output),
        "reference.hex": [row.hex() for row in rows],
    }
    return {name: head + "".join(f"{line}\n" for line in each) for name, each in lines.items()}


def _lines(words: Words, stream: Stream) -> Iterator[str]:
    digits = -(-stream.bits // 4)
    for row in words:
        number = int.from_bytes(np.ascontiguousarray(row, "<u4").tobytes(), "little")
        yield f"{number:0{digits}x}"


def bench_faults(design: Design, folder: Path) -> Iterator[str]:
    """What is wrong with the bench in a design's folder, a text each: a file that is missing, edited or of another
    design. design: of that folder."""
    place = folder / BENCH
    contents: dict[str, str] = {}
    for name in (*BENCH_TEXTS, *BENCH_VECTORS):
        try:
            contents[name] = (place / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            yield f"{place / name} is missing"
        except (OSError, UnicodeDecodeError) as error:
            yield f"{place / name} cannot be read ({error})"
    if len(contents) < len(BENCH_TEXTS) + len(BENCH_VECTORS):
        return
    for name in BENCH_VECTORS:
        head = contents[name].partition("\n")[0]
        if head != f"// vectors of design {design.hash}":
            said = plain_text(head.rpartition(" ")[2][:16])
            yield f"{place / name} has vectors of design {said}; expected those of {design.hash[:16]}"
        elif not _HEX.fullmatch(contents[name]) or checksum(contents[name]) != design.files.get(f"{BENCH}/{name}"):
            yield f"{place / name} was edited or damaged"
    late = late_of(contents["bench.v"], design)
    count = contents["inputs.hex"].count("\n") - 1
    expected = {} if late is None else bench_texts(design, late, count)
    for name in BENCH_TEXTS:
        if contents[name] != expected.get(name):
            yield f"{place / name} was edited, or written by another version of dynagate"


def late_of(text: str, design: Design) -> list[int] | None:
    """The one thing that the text of a bench says and design.json does not; None where it does not."""
    line = _LATE.search(text)
    late = [] if line is None else [int(part.rpartition(" ")[2]) for part in line[1].split(", ")]
    return late if len(late) == max(len(design.functions), 1) else None


def _template(name: str) -> str:
    return (resources(__package__) / "templates" / f"{name}.in").read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"<< (\w+) >>", lambda match: values[match[1]], text)


def _values(design: Design, late: Sequence[int], count: int) -> dict[str, str]:
    """What stands in the templates, by name."""
    sink = design.output
    ends = [(function.name, function.latency) for function in design.functions]
    ends = ends or [(design.function, design.latency)]
    latencies = [latency + more + TO_RESULT for (_, latency), more in zip(ends, late, strict=True)]
    low = sink.overflow + len(sink.scopes)
    names = ", ".join(f"LATE_{k} = {more}" if k else f"LATE = {more}" for k, more in enumerate(late))
    integers = {
        "SAMPLES": count,
        "IN_BITS": design.input.bits,
        "OUT_BITS": sink.bits,
        "II": design.ii,
        "ENDS": len(ends),
        "OVERFLOW": sink.overflow,
        "SCOPES": len(sink.scopes),
        "LONGEST": max(latencies),
        "SHORTEST": min(latencies),
        "UNDER_WAY": max(latencies) // design.ii + 2,
    }
    parameters = [f"  localparam [63:0] HASH = 64'h{design.hash[:16]};"]
    parameters += [f"  localparam integer {name} = {value};" for name, value in integers.items()]
    parameters += [f"  localparam integer {names};"]
    counted = [(f"samples of {_word(name)}", f"seen[{k}]") for k, (name, _) in enumerate(ends)]
    counted += [(f"overflows in {_word(name)}", f"scopes[{k}]") for k, name in enumerate(sink.scopes)]
    report = [f'      $display("coverage {text}: %0d", {number});' for text, number in counted]
    cycles = [f"{value} ({_word(name)})" for (name, _), value in zip(ends, latencies, strict=True)]
    return {
        "parameters": "\n".join(parameters),
        "latencies": "\n".join(f"    latencies[{k}] = {value};" for k, value in enumerate(latencies)),
        "end": f"payload[{low}+:{sink.bits - low}]" if len(ends) > 1 else "0",
        "report": "\n".join(report),
        "hash": design.hash,
        "short_hash": design.hash[:16],
        "title": plain_text(design.title),
        "samples": str(count),
        "ii": str(design.ii),
        "latencies_text": ", ".join(cycles),
        "longest": str(max(latencies)),
        "in_bits": str(design.input.bits),
        "in_high": str(design.input.bits - 1),
        "out_high": str(sink.bits - 1),
        "shortest": str(min(latencies)),
        "under_way": str(max(latencies) // design.ii + 2),
        "turns": str(len(ends) if len(ends) > 1 else 0),
        "payload_rule": _payload_rule(design),
        "out_bits": str(sink.bits),
    }


def _payload_rule(design: Design) -> str:
    """Of several functions only some bits of a result have values, and which ones `o__payload` says."""
    if design.functions:
        return ""
    waits = "o__valid && !o__ready |=> $stable(o__payload)"
    return f"  payload_waits: assert property (@(posedge clk) disable iff (rst) {waits});\n"


def _word(name: str) -> str:
    """A name as it may stand in Verilog's strings."""
    return _WORD.sub("_", name)
