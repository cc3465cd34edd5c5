"""The datasheet of a program: cycles, size on the core, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynagate.base import untrusted
from dynagate.fixedpoint.wordlength.confidence import WHICH, Statement
from dynagate.fixedpoint.wordlength.sampled_errors import STATES, SampledErrors
from dynagate.graph.region import KINDS
from dynagate.hw.datasheet import Datasheet, certificate_rows, proved_rows, sampled_error_rows
from dynagate.integrators.limits import limits_text

if TYPE_CHECKING:
    from dynagate.hw.bodies.scheduled_program import ScheduledProgram
    from dynagate.hw.designs import Design
    from dynagate.hw.processor.compiler.schedule import ProgramSchedule


def _span(span: tuple[int, int]) -> str:
    """Return a range of cycles as text."""
    least, most = span
    return f"{least} cycles" if least == most else f"{least} to {most} cycles"


def _at_least(scheduled: ProgramSchedule) -> str:
    """Return the text that follows a minimum number of cycles, or the cycles of one function."""
    if len(scheduled.instructions.interfaces) > 1:
        return f", of {scheduled.instructions.interface.name}"
    if scheduled.longest == scheduled.period:
        return ""
    return f" where each loop takes one turn, {scheduled.longest} cycles at most"


def _sampled_rows(errors: SampledErrors) -> list[tuple[str, str]]:
    """Return the largest error of each output, and how many states overflow."""
    rows = []
    for name, largest, *by_kind in sampled_error_rows(errors)[:-1]:
        texts = ", ".join(f"{text} in {WHICH[kind]}" for kind, text in zip(KINDS, by_kind, strict=True))
        rows.append((f"largest error of {name}", f"{texts}; its largest value is {largest}"))
    lost = ", ".join(f"{errors.overflows[kind]} of {STATES} {WHICH[kind]}" for kind in KINDS)
    return [*rows, ("overflow", lost)]


def datasheet(built: Design[ScheduledProgram], errors: SampledErrors | None = None) -> Datasheet:
    """Return the datasheet of a program: its cycles, its size on the core, and its errors.

    Args:
        built: The program.
        errors: Errors in sampled states, of a program without a statement on its accuracy.
    """
    scheduled, design, body = built.hardware.schedule, built.design, built.design.body
    core = scheduled.core
    depths = ", ".join(map(str, scheduled.depths[:-1]))
    rows = [
        ("core", core.text),
        ("instructions", f"{body.instructions}, {body.functions_used} of them functions"),
        ("cycles", f"{design.latency} from the first program word to the last result{_at_least(scheduled)}"),
        (f"cycles between {'samples' if body.loop is None else 'steps'}", f"{body.period}"),
        *([("samples in one run", f"{body.samples_per_run}, in those cycles")] if body.samples_per_run > 1 else []),
        ("slots used", f"{scheduled.use:.0%}"),
        ("program", f"{body.words} of {1 << core.program_bits} words of {core.program_word} bits"),
        (
            "values",
            f"{depths} of {1 << core.place_bits} places of the units, {scheduled.depths[-1]} of the shared memory",
        ),
        ("multiply-add", f"{core.latency} cycles until its result can be read"),
    ]
    if body.loop is not None and (text := limits_text(built.robot, design.options)):
        rows.append(("limits", text))
    rows += [(f"{each.name}, cycles", f"{each.latency}") for each in design.functions]
    if (held := design.formats.file) is not None:
        graphs = [graph for section in held["functions"].values() for graph in section["graphs"]]
        widths = [width for graph in graphs for width, _ in graph["formats"].values()]
        rows.append(("formats", f"from a file, {min(widths)} to {max(widths)} bits in words of {core.word}"))
    if body.shell is not None:
        rows += [
            (
                f"{interface.name}, alone",
                f"{_span(span)} from the first beat in to the first beat out, {body.shell.text}",
            )
            for interface, span in zip(scheduled.instructions.interfaces, body.shell.spans, strict=True)
        ]
    if design.formats.statement is not None:
        statement = Statement.of_dict(design.formats.statement)
        rows += [
            (f"largest error in {WHICH[kind]}", f"{each.worst[0]:.1e}") for kind, each in statement.samples.items()
        ]
    elif errors is not None:
        rows += _sampled_rows(errors)
    rows += proved_rows(design.formats) + certificate_rows(design.formats)
    title = f"{untrusted.plain_text(built.robot.name)} {design.function} on {core.units} units"
    return Datasheet(title, rows, [f"program {design.hash:.16}, core {body.core_hash:.16}"])
