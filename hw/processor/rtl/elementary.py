"""The function slot of a core: sine, cosine, reciprocal, square root, exponential, memory accesses and random numbers.

Each is computed by a unit of `hw.units`.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import KINDS, NOISE, READ, SHARING, Core
from dynagate.hw.units.exp import Exp
from dynagate.hw.units.latencies import SHIFT_BITS
from dynagate.hw.units.noise import Noise
from dynagate.hw.units.reciprocal import Reciprocal
from dynagate.hw.units.rescale import delayed
from dynagate.hw.units.root import Root
from dynagate.hw.units.sincos import SinCos


class FunctionUnits(wiring.Component):
    """Computes one function per cycle at most. Results arrive after the latency of their kind; a schedule has no two at
    once.

    ========  ===  ===============================================================
    x         in   signed: the operand
    y, z      in   signed: draw and seed of a random number
    kind      in   0 for no function, else the index in KINDS plus one
    shift     in   signed: difference of binary points, for a reciprocal
    place     in   address that the result is written to
    valid     out  1: a result arrives in this cycle
    o         out  signed: the result
    to        out  address that the result is written to
    overflow  out  1: the result does not fit
    ========  ===  ===============================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        fields = core.function_fields
        super().__init__(
            {
                **{name: In(signed(core.word)) for name in "xyz"},
                "kind": In(fields["kind"]),
                "shift": In(signed(SHIFT_BITS)),
                "place": In(fields["place"]),
                "valid": Out(1),
                "o": Out(signed(core.word)),
                "to": Out(fields["place"]),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        core = self.core
        kinds = {name: k + 1 for k, name in enumerate(KINDS)}
        m.submodules.sincos = sincos = SinCos(core.angle, core.sine)
        m.submodules.reciprocal = reciprocal = Reciprocal(core.word, core.word)
        m.submodules.root = root = Root(core.word, core.word, core.root_shift)
        m.d.comb += [
            sincos.x.eq(self.x),
            sincos.cosine.eq(self.kind == kinds["cos"]),
            reciprocal.x.eq(self.x),
            reciprocal.shift.eq(self.shift),
            root.x.eq(self.x),
        ]
        units: dict[str, tuple[Any, tuple[str, ...]]] = {
            "sincos": (sincos, ("sin", "cos")),
            "reciprocal": (reciprocal, ("normalized_reciprocal",)),
            "root": (root, ("sqrt",)),
        }
        if core.exp_bits:
            m.submodules.exp = exponential = Exp(*core.exponential)
            m.d.comb += exponential.x.eq(self.x)
            units["exp"] = exponential, ("exp",)
        if core.noise:
            m.submodules.noise = noise = Noise(core.word)
            m.d.comb += [noise.number.eq(self.x), noise.draw.eq(self.y), noise.seed.eq(self.z)]
            m.d.comb += noise.asks.eq(self.kind == kinds[NOISE])
            units["noise"] = noise, (NOISE,)
        for name, (unit, ops) in units.items():
            latency = core.latency_of(ops[0]) - READ - SHARING - 1
            assert unit.latency == latency, f"{name} takes {unit.latency} cycles, not {latency}"
            asked = Signal(name=f"asks_{name}")
            m.d.comb += asked.eq(sum((self.kind == kinds[op] for op in ops[1:]), start=self.kind == kinds[ops[0]]))
            valid = delayed(m, asked, latency, f"{name}_valid")
            place = delayed(m, self.place, latency, f"{name}_place")
            with m.If(valid):
                m.d.comb += [self.valid.eq(1), self.o.eq(unit.o), self.to.eq(place), self.overflow.eq(unit.overflow)]
        return m
