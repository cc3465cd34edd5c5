"""Values for the templates of a module's bench, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dynagate.base.untrusted import plain_text
from dynagate.design.design import DesignRecord
from dynagate.design.files import bench_vectors_of
from dynagate.design.program import ProgramBody
from dynagate.design.verilog_list import PLAIN, names_of
from dynagate.design.words import FIXED, PER_SAMPLE, WORD
from dynagate.hw.processor.compiler.self_test import FIRST_BLOCK
from dynagate.hw.processor.isa.shape import BLOCK_BITS, RESET_CYCLES
from dynagate.hw.rtl.regmap import REGISTERS
from dynagate.hw.units.floating import BINARY32
from dynagate.hw.vectors.broken import SampleFault, kinds_of
from dynagate.hw.vectors.rounds import NONE, ROUNDS
from dynagate.hw.vectors.subject import ACCELERATOR, DATAPATH, ROLLOUT, SELF_TEST, Subject, subjects

Template = Callable[[str], str]
"""Function from a template's name to its text."""
FULL_OF_CORES = 8
"""Cycles after which a waiting beat means that cores are full, and not the pause between packets."""
_WORD = re.compile(r"\W", flags=re.ASCII)


class VectorCounts(NamedTuple):
    """Number of entries in each file of vectors."""

    samples: int
    """Number of samples."""
    operations: int
    """Number of register accesses."""
    beats: int
    """Number of input beats."""
    results: int
    """Number of beats of expected results."""
    rounds: int
    """Number of rounds."""


def values(subject: Subject, late: Sequence[int], counts: VectorCounts, template: Template) -> dict[str, str]:
    """Return the text for each placeholder of the templates.

    Args:
        subject: Module of the bench.
        late: Cycles by which overflow bits follow the values, for each function.
        counts: Number of entries in the files of vectors.
        template: Function from a template's name to its text.
    """
    design, longest = subject.design, subject.longest
    plain = {
        "module": subject.module,
        "hash": design.hash,
        "short_hash": design.hash[:16],
        "title": plain_text(design.title),
        "described_by": "design.json",
        "samples": str(counts.samples),
        "ii": str(design.interval),
        "latencies_text": _latencies_text(subject),
        "longest": str(longest),
        "quiet": str(subject.quiet),
        "under_way": str(longest // design.interval + 2),
        "stored_beats": ", ".join(map(str, subject.stored_beats)),
        "in_beats": ", ".join(map(str, subject.in_beats)),
        "silent_beats": str(subject.silent_beats),
        "beats_of_sample": str(subject.in_beats[0]),
        "reset_round": str(_reset_round(subject)),
        "control": f"0x{REGISTERS['control'].address:X}",
        "few_rounds": str(ROUNDS),
        "in_bits": str(subject.in_bits),
        "in_high": str(subject.in_bits - 1),
        "out_bits": str(subject.out_bits),
        "out_high": str(subject.out_bits - 1),
        "width_high": str(subject.out_bits - 2),
        "keep_high": str((subject.out_bits - 1) // 8 - 1),
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


def _needed(design: DesignRecord) -> int:
    """Return the bytes of a sample's last beat up to the end of its tag."""
    return 0 if design.axi is None else WORD // 8 * (design.axi.words.input % design.axi.lanes + 1)


def _reset_round(subject: Subject) -> int:
    """Return the round before which a bench first resets the module in mid-stream, by its reset input.

    For cores, it follows the round that loads their program, which a reset keeps. In the strict style that reset
    clears the program, so it comes while the program is loaded for the first time.
    """
    body = subject.design.body
    return int(isinstance(body, ProgramBody) and body.shell is not None and body.shell.style == PLAIN)


def _up(subject: Subject) -> str:
    """Return the path from the bench's folder to the design's."""
    return "../" * (1 + subject.folder.count("/"))


def _others(subject: Subject) -> str:
    """Return the benches in folders inside this bench's folder."""
    first, *others = subject.design.modules
    return " ".join(name for name in others if subject.module == first)


def _latencies_text(subject: Subject) -> str:
    """Return the latencies of all ends as text."""
    each = zip(subject.latencies, subject.most, strict=True)
    spans = [f"{low}" if low == most else f"{low} to {most}" for low, most in each]
    return ", ".join(f"{span} ({word(name)})" for span, name in zip(spans, subject.names, strict=True))


def _modules_table(design: DesignRecord, late: Sequence[int]) -> str:
    """Return a table row for each module with a bench."""
    rows = []
    for each in subjects(design, late):
        place = "." if each.module == design.modules[0] else f"`{each.module}`"
        cells = (f"`{each.module}`", place, each.in_bits, each.in_beats[0], each.out_bits, each.longest_result)
        rows.append(f"| {' | '.join(map(str, cells))} | {_latencies_text(each)} |")
    return "\n".join(rows)


def _of_bench(subject: Subject, late: Sequence[int], counts: VectorCounts, template: Template) -> dict[str, str]:
    """Return the values for bench.v."""
    design, sink, ends = subject.design, subject.design.output, len(subject.names)
    integers = {
        "SAMPLES": counts.samples,
        "ROUNDS": counts.rounds,
        "FEW_ROUNDS": ROUNDS,
        "OPERATIONS": counts.operations,
        "IN_BITS": subject.in_bits,
        "OUT_BITS": subject.out_bits,
        "BEATS": counts.beats,
        "RESULT_BEATS": counts.results,
        "OUT_BEATS": subject.longest_result,
        "II": design.interval,
        "FULL": FULL_OF_CORES if subject.loads else design.interval,
        "ENDS": ends,
        "OVERFLOW": sink.overflow,
        "SCOPES": len(subject.scopes),
        "LONGEST": subject.longest,
        "QUIET": subject.quiet,
        "SILENCE": (max(subject.quiet, RESET_CYCLES) if subject.loads else subject.quiet + 4 * design.interval) + 32,
        "RESETS": 1 + (subject.module == ACCELERATOR),
        "RESET_ROUND": _reset_round(subject),
        "LOADS": int(subject.loads),
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
        *(f"    slacks[{k}] = {value};" for k, value in enumerate(subject.slacks)),
        *(f"    lengths[{k}] = {value};" for k, value in enumerate(subject.out_beats)),
        *(f"    beats_in[{k}] = {value};" for k, value in enumerate((*subject.in_beats, subject.silent_beats))),
        *(f"    stored[{k}] = {value};" for k, value in enumerate(subject.stored_beats)),
    ]
    counted = [(f"samples of {word(name)}", f"seen[{k}]") for k, name in enumerate(subject.names)]
    counted += [(f"overflows in {word(name)}", f"scopes[{k}]") for k, name in enumerate(subject.scopes)]
    if _is_cut(subject):
        counted.append(("samples that TLAST cut short", "cuts"))
    reads = []
    if subject.module != DATAPATH:
        reads.append('    $readmemh("registers.hex", operations);')
        counted.append(("writes of registers", "writes"))
    flags = template(f"flags_{subject.module if subject.module == ACCELERATOR else DATAPATH}.v")
    if subject.module == ACCELERATOR:
        counted += [("reads of registers", "reads"), ("operations that registers refused", "refusals")]
        counted.append(("reads of registers while samples stream", "observed"))
        parameters += _identity(design)
        declared, set_up = _unusable(subject)
        parameters += declared
        arrays += set_up
    return {
        "parameters": "\n".join(parameters),
        "latencies": "\n".join(arrays),
        "end": _end(subject),
        "cut": "i_data[IN_BITS-1]" if subject.module == ACCELERATOR else "1'b0",
        "report": "\n".join(f'      $display("coverage {text}: %0d", {number});' for text, number in counted),
        "instance": template(f"instance_{subject.module}.v"),
        "operate": template(f"operate_{subject.module}.v"),
        "flags": flags.rstrip("\n"),
        "read": "".join(f"{line}\n" for line in reads),
    }


def _is_cut(subject: Subject) -> bool:
    """Return whether TLAST cuts some samples of the bench short."""
    axi = subject.design.axi
    if subject.module != ACCELERATOR or axi is None:
        return False
    if subject.loads:
        return subject.silent_beats > 0
    return ROLLOUT not in subject.tops and SampleFault.CUT in kinds_of(axi, len(subject.names))


def _identity(design: DesignRecord) -> list[str]:
    """Return the declarations for reads of the identity while samples stream."""
    assert design.axi is not None
    return [
        f"  localparam [31:0] IDENTITY = 32'h{design.axi.identity:x};",
        f"  localparam [7:0] IDENTITY_ADDRESS = 8'h{design.axi.registers['identity'].address:x};",
    ]


def _end(subject: Subject) -> str:
    """Return the Verilog expression for the number of the function that a result belongs to."""
    sink = subject.design.output
    low = sink.overflow + len(sink.scopes)
    if subject.loads:
        return "ends[front]"  # results come in the order of the samples
    if len(subject.names) == 1:
        return "0"
    if subject.module == DATAPATH:
        return f"payload[{low}+:{sink.bits - low}]"
    return "ends[rounds == 0 ? 0 : bounds[rounds-1]]"  # on AXI streams a round has samples of one function


def _unusable(subject: Subject) -> tuple[list[str], list[str]]:
    """Return the declarations and initial statements that recognize an unusable result on an AXI stream.

    Such a result has a NaN, or a 1 in the bit after the integers or after a core's results.
    """
    design = subject.design
    axi = design.axi
    assert axi is not None
    kind = None if subject.loads or axi.word == FIXED else BINARY32
    mask, value = (1, 1) if kind is None else ((1 << kind.bits) - 1, kind.nan)
    bits = subject.out_bits
    declared = [
        "  integer unusable_beats[0:ENDS-1], unusable_bits[0:ENDS-1];  // where a result says that it cannot be used",
        f"  localparam [OUT_BITS-1:0] UNUSABLE_MASK = {bits}'h{mask:x}, UNUSABLE = {bits}'h{value:x};",
    ]
    set_up = []
    functions = [design.of_function(each) for each in design.functions] or [design]
    for k, each in enumerate(functions):
        flag = each.wire.output.flag
        beat, bit = (0, 0) if flag is None else divmod(flag.bit, axi.lanes * WORD)
        set_up += [f"    unusable_beats[{k}] = {beat};", f"    unusable_bits[{k}] = {bit};"]
    for k in range(len(functions), len(subject.names)):  # an answer to a part of a program can always be used
        set_up += [f"    unusable_beats[{k}] = -1;", f"    unusable_bits[{k}] = 0;"]
    return declared, set_up


def _of_rules(subject: Subject, plain: dict[str, str], template: Template) -> dict[str, str]:
    """Return the values for rules.sv."""
    design, module = subject.design, subject.module
    is_bare, is_shell = module == DATAPATH, module == ACCELERATOR
    every_port = "    input wire [31:0] every,\n" if ROLLOUT in subject.tops[1:] else ""
    known = {
        **plain,
        **_cut_rules(subject),
        **_of_beats(subject),
        "tlast_rule": _tlast_rule(subject),
        "every_port": every_port,
    }

    def filled(name: str) -> str:
        return re.sub(r"<< (\w+) >>", lambda match: known[match[1]], template(name))

    hidden = "|| every > 1" if ROLLOUT in subject.tops else ""
    return {
        "rule_ports": filled(f"ports_{module}.sv").rstrip("\n"),
        "rule_wires": filled(f"wires_{module}.sv"),
        "rule_beats": filled("beats_cores.sv" if subject.loads else "beats.sv"),
        "hidden": hidden,
        "rested": "empty >= II" if subject.loads else "1'b1",
        "and_ready": "" if subject.loads else " && i_ready",  # idle cores take words at a pace of their own
        "payload_rule": _payload_rule(subject),
        "hash_rule": ""
        if is_shell
        else f"  // the design is the one of design.json\n  hash_is_constant: assert property (@(posedge clk) "
        f"design_hash == 64'h{design.hash[:16]});\n\n",
        "space_rule_text": "; never more under way than there is space for" if is_bare else "",
        "space_rules": _SPACE if is_bare else "",
        "axi_rules": filled("axi_rules.sv").rstrip("\n") if is_shell else "",
    }


def _cut_rules(subject: Subject) -> dict[str, str]:
    """Return the conditions of rules.sv under which TLAST cuts a sample short, and under which it is dropped."""
    axi = subject.design.axi
    if subject.module != ACCELERATOR or axi is None or axi.beats.input == 1:
        return {"cuts_a_sample": "1'b0", "drops_a_sample": "1'b0"}
    cut = f"i_valid && i_ready && s_axis_tlast && in_beat != {axi.beats.input - 1}"
    return {"cuts_a_sample": cut, "drops_a_sample": "cut" if axi.last == PER_SAMPLE else "1'b0"}


def _of_beats(subject: Subject) -> dict[str, str]:
    """Return the values for rules.sv that locate the ends of samples and results, and the latency of a single
    sample.
    """
    axi, is_whole = subject.design.axi, f"&s_axis_tkeep[{_needed(subject.design) - 1}:0]"
    if subject.loads:  # the last end is that of answers to parts of a program; all functions' results have one length
        assert axi is not None
        return {
            **_of_self_test(subject),
            "parts": "  reg part = 1'b0, test = 1'b0;\n  reg [31:0] beats_of_part = 0;\n"
            "  reg [63:0] parts = 0, tests = 0;\n",
            "is_whole": f"is_part || is_test || {is_whole}",
            "lanes": str(axi.lanes),
            "shortest": str(min(subject.latencies[: len(subject.functions)])),
            "longest": str(max(subject.most[: len(subject.functions)])),
            "least_answer": str(subject.latencies[-1]),
            "most_answer": str(subject.most[-1]),
        }
    last_out = f"out_beat == {subject.longest_result - 1}"
    if axi is not None and _lengths_differ(subject):
        last_out = "m_axis_tlast" if axi.last == PER_SAMPLE else "1'b0"
    return {
        "last_out": last_out,
        "parts": "",
        "is_whole": is_whole,
        "shortest": str(min(subject.latencies)),
        "longest": str(subject.longest),
    }


def _of_self_test(subject: Subject) -> dict[str, str]:
    """Return the values for rules.sv that depend on the samples of a core's self-test."""
    is_tested = SELF_TEST in subject.names
    k = subject.names.index(SELF_TEST) if is_tested else 0
    answer, result = subject.out_beats[-1], subject.out_beats[0]
    return {
        "is_test": f"!is_part && i_data[{BLOCK_BITS - 1}:0] >= {FIRST_BLOCK}" if is_tested else "1'b0",
        "beats_of_test": str(subject.in_beats[k]),
        "last_out": f"out_beat == (parts[0] ? {answer} : tests[0] ? {subject.out_beats[k]} : {result}) - 1",
    }


def _lengths_differ(subject: Subject) -> bool:
    """Return whether results on the module's streams may differ in length, as for several functions of a datapath."""
    return len(subject.names) > 1 and not subject.loads


def _tlast_rule(subject: Subject) -> str:
    """Return the rule on TLAST of results."""
    axi = subject.design.axi
    if subject.module != ACCELERATOR or axi is None or _lengths_differ(subject):
        return ""
    rule = "m_axis_tlast == last_out" if axi.last == PER_SAMPLE else "!m_axis_tlast || last_out"
    return (
        "  // TLAST\n  tlast_ends_a_result: assert property (@(posedge clk) disable iff (in_reset)\n"
        f"    o_valid && !left_over |-> {rule});\n\n"
    )


_SPACE = """  space_is_kept: assert property (@(posedge clk) disable iff (in_reset) pending <= UNDER_WAY + 8);

  // an initiation interval between two samples
  interval_is_kept: assert property (@(posedge clk) disable iff (in_reset) accepted |-> since_entry >= II);
"""


def _payload_rule(subject: Subject) -> str:
    """Return the rule that a waiting payload is stable. With several functions only some bits have values, as
    `o_data` states, so there is no rule.
    """
    if len(subject.names) > 1 and subject.module == DATAPATH:
        return ""
    waits = "o_valid && !o_ready |=> $stable(o_data)"
    return f"  payload_waits: assert property (@(posedge clk) disable iff (drops_results) {waits});\n"


def word(name: str) -> str:
    """Return a name with only characters that Verilog strings accept."""
    return _WORD.sub("_", name)
