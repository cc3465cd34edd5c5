"""The XML of a robot file, parsed without entities or network access, and the numbers in it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.storage import read_file
from dynagate.robot.errors import RobotError

MAX_BYTES = 16 * 2**20
"""Largest size of a robot file, in bytes."""

IGNORED_ERRORS = {
    "ERR_UNKNOWN_VERSION": "an XML declaration of an unknown version",
    "ERR_VERSION_MISSING": "an XML declaration without a version",
    "ERR_XMLDECL_NOT_FINISHED": "an XML declaration that does not end",
    "ERR_RESERVED_XML_NAME": "an XML declaration that is not at the start",
    "NS_ERR_UNDEFINED_NAMESPACE": "names with an undeclared prefix",
    "ERR_DOCUMENT_END": "what comes after the root element",
}
"""Errors of libxml2 that the option `lax` ignores, by name. None of them can lose a part of the robot."""

BY_XACRO = "Robot.from_xacro (--trust-robot)"
BY_MUJOCO = "Robot.from_mjcf (--trust-robot)"
TRUSTED_HINT = f"a file that xacro has expanded, or one that you trust, by {BY_XACRO}"
"""Hint for files that only trusted parsers accept, because they open other files or run programs."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity|nan)", re.ASCII | re.IGNORECASE)
"""Pattern of a number in ASCII digits."""


def check_file(path: Path, kind: str, where: str = "") -> None:
    """Raise RobotError if there is no such file, or it is too large.

    Args:
        path: The file.
        kind: Name of its format with an article, for the error.
        where: Text before the error.
    """
    if not os.path.isfile(path):  # Path.is_file raises OSError for a name that is too long
        what = "a folder" if os.path.isdir(path) else f"no such file in {path.absolute().parent}"
        raise RobotError(f"{where}{what}; expected {kind} file", code="DG-URDF-015")
    _check_size(path.stat().st_size, kind, where)


def _check_size(size: int, kind: str, where: str = "") -> None:
    if size > MAX_BYTES:
        raise RobotError(
            f"{where}{size} bytes; {kind} file of more than {MAX_BYTES} bytes is refused", code="DG-URDF-016"
        )


def parse(path: Path, *, lax: bool, text: bytes | None = None) -> tuple[Any, list[str]]:
    """Return the file's <robot> element, and descriptions of the XML errors that were ignored.

    Calls of macros that the file does not define are left out, as other URDF parsers do.

    Args:
        path: The file.
        lax: Whether to ignore the errors listed in OVERLOOKED. Entities, document types and large files are always
            errors.
        text: Text to parse instead of the file's, after macros were expanded.

    Raises:
        RobotError: The file cannot be read, is not XML, has macros, or its root element is not <robot>.
    """
    from lxml import etree

    if text is None:
        check_file(path, "a URDF")
        try:
            text = read_file(path, MAX_BYTES)
        except OSError as error:
            raise RobotError(f"cannot be read ({error.strerror}); expected a URDF file", code="DG-URDF-017") from None
    else:
        _check_size(len(text), "a URDF")
    ignored: list[str] = []
    try:
        root = etree.fromstring(text, parser=_parser())
    except etree.XMLSyntaxError as error:
        root, kinds = _recovered(text)
        harmless = root is not None and kinds <= set(IGNORED_ERRORS)
        if not harmless or not lax:
            option = "; lax=True (--lax) overlooks that" if harmless else ""
            raise RobotError(f"not well-formed XML: {error.msg}{option}", code="DG-URDF-018") from None
        ignored = [f"lax overlooks {text}" for kind, text in IGNORED_ERRORS.items() if kind in kinds]
    if root.getroottree().docinfo.doctype:
        raise RobotError(
            "has a document type declaration; entities are refused, expected plain URDF", code="DG-URDF-019"
        )
    if root.tag != "robot":
        other = f", or a file that you trust, by {BY_MUJOCO}" if root.tag == "mujoco" else ""
        raise RobotError(f"root element is <{root.tag}>; expected <robot>{other}", code="DG-URDF-020")
    for element in list(root.iter("{*}*")):
        if element.prefix == "xacro" or element.tag.startswith("xacro:"):
            name = local_name(element.tag)
            if name in XACRO or any(local_name(part.tag) in PARTS for part in element.iter("{*}*")):
                raise RobotError(
                    f"line {element.sourceline}: <xacro:{name}> is a macro; expected {TRUSTED_HINT}", code="DG-URDF-021"
                )
            ignored.append(
                f"line {element.sourceline}: <xacro:{name}> is left out: it calls a macro that is not defined"
            )
            if element.getparent() is not None:
                element.getparent().remove(element)
    return root, ignored


def is_mjcf(path: Path) -> bool:
    """Return whether a readable file begins with MuJoCo's root element."""
    try:
        with path.open("rb") as file:
            head = COMMENT.sub(b"", file.read(HEAD))
    except OSError:
        return False
    return re.match(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*\?>)?\s*<mujoco[\s>/]", head) is not None


XACRO = ("macro", "include", "property", "if", "unless", "arg", "insert_block", "call", "element", "attribute")
"""Names of xacro's own elements. A prefixed element with another name calls a macro that xacro did not find."""

PARTS = ("link", "joint", "inertial", *XACRO)
"""Elements that define the robot: a call of an undefined macro that contains one cannot be left out."""

HEAD = 2**16
"""Number of bytes that are searched for the root element."""
COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
"""Pattern of an XML comment."""


def _parser(*, recover: bool = False) -> Any:
    from lxml import etree

    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=recover)


def _recovered(text: bytes) -> tuple[Any, set[str]]:
    """Return the root element as far as libxml2 can recover it, or None, and the names of its errors."""
    from lxml import etree

    parser = _parser(recover=True)
    try:
        root = etree.fromstring(text, parser=parser)
    except etree.XMLSyntaxError:
        return None, set()
    return root, {entry.type_name for entry in parser.error_log if entry.level >= etree.ErrorLevels.ERROR}


def only(element: Any, tag: str, where: str) -> Any:
    """Return the child element with this tag, or None. Raise RobotError if there are several."""
    children = element.findall(tag)
    if len(children) > 1:
        raise RobotError(
            f"{where} has {len(children)} <{tag}> (line {children[1].sourceline}); expected one", code="DG-URDF-022"
        )
    return children[0] if children else None


def attribute(element: Any, key: str, where: str) -> str:
    """Return an attribute of an element. Raise RobotError if it is missing."""
    value = element.get(key)
    if value is None:
        raise RobotError(f"{where}: <{element.tag}> has no attribute '{key}'", code="DG-URDF-023")
    return str(value)


def local_name(tag: str) -> str:
    """Return a tag without its namespace or prefix."""
    return tag.rpartition("}")[2].rpartition(":")[2]


def number_in(element: Any, where: str) -> float:
    """Return the number of an element, from its attribute `value` or its text. Raise RobotError as `numbers` does."""
    if element.get("value") is None:
        element.set("value", (element.text or "").strip())
    return number(element, "value", where)


def number(element: Any, key: str, where: str, *, infinite: bool = False) -> float:
    """Return one number in ASCII digits, which may be infinite if `infinite` is set. Raise RobotError as `numbers`
    does.
    """
    return float(numbers(element, key, where, 1, infinite=infinite)[0])


def numbers(element: Any, key: str, where: str, count: int, *, infinite: bool = False) -> np.ndarray:
    """Return `count` numbers in ASCII digits from an attribute. Raise RobotError with the attribute's name if they are
    invalid.
    """
    text = attribute(element, key, where)
    here = f"{where}: <{element.tag} {key}='{text}'>"
    if "$" in text:
        raise RobotError(f"{here} is a macro; expected {TRUSTED_HINT}", code="DG-URDF-024")
    if not all(NUMBER.fullmatch(word) for word in text.split()):
        raise RobotError(f"{here} is not made of numbers", code="DG-URDF-025")
    values = np.array([float(word) for word in text.split()])
    fit = np.isfinite(values) | (infinite and np.isinf(values))
    if len(values) != count or not fit.all():
        raise RobotError(f"{here}; expected {count} finite number(s)", code="DG-URDF-026")
    if any(0.0 < abs(value) < sys.float_info.min for value in values):
        raise RobotError(
            f"{here} is too small for a float; expected 0, or {sys.float_info.min:.2g} or more", code="DG-URDF-027"
        )
    return values
