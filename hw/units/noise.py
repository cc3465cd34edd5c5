"""Random numbers of `base.philox`, computed by one round with one multiplier.

A number passes the round several times. As many numbers are in the round at once as it has stages.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.base.philox import FACTOR, KEY_STEP, MEAN, ROUNDS, WIDTH
from dynagate.hw.units.latencies import NOISE_LATENCY, NOISE_WORD, ROUND_CYCLES
from dynagate.hw.units.multiply import MultiplyConst
from dynagate.hw.units.rescale import delayed


class Noise(wiring.Component):
    """Computes a random number o, NOISE_LATENCY cycles later.

    ========  ===  ==================================================================================
    asks      in   1: operands are present; the distance to earlier operands must fit ROUND_STARTS
    number    in   signed: index of the number, modulo 2**32
    draw      in   signed: index of the draw, modulo 2**32
    seed      in   signed: seed, modulo 2**32
    o         out  signed: the number; 0 if none was requested
    overflow  out  always 0: all numbers fit
    ========  ===  ==================================================================================

    Args:
        word: Bits of operands and result. Two bits of the result precede its binary point.
    """

    def __init__(self, word: int) -> None:
        self.word = word
        self.latency = NOISE_LATENCY
        operand = In(signed(word))
        results = {"o": Out(signed(word)), "overflow": Out(1)}
        super().__init__({"asks": In(1), "number": operand, "draw": operand, "seed": operand, **results})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b, key = (Signal(NOISE_WORD, name=name, reset_less=True) for name in ("first", "second", "key"))
        rounds, there = Signal(range(ROUNDS + 1), name="rounds", reset_less=True), Signal(name="there")
        again = Signal(name="again")
        m.d.comb += again.eq(there & (rounds != ROUNDS))
        begins = [Signal(NOISE_WORD, name=f"{name}_begins") for name in ("first", "second", "key")]
        operands = (self.number, self.draw, self.seed)
        for begin, back, fresh in zip(begins, (a, b, key), operands, strict=True):
            m.d.comb += begin.eq(Mux(again, back.as_signed(), fresh))

        m.submodules.product = product = MultiplyConst(NOISE_WORD + 1, FACTOR)
        m.d.comb += product.a.eq(begins[0])
        wait = product.latency
        assert wait + 1 == ROUND_CYCLES
        other, old = (delayed(m, each, wait, each.name) for each in begins[1:])
        m.d.sync += [
            there.eq(delayed(m, again | self.asks, wait, "there", reset=True)),
            rounds.eq(delayed(m, Mux(again, rounds, 0), wait, "rounds") + 1),
            a.eq(product.p[NOISE_WORD : 2 * NOISE_WORD] ^ old ^ other),
            b.eq(product.p[:NOISE_WORD]),
            key.eq(old + KEY_STEP),
        ]
        sums: list[Value] = []
        for word in (a, b):
            half = Signal(unsigned(NOISE_WORD // 2 + 1), name=f"{word.name}_halves", reset_less=True)
            m.d.sync += half.eq(word[: NOISE_WORD // 2] + word[NOISE_WORD // 2 :])
            sums.append(half)
        number = Signal(signed(WIDTH), name="result", reset_less=True)
        done = delayed(m, there & ~again, 1, "done", reset=True)
        m.d.sync += number.eq(Mux(done, sums[0] + sums[1] - MEAN, 0))
        m.d.comb += self.o.eq(Cat(Const(0, self.word - WIDTH), number).as_signed())
        return m
