"""Issue warnings that point at the caller's own line."""

from __future__ import annotations

import sys
import warnings

from dynagate.base.errors import with_code

PACKAGE = __name__.partition(".")[0]


def warn(text: str, category: type[Warning], *, code: str = "") -> None:
    """Issue a warning located at the line that called the package, however deep the call of this function is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(with_code(text, code), category, stacklevel=level)
