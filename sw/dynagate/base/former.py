"""Names that were called otherwise before: what errors say to write now."""

from __future__ import annotations

CALLS = {"open": "a robot is compiled: write dynagate.compile(robot, function)"}
"""Calls whose arguments changed -> what to write."""

NAMES = {
    "Accelerator": "dynagate.Function",
    "Opened": "dynagate.Function",
    "ChipRollout": "dynagate.Device",
    "Build": "dynagate.Design",
    "ProcessorBuild": "dynagate.Design",
}
"""Names of the package -> the names now."""
