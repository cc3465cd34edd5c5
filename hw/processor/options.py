"""Convert the options and the region of a design.json into Python objects."""

from __future__ import annotations

from typing import Any

from dynagate.design.design import Design
from dynagate.design.program import ProgramBody
from dynagate.dynamics.functions.options import AlgorithmOptions


def options_of(design: Design[ProgramBody]) -> AlgorithmOptions:
    """Return the options of the algorithm. Raises TypeError, ValueError: the design has unknown options."""
    return AlgorithmOptions(**{name: tuples(value) for name, value in design.options.items()})


def tuples(value: Any) -> Any:
    """JSON's lists as tuples; the keys of a map of frames as numbers."""
    if isinstance(value, dict):
        return {int(key): link for key, link in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value
