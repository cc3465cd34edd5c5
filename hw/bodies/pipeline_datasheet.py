"""The datasheet of a datapath: function, interfaces, schedule, units and accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dynagate.base.untrusted import plain_text
from dynagate.design.design import AxiStreams
from dynagate.design.latency import around, stream_cycles
from dynagate.design.words import number_of
from dynagate.fixedpoint.proof.error_bounds import CheckedBounds
from dynagate.fixedpoint.wordlength.confidence import Statement
from dynagate.fixedpoint.wordlength.sampled_errors import STATES, SampledErrors
from dynagate.graph.region import KINDS, REST
from dynagate.hw.datasheet import (
    DATASHEET,
    Datasheet,
    Row,
    certificate_rows,
    markdown_table,
    proved_rows,
    register_table,
    sampled_error_rows,
)
from dynagate.hw.plan.timeline import pass_lines
from dynagate.hw.units.table import HARDWARE, Own
from dynagate.hw.vectors.built import BuiltDatapath
from dynagate.hw.vectors.unreached import TITLE, Unreached, unreached_lines
from dynagate.integrators.limits import limits_text


def datasheet(
    built: BuiltDatapath, late: Sequence[int], errors: SampledErrors | None = None, bench: Sequence[Unreached] = ()
) -> Datasheet:
    """Return the datasheet. Everything comes from the build itself: only accuracy is measured.

    Args:
        built: The design.
        late: Cycles by which the overflow bits of a sample follow its values, for each function.
        errors: Errors in sampled states, of a design without a statement on its accuracy.
        bench: Points that the samples of the bench do not reach, by function.
    """
    rows = _facts(built) + certificate_rows(built.design.formats)
    if (axi := built.design.axi) is not None:
        rows.append((_with_streams(axi), streams_text(built, late)))
    sections = [_interfaces(built), _ring(built), _blocks(built), _pipeline(built), _units(built)]
    title = f"{plain_text(built.robot.name)}: {built.graph.name}"
    return Datasheet(title, rows, [*sections, _accuracy(built, errors), _proved(built), _bench(bench)])


def summary(built: BuiltDatapath) -> str:
    """Return the head of the datasheet and the resources, for a terminal."""
    design = built.design
    rows = [
        *_facts(built),
        ("multipliers", f"{design.body.units.get('multiply', 0)}; {design.body.dsp_blocks} DSP48E2 blocks (counted)"),
        ("registers", f"{design.body.registers.words} words, {design.body.registers.bits} bits (datapath values)"),
    ]
    if design.axi is not None:
        rows.insert(-2, _kept(built, _with_streams(design.axi)))
    rows += certificate_rows(design.formats) + proved_rows(design.formats)
    lines = [f"  {name:<24}{text.replace('`', '')}" for name, text in rows]
    return "\n".join([built.title, *lines])


def _kept(built: BuiltDatapath, name: str) -> tuple[str, str]:
    """Return a row from the head of the datasheet in the design's folder."""
    lines = (built.folder / DATASHEET).read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if line.startswith(f"| {name} | "))
    return name, row.split(" | ")[1].removesuffix(" |")


def _with_streams(axi: AxiStreams) -> str:
    """Return the label of the row on latency from stream to stream."""
    return f"with {axi.word} streams"


def streams_text(built: BuiltDatapath, late: Sequence[int]) -> str:
    """Describe the latency of a single sample from the input stream to the output stream.

    Args:
        built: The design.
        late: Cycles by which the overflow bits of a sample follow its values, for each function.
    """
    plan, design = built.hardware.plan, built.design
    before, after = around(design)
    inside = [delivery.cycle + more for delivery, more in zip(plan.deliveries, late, strict=True)]
    low, high = stream_cycles(design, min(inside))[0], stream_cycles(design, max(inside))[1]
    span = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"{span} cycles from the first beat in to the first beat out: {before} until the datapath, up to {plan.ii - 1} "
        f"until its next slot, {' or '.join(map(str, dict.fromkeys(inside)))} with overflow bits, {after} behind it"
    )


def _facts(built: BuiltDatapath) -> list[Row]:
    """Return the rows at the head of the datasheet."""
    plan, design = built.hardware.plan, built.design
    problem = plan.schedule.problem
    widths = [f.width for f in built.formatted.formats]
    rows = [
        ("design", f"`{design.hash[:16]}`"),
        ("generator", f"dynagate {design.versions.dynagate}, source {design.versions.source}"),
        ("made for", built.region.text()),
        ("words", f"{min(widths)} to {max(widths)} bits"),
        ("initiation interval", f"{plan.ii} cycles"),
        (
            "latency",
            f"{plan.latency} cycles in the datapath; {problem.critical_path()} with a unit for each operation",
        ),
        ("a result every", f"{plan.ii} cycles; {plan.latency // plan.ii + 1} samples under way"),
    ]
    if design.body.ring is not None and (text := limits_text(built.robot, design.options)):
        rows.append(("limits", text))
    return rows


def _interfaces(built: BuiltDatapath) -> str:
    """Return the section on ports, functions, streams and registers."""
    rows = []
    for side, ports in (("in", built.graph.inputs), ("out", built.graph.outputs)):
        for port in ports:
            formats = sorted({built.formatted.formats[i] for i in port.nodes})
            span = str(formats[0]) if len(formats) == 1 else f"{formats[0]} to {formats[-1]}"
            rows.append((side, f"`{port.name}`", " × ".join(map(str, port.shape)), len(set(port.nodes)), span))
    text = "## Interfaces\n\n" + markdown_table(("", "port", "shape", "different numbers", "formats"), rows)
    axi = built.design.axi
    if built.design.functions:
        each = [
            (f"`{f.name}`", f.code, ", ".join(own for own, _ in f.inputs), f.latency, len(f.fields))
            for f in built.design.body.functions
        ]
        text += "\n\n" + markdown_table(("function", "code", "inputs", "delivered in cycle", "words of a result"), each)
    if axi is None:
        return text
    text += (
        f"\n\nStreams: {axi.width} bits, words {axi.word}: {axi.words.input} and a tag in {axi.beats.input} beats in, "
        f"{axi.words.output} and the tag in {axi.beats.output} beats out, TLAST per {axi.last}.\n\n"
    )
    return text + register_table(axi.registers)


def _ring(built: BuiltDatapath) -> str:
    """Describe the ring that keeps the states of trajectories."""
    ring = built.design.body.ring
    if ring is None:
        return ""
    carried = ", ".join(f"`{source}` returns as `{target}`" for source, target in ring.carry)
    least = -(-built.hardware.plan.latency // built.hardware.plan.ii)
    text = (
        f"## Ring\n\n`rollout.v` keeps the states of up to {ring.capacity} trajectories: {carried}. With "
        f"{least + 1} of them or more every slot of the pipeline holds a step."
    )
    if built.design.axi is None:
        return text
    return (
        f"{text}\n\nOn the streams a number follows a turn's inputs: 2 starts a trajectory with the state after it, 3 "
        "continues the one whose last turn entered longest ago, 1 does so for the last time, and 0 is a trajectory of "
        "one turn. Results leave as the registers `steps` and `every` say."
    )


def _blocks(built: BuiltDatapath) -> str:
    """Return the section with a Mermaid diagram of the passes and the values between them."""
    graph = built.graph
    reads: Counter[tuple[int, int]] = Counter()
    for i, node in enumerate(graph.nodes):
        for a in node.args:
            if graph.nodes[a].op not in ("input", "const") and graph.scope_of[a] != graph.scope_of[i]:
                reads[graph.scope_of[a], graph.scope_of[i]] += 1
    from_inputs = {graph.scope_of[i] for i, n in enumerate(graph.nodes) for a in n.args if graph.nodes[a].op == "input"}
    to_outputs = {graph.scope_of[i] for i in graph.output_nodes}
    lines = ["flowchart LR", "  inputs([inputs])", "  outputs([outputs])"]
    lines += [f"  s{k}[{scope}]" for k, scope in enumerate(graph.scopes)]
    lines += [f"  inputs --> s{k}" for k in sorted(from_inputs)]
    lines += [f"  s{a} -->|{count}| s{b}" for (a, b), count in sorted(reads.items())]
    lines += [f"  s{k} --> outputs" for k in sorted(to_outputs)]
    return "## Passes\n\n```mermaid\n" + "\n".join(lines) + "\n```"


def _pipeline(built: BuiltDatapath) -> str:
    """Return the section with a chart of the cycles in which each pass works on a sample."""
    return "## A sample's way, in cycles since its acceptance\n\n```\n" + pass_lines(built.hardware.plan) + "\n```"


def _units(built: BuiltDatapath) -> str:
    """Return the section on shared units and their use."""
    plan = built.hardware.plan
    limits = plan.schedule.problem.limits
    used = Counter(o.resource for o in plan.schedule.problem.operations)
    rows = []
    for name, unit in sorted(plan.classes.items()):
        share = used[name] / (limits[name] * plan.ii)
        dsp = limits[name] * unit.dsp_blocks
        rows.append((f"`{name}`", limits[name], unit.latency, used[name], f"{share:.0%}", dsp))
    adders = sum(isinstance(HARDWARE[node.op], Own) for node in built.graph.nodes)
    rows.append(("adders, each its own", adders, 1, adders, f"{1 / plan.ii:.0%}", 0))
    text = "## Units\n\n" + markdown_table(("class", "units", "cycles", "operations", "in use", "DSP48E2"), rows)
    tables = Counter(built.design.body.lookup_tables_estimated)
    parts = ", ".join(f"{name} {count}" for name, count in tables.most_common())
    muxes = f"{plan.binding.mux_inputs} multiplexer inputs"
    return (
        f"{text}\n\n{plan.dsp_blocks()} DSP48E2 blocks, {plan.register_words()} words of registers between units "
        f"({plan.register_bits()} bits), {muxes}: "
        "counted from the plan; `dynagate synth` compares them with a netlist. "
        f"Lookup tables, estimated: {tables.total()} ({parts})."
    )


def _accuracy(built: BuiltDatapath, errors: SampledErrors | None) -> str:
    """Return the section on accuracy: the statement for an accuracy goal, or errors in sampled states."""
    content = built.design.formats.statement
    if content is None:
        return "" if errors is None else _sampled(errors)
    statement = Statement.of_dict(content)
    samples = [statement.samples[kind] for kind in KINDS]
    rows: list[tuple[Any, ...]] = [
        (f"`{name}`", f"{statement.floors[name]:.2g}", *(f"{sample.error[name]:.1e}" for sample in samples))
        for name in statement.error
    ]
    rows.append(("overflow at most", "", *(f"{sample.overflow_bound:.1e}" for sample in samples)))
    rows.append(("states", "", *(sample.states for sample in samples)))
    header = ("output", "floor", "uniform in the region", "at its limits", f"near rest ({REST:.0%} of speed)")
    axi = built.design.axi
    number = None if axi is None else number_of(axi.word)
    rounding = "" if number is None else f" Results are rounded to {number}, as the streams carry them."
    return f"## Accuracy\n\n{statement.text()}{rounding}\n\n" + markdown_table(header, rows)


def _bench(each: Sequence[Unreached]) -> str:
    """Return the section on what the bench does not reach."""
    lines = [f"* {line}" for function in each for line in unreached_lines(function)]
    return f"{TITLE}\n\n" + "\n".join(lines) if lines else ""


def _sampled(errors: SampledErrors) -> str:
    """Return the section on errors in sampled states."""
    header = ("output", "largest value", "error in the region", "at its limits", f"near rest ({REST:.0%} of speed)")
    return (
        f"## Accuracy\n\nLargest errors of the integers against float64 in {STATES} states of each kind, without those "
        "that overflow. Errors are absolute, of the worst entry, with their share of the largest value of that kind in "
        "parentheses. A design with an accuracy goal (`--error`) states errors with a confidence instead.\n\n"
    ) + markdown_table(header, sampled_error_rows(errors))


def _proved(built: BuiltDatapath) -> str:
    """Return the section on proved errors and ranges."""
    if built.design.formats.proved is None:
        return ""
    content = CheckedBounds.of_dict(built.design.formats.proved)
    rows = [
        (
            f"`{name}`",
            f"{block.proved_error:.1e}",
            f"{block.measured_error:.1e}",
            f"{block.proved_largest:.3g}",
            f"{block.measured_largest:.3g}",
        )
        for name, block in content.blocks.items()
    ]
    header = ("output", "largest error, proved", "measured", "largest magnitude, proved", "measured")
    return (
        "## Proved\n\nNo state of the region overflows, and no error or magnitude is above the proved one. Errors are "
        "absolute, of the worst entry, against real arithmetic. Measured ones are the largest of "
        f"{content.states} states of all kinds (seed {content.seed}), which chose nothing. Ranges are {content.text()}."
        "\n\n" + markdown_table(header, rows)
    )
