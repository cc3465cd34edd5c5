"""What stands in the templates of a module's bench, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dynagate.base.untrusted import plain_text
from dynagate.design.design import Design
from dynagate.design.files import bench_modules, bench_vectors_of
from dynagate.design.verilog_list import names_of
from dynagate.design.words import FIXED, FLOAT16, PER_SAMPLE, WORD
from dynagate.hw.bench.rounds import NONE, ROUNDS
from dynagate.hw.bench.subject import ACCELERATOR, DATAPATH, Subject, subjects
from dynagate.hw.units.float16 import BINARY16
from dynagate.hw.units.float32 import BINARY32

Template = Callable[[str], str]
_WORD = re.compile(r"\W", flags=re.ASCII)


class Counts(NamedTuple):
    """How many samples and operations on registers the vectors have."""

    samples: int
    operations: int


def values(subject: Subject, late: Sequence[int], counts: Counts, template: Template) -> dict[str, str]:
    """Texts by what stands for them. template: the text of one by its file's name."""
    design, longest = subject.design, max(subject.latencies)
    plain = {
        "module": subject.module,
        "hash": design.hash,
        "short_hash": design.hash[:16],
        "title": plain_text(design.title),
        "samples": str(counts.samples),
        "ii": str(design.ii),
        "latencies_text": _latencies_text(subject),
        "longest": str(longest),
        "shortest": str(min(subject.latencies)),
        "slack": str(subject.slack),
        "under_way": str(longest // design.ii + 2),
        "in_beats": str(subject.in_beats),
        "in_bits": str(subject.in_bits),
        "in_high": str(subject.in_bits - 1),
        "out_bits": str(subject.out_bits),
        "out_high": str(subject.out_bits - 1),
        "width_high": str(subject.in_bits - 2),
        "keep_high": str((subject.in_bits - 1) // 8 - 1),
        "needed_high": str(_needed(design) - 1),
        "out_beats": str(subject.longest_result),
        "lengths": ", ".join(map(str, subject.out_beats)),
        "none": f"{NONE:x}",
        "source_names": names_of(subject.tops),
        "source_names_in_make": names_of(subject.tops).replace("$", "$$"),
        "up": _up(subject),
        "vector_files": " ".join(name for name in bench_vectors_of(subject.module) if name != "reference.hex"),
        "others": _others(subject),
        "modules_table": _modules_table(design, late),
    }
    return {**plain, **_of_bench(subject, late, counts, template), **_of_rules(subject, plain, template)}


def _needed(design: Design) -> int:
    """Bytes of a sample's last beat until the end of its tag."""
    return 0 if design.axi is None else WORD // 8 * (design.axi.words.input % design.axi.lanes + 1)


def _up(subject: Subject) -> str:
    """From the bench's folder to the design's."""
    return "../" * (1 + subject.folder.count("/"))


def _others(subject: Subject) -> str:
    """The benches inside of this one's folder."""
    return " ".join(name for name in bench_modules(subject.design)[1:] if subject.module == DATAPATH)


def _latencies_text(subject: Subject) -> str:
    spans = [f"{low}" if not subject.slack else f"{low} to {low + subject.slack}" for low in subject.latencies]
    return ", ".join(f"{span} ({word(name)})" for span, name in zip(spans, subject.names, strict=True))


def _modules_table(design: Design, late: Sequence[int]) -> str:
    """A row for each module with a bench."""
    rows = []
    for each in subjects(design, late):
        place = "." if each.module == DATAPATH else f"`{each.module}`"
        cells = (f"`{each.module}`", place, each.in_bits, each.in_beats, each.out_bits, each.longest_result)
        rows.append(f"| {' | '.join(map(str, cells))} | {_latencies_text(each)} |")
    return "\n".join(rows)


def _of_bench(subject: Subject, late: Sequence[int], counts: Counts, template: Template) -> dict[str, str]:
    """Of bench.v."""
    design, sink, ends = subject.design, subject.design.output, len(subject.names)
    longest, low = max(subject.latencies), sink.overflow + len(sink.scopes)
    integers = {
        "SAMPLES": counts.samples,
        "ROUNDS": ROUNDS,
        "OPERATIONS": counts.operations,
        "IN_BITS": subject.in_bits,
        "OUT_BITS": subject.out_bits,
        "IN_BEATS": subject.in_beats,
        "OUT_BEATS": subject.longest_result,
        "II": design.ii,
        "ENDS": ends,
        "OVERFLOW": sink.overflow,
        "SCOPES": len(subject.scopes),
        "LONGEST": longest,
        "SLACK": subject.slack,
        "RESETS": 1 + (subject.module == ACCELERATOR),
    }
    names = ", ".join(f"LATE_{k} = {more}" if k else f"LATE = {more}" for k, more in enumerate(late))
    parameters = [
        f"  localparam [63:0] HASH = 64'h{design.hash[:16]};",
        f"  localparam [31:0] NONE = 32'h{NONE:x};",
        *(f"  localparam integer {name} = {value};" for name, value in integers.items()),
        f"  localparam integer {names};",
    ]
    arrays = [
        *(f"    latencies[{k}] = {value};" for k, value in enumerate(subject.latencies)),
        *(f"    lengths[{k}] = {value};" for k, value in enumerate(subject.out_beats)),
    ]
    counted = [(f"samples of {word(name)}", f"seen[{k}]") for k, name in enumerate(subject.names)]
    counted += [(f"overflows in {word(name)}", f"scopes[{k}]") for k, name in enumerate(subject.scopes)]
    reads = []
    if subject.module != DATAPATH:
        reads.append('    $readmemh("registers.hex", operations);')
        counted.append(("writes of registers", "writes"))
    flags = template(f"flags_{subject.module if subject.module == ACCELERATOR else DATAPATH}.v")
    if subject.module == ACCELERATOR:
        counted += [("reads of registers", "reads"), ("operations that registers refused", "refusals")]
        declared, set_up = _unusable(subject)
        parameters += [f"  localparam integer NEEDED = {_needed(design)};", *declared]
        arrays += set_up
    end_of_round = "ends[rounds == 0 ? 0 : bounds[rounds-1]]"  # on AXI streams a round has samples of one function
    end_of_payload = f"payload[{low}+:{sink.bits - low}]"
    return {
        "parameters": "\n".join(parameters),
        "latencies": "\n".join(arrays),
        "end": "0" if ends == 1 else end_of_payload if subject.module == DATAPATH else end_of_round,
        "report": "\n".join(f'      $display("coverage {text}: %0d", {number});' for text, number in counted),
        "instance": template(f"instance_{subject.module}.v"),
        "operate": template(f"operate_{subject.module}.v"),
        "flags": flags.rstrip("\n"),
        "read": "".join(f"{line}\n" for line in reads),
    }


def _unusable(subject: Subject) -> tuple[list[str], list[str]]:
    """What says in a result on AXI streams that it cannot be used: declarations, and what is set at the start. A number
    is NaN, or a bit behind the integers is 1."""
    design = subject.design
    axi = design.axi
    assert axi is not None
    kind = {FIXED: None, FLOAT16: BINARY16}.get(axi.word, BINARY32)
    mask, value = (1, 1) if kind is None else ((1 << kind.bits) - 1, kind.nan)
    bits = subject.out_bits
    declared = [
        "  integer unusable_beats[0:ENDS-1], unusable_bits[0:ENDS-1];  // where a result says that it cannot be used",
        f"  localparam [OUT_BITS-1:0] UNUSABLE_MASK = {bits}'h{mask:x}, UNUSABLE = {bits}'h{value:x};",
    ]
    set_up = []
    functions = [design.of_function(each) for each in design.functions] or [design]
    for k, each in enumerate(functions):
        beat, bit = (0, 0) if kind else divmod(each.packed_output.bits, axi.lanes * WORD)
        set_up += [f"    unusable_beats[{k}] = {beat};", f"    unusable_bits[{k}] = {bit};"]
    return declared, set_up


def _of_rules(subject: Subject, plain: dict[str, str], template: Template) -> dict[str, str]:
    """Of rules.sv."""
    design, module = subject.design, subject.module
    is_shell = module == ACCELERATOR
    axi = design.axi
    several = len(subject.names) > 1
    extra = {
        "every_port": "    input wire [31:0] every,\n" if is_shell and design.ring else "",
        "last_out": f"out_beat == {subject.longest_result - 1}",
        "tlast_rule": "",
    }
    if is_shell and axi is not None:
        by_sample = axi.last == PER_SAMPLE
        if several:  # whose results differ in length
            extra["last_out"] = "m_axis_tlast" if by_sample else "1'b0"
        else:
            rule = "m_axis_tlast == last_out" if by_sample else "!m_axis_tlast || last_out"
            extra["tlast_rule"] = (
                "  // TLAST\n  tlast_ends_a_result: assert property (@(posedge clk) disable iff (in_reset)\n"
                f"    o__valid && !left_over |-> {rule});\n\n"
            )
    known = {**plain, **extra}

    def filled(name: str) -> str:
        return re.sub(r"<< (\w+) >>", lambda match: known[match[1]], template(name))

    is_bare = module == DATAPATH
    hidden = "|| every > 1" if design.ring and not is_bare else ""
    return {
        "rule_ports": filled(f"ports_{module}.sv").rstrip("\n"),
        "rule_wires": filled(f"wires_{module}.sv"),
        "hidden": hidden,
        "payload_rule": _payload_rule(subject),
        "hash_rule": ""
        if is_shell
        else f"  // the design is the one of design.json\n  hash_is_constant: assert property (@(posedge clk) "
        f"design_hash == 64'h{design.hash[:16]});\n\n",
        "space_rule_text": "; never more under way than there is space for" if is_bare else "",
        "space_rules": _SPACE if is_bare else "",
        "axi_rules": filled("axi_rules.sv").rstrip("\n") if is_shell else "",
    }


_SPACE = """  space_is_kept: assert property (@(posedge clk) disable iff (in_reset) pending <= UNDER_WAY + 8);

  // an initiation interval between two samples
  interval_is_kept: assert property (@(posedge clk) disable iff (in_reset) accepted |-> since_entry >= II);
"""


def _payload_rule(subject: Subject) -> str:
    """Of several functions only some bits of a result have values, and which ones `o__payload` says."""
    if len(subject.names) > 1 and subject.module == DATAPATH:
        return ""
    waits = "o__valid && !o__ready |=> $stable(o__payload)"
    return f"  payload_waits: assert property (@(posedge clk) disable iff (in_reset) {waits});\n"


def word(name: str) -> str:
    """A name as it may stand in Verilog's strings."""
    return _WORD.sub("_", name)
