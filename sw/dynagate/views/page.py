"""A design as one HTML page without scripts, other files or network access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dynagate.fixedpoint.wordlength.confidence import WHICH, Statement
from dynagate.hw import boards
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.designs import Design
from dynagate.hw.plan.timeline import chain
from dynagate.hw.targets.board_fit import uses
from dynagate.views.blocks import draw_blocks
from dynagate.views.charts import draw_errors, draw_widths
from dynagate.views.gantt import draw_schedule, draw_units
from dynagate.views.svg import xml_text
from dynagate.views.tree import draw_tree, limits

TEMPLATE = "page.html"


@dataclass(frozen=True)
class Table:
    """A table of the page."""

    head: tuple[str, ...]
    """Column titles."""
    rows: Sequence[tuple[Any, ...]]
    """Rows with a cell per column."""


@dataclass(frozen=True)
class Use:
    """Use of one resource of a board."""

    name: str
    """Name of the resource."""
    count: int
    """Amount that the design uses."""
    allowed: int
    """Amount that a design may use."""
    total: int
    """Amount on the board."""

    @property
    def part(self) -> float:
        """Fraction of the allowed amount that the design uses."""
        return self.count / self.allowed if self.allowed else float(self.count > 0)

    @property
    def fits(self) -> bool:
        """Whether the design fits the allowed amount."""
        return self.count <= self.allowed


def page(built: Design[Pipeline]) -> str:
    """Return the HTML page. All content comes from the build and design.json; nothing is measured here."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("dynagate.views", "."), undefined=StrictUndefined, autoescape=True, trim_blocks=True
    )
    environment.filters["plain"] = lambda value: xml_text(str(value))
    drawings = {
        "tree": draw_tree(built.robot),
        "blocks": draw_blocks(built),
        "schedule": draw_schedule(built.robot.name, built.hardware.plan),
        "units": draw_units(built.hardware.plan),
        "widths": draw_widths([fmt.width for fmt in built.formatted.formats]),
        "errors": _error_drawing(built),
    }
    return environment.get_template(TEMPLATE).render(
        built=built,
        design=built.design,
        plan=built.hardware.plan,
        drawings={name: Markup(text) for name, text in drawings.items()},
        chain=chain(built.hardware.plan),
        facts=_facts(built),
        links=_links(built),
        passes=_passes(built),
        nodes=_nodes(built),
        statement=_statement(built),
        errors=_errors(built),
        resources=_resources(built),
        boards=_boards(built),
    )


def _facts(built: Design[Pipeline]) -> Table:
    """Return the table of the design's main properties."""
    plan, design = built.hardware.plan, built.design
    widths = [fmt.width for fmt in built.formatted.formats]
    rows = [
        ("function", built.graph.name),
        ("design", design.hash[:16]),
        ("generator", f"dynagate {design.versions.dynagate}, source {design.versions.source}"),
        ("made for", built.region.text()),
        ("words", f"{min(widths)} to {max(widths)} bits"),
        ("initiation interval", f"{plan.ii} cycles"),
        ("latency", f"{plan.latency} cycles"),
        ("samples under way", plan.latency // plan.ii + 1),
    ]
    if design.body.ring is not None:
        rows.append(("ring", f"keeps the states of up to {design.body.ring.capacity} trajectories"))
    if design.functions:
        rows += [(f"function {f.name}", f"code {f.code}, delivered in cycle {f.latency}") for f in design.functions]
    return Table(("", ""), rows)


def _links(built: Design[Pipeline]) -> Table:
    """Return the table of links and joints."""
    links = built.robot.links
    rows = [
        (
            link.name,
            links[link.parent].name if link.parent >= 0 else "base",
            link.joint.name,
            link.joint.type,
            ", ".join(limits(link.joint)),
            f"{link.mass:.4g}",
        )
        for link in links
    ]
    return Table(("link", "parent", "joint", "type", "limits", "mass, kg"), rows)


def _passes(built: Design[Pipeline]) -> Table:
    """Return a table of word lengths by pass."""
    graph, rows = built.graph, []
    for name in graph.scopes:
        widths = [
            fmt.width for fmt, path in zip(built.formatted.formats, graph.scope_paths, strict=True) if path[0] == name
        ]
        rows.append((name, len(widths), min(widths), f"{median(widths):g}", max(widths)))
    return Table(("pass", "nodes", "least bits", "median", "most bits"), rows)


def _nodes(built: Design[Pipeline]) -> Table:
    """Return the table of all nodes with their formats and cycles."""
    plan, rows = built.hardware.plan, []
    for i, node in enumerate(built.graph.nodes):
        kept = i in plan.position
        cycles = (plan.start(i), plan.ready(i)) if kept else ("", "")
        rows.append((node.name, node.op, built.formatted.formats[i].width, str(built.formatted.formats[i]), *cycles))
    return Table(("node", "operation", "bits", "format", "start", "ready"), rows)


def _statement(built: Design[Pipeline]) -> str:
    """Return the stored error measurements as text."""
    content = built.design.formats.statement
    return "" if content is None else Statement.of_dict(content).text()


def _error_drawing(built: Design[Pipeline]) -> str:
    """Return the chart of errors and goals."""
    content, goal = built.design.formats.statement, (built.design.formats.goal or {}).get("error")
    if content is None:
        return ""
    statement = Statement.of_dict(content)
    errors = {kind: sample.error for kind, sample in statement.samples.items()}
    asked = dict.fromkeys(statement.error, goal) if isinstance(goal, float | int) else (goal or {})
    return draw_errors(errors, asked)


def _errors(built: Design[Pipeline]) -> Table:
    """Return the table of measured errors."""
    content = built.design.formats.statement
    if content is None:
        return Table((), ())
    statement = Statement.of_dict(content)
    samples = statement.samples.items()
    rows: list[tuple[Any, ...]] = [
        (name, f"{statement.floors[name]:.2g}", *(f"{sample.error[name]:.1e}" for _, sample in samples))
        for name in statement.error
    ]
    rows.append(("overflow at most", "", *(f"{sample.overflow_bound:.1e}" for _, sample in samples)))
    rows.append(("states", "", *(sample.states for _, sample in samples)))
    return Table(("output", "floor", *(WHICH[kind] for kind, _ in samples)), rows)


def _resources(built: Design[Pipeline]) -> Table:
    """Return the table of estimated resources."""
    plan, design = built.hardware.plan, built.design
    tables = design.body.lookup_tables_estimated
    rows = [
        ("DSP48E2 blocks", plan.dsp_blocks(), "counted from the plan"),
        ("lookup tables of 6 inputs", sum(tables.values()), ", ".join(f"{part} {n}" for part, n in tables.items())),
        ("register bits", plan.register_bits(), f"{plan.register_words()} words between units"),
        ("multiplexer inputs", plan.binding.mux_inputs, "in front of shared units"),
    ]
    return Table(("resource", "number", "of what"), rows)


def _boards(built: Design[Pipeline]) -> list[tuple[str, list[Use]]]:
    """Return the estimated resources that the design uses, by the title of each board."""
    rows = []
    for name in boards.names():
        board = boards.load(name)
        names = {"dsp": board.resources.multiplier, "lut": f"LUT{board.resources.lut_inputs}", "ff": "register bits"}
        rows.append(
            (
                board.title,
                [
                    Use(names[key], count, board.allowed(key), getattr(board.resources, key))
                    for key, count in uses(built.hardware.plan, board).items()
                ],
            )
        )
    return rows
