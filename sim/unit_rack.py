"""A module with several arithmetic units, so that one simulation covers all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class UnitRack(wiring.Component):
    """Several units in one module. The names of their ports have the label of the unit as a prefix."""

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
