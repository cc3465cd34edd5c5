"""Write scripts for vendors' tools from the templates in `hw/boards/templates`.

Names from a robot's file appear only in comments of scripts, as `untrusted.plain_text`. Scripts name files relative to
their own folder, so the path of the folder does not enter them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynagate.base.errors import Error
from dynagate.base.ownership import OWNERSHIP, with_head

OUT_OF_CONTEXT = ("ooc.tcl", "ooc.xdc", "ooc.sdc")
"""Names of the script and of the timing constraints for a module out of context."""
OUT_OF_CONTEXT_MEANINGS = (
    "Vivado: the module out of context, with reports of timing, utilization, clock crossings and methodology",
    "the clock of `ooc.tcl`, and what is around the module's ports",
    "the same constraints for other tools",
)
"""Descriptions of these files for README.md."""
OUTSIDE = 0.3
"""Share of a clock period that logic outside the module may take at its ports."""
_SCRIPTS = (".tcl", ".xdc", ".sdc", ".mk")
"""Endings of files that tools execute."""
_TEMPLATES = {"ooc.xdc": "ooc.sdc"}
"""Template of a file for a module out of context, where it has another name than the file."""
_PORT = re.compile(r"^ *(input|output) (?:wire|reg) ?(\[\d+:0\])? ?(\w+),?$", flags=re.M)
"""Pattern of a port in generated Verilog."""
_CODE = re.compile(r"[^\w.:,+\"()/ -]", flags=re.ASCII)
"""Characters that could be code in a script of Tcl or make."""


class ProjectError(Error, RuntimeError):
    """A project cannot be written, or its vendor tool failed; the text names the folder or the log."""


def rendered(
    templates: Mapping[str, str], context: Mapping[str, Any], head: Sequence[str] = OWNERSHIP
) -> dict[str, str]:
    """Fill in templates.

    Args:
        templates: Name of the template of each file, by the file's name.
        context: Values for the templates.
        head: First lines of every file except Markdown.

    Returns:
        Text of each file.

    Raises:
        ProjectError: A value could be code in a script.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
    from jinja2.runtime import Context

    @pass_context
    def plain(context: Context, value: Any) -> Any:
        if str(context.name).endswith(_SCRIPTS) and (code := _CODE.search(str(value))):
            raise ProjectError(
                f"{value!r} in {context.name}: {code[0]!r} could be code; expected plain text", code="DG-BOARD-006"
            )
        return value

    # delimiters that Tcl, make and C++ do not use; nothing is escaped because scripts accept only plain text
    environment = Environment(
        loader=PackageLoader("dynagate.hw.boards"),
        finalize=plain,
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    texts = {name: environment.get_template(template).render(context) for name, template in templates.items()}
    return {name: text if name.endswith(".md") else with_head(name, text, head) for name, text in texts.items()}


def out_of_context(
    title: str,
    digest: str,
    verilog: Mapping[str, str],
    top: str,
    clock: str,
    *,
    part: str,
    clock_mhz: float,
    head: Sequence[str],
) -> dict[str, str]:
    """Return the script and the constraints that synthesize, place and route a module out of context, by file name.

    Args:
        title: Title of the design, plain text.
        digest: Hash of the design.
        verilog: Text of each Verilog file in the same folder.
        top: Name of the module.
        clock: Name of its clock port.
        part: Ordering code of the device, unless the environment sets another.
        clock_mhz: Clock frequency in MHz.
        head: First lines of the files.
    """
    period = 1e3 / clock_mhz
    ports = _ports("\n".join(verilog.values()), top)
    context = {
        "title": title,
        "digest": digest,
        "sources": tuple(verilog),
        "top": top,
        "clock": clock,
        "part": part,
        "period": f"{period:.3f}",
        "outside": f"{OUTSIDE * period:.3f}",
        "inputs": [port for port in ports if port.is_input and port.name != clock],
        "outputs": [port for port in ports if not port.is_input],
    }
    return rendered({name: _TEMPLATES.get(name, name) for name in OUT_OF_CONTEXT}, context, head)


class _Port(NamedTuple):
    """A port of a module."""

    name: str
    is_input: bool
    is_bus: bool


def _ports(verilog: str, module: str) -> list[_Port]:
    """Return the ports of a module in generated Verilog."""
    _, _, text = verilog.partition(f"module {module} (\n")
    head = text.partition("\n);")[0]
    return [_Port(name, way == "input", bool(span)) for way, span, name in _PORT.findall(head)]
