"""A module with several arithmetic units next to each other, so that one simulation covers all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class UnitRack(wiring.Component):
    """The ports of all units, each with the label of its unit in front of its name."""

    def __init__(self, units: Mapping[str, Any]) -> None:
        self.units = units
        super().__init__(
            {
                f"{label}_{name}": member
                for label, unit in units.items()
                for name, member in unit.signature.members.items()
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect each port of the module to its unit."""
        m = Module()
        for label, unit in self.units.items():
            m.submodules[label] = unit
            for name, member in unit.signature.members.items():
                outer, inner = getattr(self, f"{label}_{name}"), getattr(unit, name)
                m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        return m
