"""The command `dynagate explain`: what an error means, why it occurs and how to fix it."""

from __future__ import annotations

import re

import click
from click.shell_completion import CompletionItem

from dynagate.base.nearest import nearest
from dynagate.cli.groups import command
from dynagate.cli.options import examples
from dynagate.cli.refusals import BadParameter, ParamType


class Code(ParamType):
    """The code of an error, in any case, with or without its brackets."""

    name = "code"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value.strip().strip("[]").upper()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from dynagate.cli.codes import codes

        return [CompletionItem(code) for code in codes() if code.startswith(incomplete.upper())]


@command(
    short_help="Explain an error by its code.",
    epilog=examples("explain DG-URDF-001", "explain dg-arg-002"),
)
@click.argument("code", type=Code(), metavar="CODE")
def explain(code: str) -> None:
    """Print what the error with CODE means, why it occurs and how to fix it.

    The code is at the end of the error, in brackets. The page 'Errors' of the documentation lists all codes.
    """
    from dynagate.cli.codes import codes, description_of, explanations, find

    error = find(code)
    if error is None:
        known = codes()
        areas = ", ".join(dict.fromkeys(each.split("-")[1] for each in known))
        raise BadParameter(
            f"no error has the code {code!r:.40}{nearest(code, known)}; expected DG, an area and a number, such as "
            f"{known[0]}. Areas: {areas}",
            param_hint="CODE",
            code="DG-CLI-005",
        )
    click.echo(f"{error.code}: {error.kind} of {error.module}\n\n  {error.text}\n")
    text = explanations().get(code) or f"This code has no explanation of its own. {description_of(error.kind)}"
    click.echo(re.sub(r"\n{3,}", "\n\n", text).strip())
