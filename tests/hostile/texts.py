"""Texts that a writer of code or pages must escape."""

from __future__ import annotations

ONE_LINE = {
    "end of comment": "r */ int planted; /*",
    "line comment": "r // planted",
    "backslash": "planted\\",
    "trigraph": "planted ??/",
    "directive": "`define planted",
    "substitution": "$(planted) `planted` ${planted}",
    "Tcl": "[exec planted]; puts {planted}",
    "quotes": "'planted\" \"'",
    "HTML": "<script>planted</script><img src=x onerror=planted>",
    "Markdown": "| a | [planted](javascript:planted) **b**",
    "mathematics": "$\\frac{planted$",
    "parent folder": "../../../planted",
    "absolute path": "/planted",
    "two dots": "..",
    "option": "-rf planted",
    "300 letters": "r" * 300,
    "C keyword": "while",
    "Verilog keyword": "endmodule",
    "macro": "NAN",
    "digit first": "3dof",
    "accents": "Größe_机器人_робот",
    "emoji": "\N{ROBOT FACE}",
    "percent": "%s%n%x{0}",
}
