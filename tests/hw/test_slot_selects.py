"""Multiplexers by slot: each slot gets its value, and no more lookup tables are built than counted."""

from __future__ import annotations

import pytest
from amaranth.hdl import Const, Module, Signal, signed
from amaranth.sim import Simulator
from dynagate.hw.units.slot_selects import SlotSelects, choose, tables, tables_by_counter, tables_of

PATTERNS = [
    "00000000",
    "01010101",
    "01234567",
    "01230123",
    "00112233",
    "0120120",
    "01234560",
    "0123456789abcdef",
    "abcdefa",
    "a-b-",
    "-ab---cd",
    "a-bcde-f-abcdef-",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_slot_reads_its_way(pattern: str) -> None:
    m = Module()
    inputs = {key: Signal(signed(6), init=k - 7) for k, key in enumerate(sorted(set(pattern) - {"-"}))}
    inputs["0"] = Const(-3, 5)  # type: ignore[assignment]
    slots = SlotSelects(m, len(pattern), "unit")
    o = Signal(signed(6))
    m.d.comb += o.eq(choose([inputs.get(key) for key in pattern], slots))
    slots.finish()
    read: list[int] = []

    async def bench(ctx: object) -> None:
        for _ in range(3 * len(pattern)):
            read.append(ctx.get(o))  # type: ignore[attr-defined]
            await ctx.tick()  # type: ignore[attr-defined]

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    expected = {key: way.value if isinstance(way, Const) else way.init for key, way in inputs.items()}
    assert all(expected.get(key, value) == value for key, value in zip(pattern * 3, read, strict=True))


def test_tables_of_multiplexers() -> None:
    assert [tables(n) for n in (1, 2, 4, 5, 7, 8, 10)] == [0, 1, 1, 2, 2, 3, 3]
    assert tables_by_counter("01234567") == 3
    assert tables_of("01012323") == 1
    assert tables_of("01234560") == 2
    assert tables_of(["0", None, "1", None, None, "2", None, "3"]) == 1
    assert tables_by_counter(["0", None, None, "0"] * 4) == 0
