"""Write scripts for vendors' tools from the templates in `hw/boards/templates`.

Names from a robot's file appear only in comments of scripts, as `untrusted.plain_text`. Scripts name files relative to
their own folder, so the path of the folder does not enter them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dynagate.base.errors import Error
from dynagate.base.ownership import OWNERSHIP, with_head

OUT_OF_CONTEXT = ("ooc.tcl", "ooc.xdc")
"""Names of the script and of the clock constraints for a module out of context."""
OUT_OF_CONTEXT_MEANINGS = (
    "Vivado: the module out of context, with reports of timing, utilization, clock crossings and methodology",
    "the clock of `ooc.tcl`, and what is around the module's ports",
)
"""Descriptions of these files for README.md."""
MOST_LOADS = 400
"""Largest fanout of a slot's enable before the placer may duplicate its register."""
OUTSIDE = 0.3
"""Share of a clock period that logic outside the module may take at its ports."""
_SCRIPTS = (".tcl", ".xdc", ".mk")
"""Endings of files that tools execute."""
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
    sources: Sequence[str],
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
        sources: Verilog files in the same folder.
        top: Name of the module.
        clock: Name of its clock port.
        part: Ordering code of the device, unless the environment sets another.
        clock_mhz: Clock frequency in MHz.
        head: First lines of the files.
    """
    period = 1e3 / clock_mhz
    context = {
        "title": title,
        "digest": digest,
        "sources": tuple(sources),
        "top": top,
        "clock": clock,
        "part": part,
        "period": f"{period:.3f}",
        "outside": f"{OUTSIDE * period:.3f}",
        "most_loads": MOST_LOADS,
    }
    return rendered({name: name for name in OUT_OF_CONTEXT}, context, head)
