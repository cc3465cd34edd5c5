"""What a case has shown: how much was compared, what differed, what the project refused."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np

LOOSEST = 0.1
PACKAGE = str(Path(dynagate.__file__).parent)


class Findings:
    """slack: multiplies tolerances, up to LOOSEST. compared: number of outputs that were. faults: what differed,
    and how. refused: texts of errors."""

    def __init__(self, slack: float = 1.0) -> None:
        self.slack = slack
        self.compared = 0
        self.faults: dict[str, str] = {}
        self.refused: list[str] = []

    def near(self, what: str, value: Any, expected: Any, tolerance: float, smallest: float = 1e-9) -> bool:
        """Compares by the largest entry. tolerance: of it, or of `smallest` if that is larger."""
        tolerance = max(tolerance, min(LOOSEST, tolerance * self.slack))
        value, expected = np.asarray(value), np.asarray(expected)
        self.compared += 1
        if value.shape != expected.shape:
            self.faults.setdefault(what, f"shape {value.shape} for {expected.shape}")
        elif value.size:
            with np.errstate(all="ignore"):
                error = np.abs(value - expected).max() / max(smallest, np.abs(expected).max())
            if not error <= tolerance:
                self.faults.setdefault(what, f"differs by {error:.1e} of its size, more than {tolerance:.1e}")
        return what not in self.faults

    def same(self, what: str, value: Any, expected: Any) -> bool:
        """Compares every bit; NaN equals NaN."""
        value, expected = np.asarray(value), np.asarray(expected)
        self.compared += 1
        if value.shape != expected.shape or not np.array_equal(value, expected, equal_nan=value.dtype.kind == "f"):
            self.faults.setdefault(what, "is not the same, bit for bit")
        return what not in self.faults

    def wrong(self, what: str, text: str) -> None:
        self.faults.setdefault(what, text)

    def refusal(self, what: str, call: Callable[[], Any]) -> None:
        """Calls what must be refused by an error of the project's own."""
        self.compared += 1
        try:
            call()
        except dynagate.Error as error:
            self.refused.append(str(error))
        except Exception as error:
            self.wrong(what, f"ends in {type(error).__name__}: {error}")
        else:
            self.wrong(what, "is not refused")

    def guarded(self, what: str, call: Callable[[], Any]) -> Any:
        """What a call returns; None where the project refuses it. Any other error out of the project is a fault."""
        try:
            return call()
        except dynagate.Error as error:
            self.refused.append(f"{what}: {error}")
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if not any(frame.filename.startswith(PACKAGE) for frame in frames):
                raise  # the fuzzer's own, as of a case that lacks what it needs
            self.wrong(f"{what} {type(error).__name__}", f"{error} ({frames[-1].name}, line {frames[-1].lineno})")
        return None
