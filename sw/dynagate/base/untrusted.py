"""Make names from a robot's file safe for generated text: comments, Markdown, file names and identifiers.

A robot's name is text from the author of the file. It may hold the end of a comment, a line break, a path or HTML. Each
function here keeps the characters that are harmless in one place and replaces every other one by an underscore.
"""

from __future__ import annotations

import hashlib
import re

_NOT_TEXT = re.compile(r"[^A-Za-z0-9_.+ -]")
_NOT_FILE_NAME = re.compile(r"[^A-Za-z0-9_.-]|^[.-]")
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")

LONGEST = 60
"""Number of characters of a name that are kept, so that derived names fit file names."""


def plain_text(name: str) -> str:
    """Return a name for one line of a comment in C, CUDA, Verilog or Tcl, of Markdown or of HTML."""
    return _NOT_TEXT.sub("_", name)[:LONGEST].strip()


def file_name(name: str) -> str:
    """Return a name for a file or folder. Different names may become the same."""
    return _NOT_FILE_NAME.sub("_", name)[:LONGEST] or "_"


LONGEST_FUNCTION = 180
"""Number of letters of a function's name that fit a file name."""


def shortened(name: str) -> str:
    """Return the name of a function as part of a file's name or an identifier. A long one ends in a hash of it."""
    if len(name) <= LONGEST_FUNCTION:
        return name
    return f"{name[:LONGEST_FUNCTION].rpartition('_')[0]}_{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def identifier(name: str) -> str:
    """Return the beginning of an identifier in C, CUDA, Verilog or Tcl. It may be a keyword by itself.

    A name that is not an identifier gets a hash at the end, so that different names stay different.
    """
    plain = _NOT_IDENTIFIER.sub("_", name)
    plain = f"_{plain}" if not plain or plain[0].isdigit() else plain
    if plain == name and len(name) <= LONGEST:
        return name
    return f"{plain[: LONGEST - 9]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
