"""Decide when a sample begins and which program word is next."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.packets import BLOCK_LANES, CONTROL, REGION_SHIFT
from dynagate.hw.processor.isa.shape import BLOCK_BITS, LANE, LEVELS, Core

AHEAD = 3
"""Cycles between the choice of the next block and its first word."""


class Sequencer(wiring.Component):
    """Starts samples, runs through the blocks of the program for each step of a sample, and copies inputs.

    A block is a run of program words. AHEAD cycles before its end, the sequencer chooses what follows: the same loop
    again, the next block, the next step, or the next sample.

    ==============  ===  =============================================================================
    part            in   1: an entry of the table of blocks is written
    part_address    in   address of the entry
    part_value      in   32 bits: the entry
    full            in   2 bits: which halves of the buffer hold a sample
    entry           in   first block of the sample in each half
    taken           out  2 bits: which half has been copied
    sent            in   1: all results of a sample have been sent
    positive        in   1: a test was positive, so the loop continues
    inputs          in   number of inputs of a step
    ahead           in   number of samples that may be under way
    fixed           in   number of inputs that all steps share
    steps           in   number of steps of a sample
    idle            out  1: no sample is under way
    under_way       out  number of samples whose results have not all been sent
    address         out  address of the program word
    running         out  1: that address holds a word of the program
    loop_iteration out  iteration of the loop that the word belongs to
    sample          out  sample (0 or 1) that runs
    step            out  step of each of the two samples that runs, or ran last
    copying         out  1: an input is written to the shared memory
    copied          out  index of that input
    copies_from     out  half and index of that input in the buffer
    is_zero         out  1: the input is 0: the start flag in a step that is not the first
    stalls          in   1: a function's result is written instead of the input
    ==============  ===  =============================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        super().__init__(
            {
                "part": In(1),
                "part_address": In(REGION_SHIFT),
                "part_value": In(LANE),
                "full": In(2),
                "entry": In(BLOCK_BITS).array(2),
                "taken": Out(2),
                "sent": In(1),
                "positive": In(1),
                "inputs": In(core.input_bits + 1),
                "ahead": In(2),
                "fixed": In(core.input_bits + 1),
                "steps": In(core.input_bits + 1),
                "idle": Out(1),
                "under_way": Out(2),
                "address": Out(core.program_bits),
                "running": Out(1),
                "loop_iteration": Out(CONTROL["most"]),
                "sample": Out(1),
                "step": Out(core.input_bits + 1).array(2),
                "copying": Out(1),
                "copied": Out(core.input_bits),
                "copies_from": Out(core.input_bits + 1),
                "is_zero": Out(1),
                "stalls": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sample, step = Signal(init=1), Signal(self.core.input_bits + 1, reset_less=True)
        is_last = Signal(reset_less=True)
        steps = [Signal.like(step, name=f"step{k}") for k in range(2)]
        m.d.comb += [self.sample.eq(sample), *(port.eq(own) for port, own in zip(self.step, steps, strict=True))]
        go, again, begins = Signal(), Signal(), Signal()
        self._chosen(m, is_last, go, again, begins)
        # what was chosen holds from the block's first word on
        fresh, goes_on = Signal(reset_less=True), Signal(reset_less=True)  # of a sample, of an iteration
        with m.If(go | again):
            m.d.sync += [fresh.eq(go), goes_on.eq(again)]
        first = Signal()
        m.d.comb += first.eq(begins & (fresh | goes_on))
        m.d.sync += is_last.eq(step + 1 == self.steps)
        started = Signal(reset_less=True)
        m.d.sync += started.eq(first)
        with m.If(first):
            m.d.sync += [fresh.eq(0), goes_on.eq(0), step.eq(Mux(fresh, 0, step + 1)), sample.eq(sample ^ fresh)]
            for k in range(2):
                with m.If((sample ^ fresh) == k):
                    m.d.sync += steps[k].eq(Mux(fresh, 0, step + 1))
        self._copies(m, started, sample, step, is_last)
        return m

    def _chosen(self, m: Module, is_last: Signal, go: Signal, again: Signal, begins: Signal) -> None:
        """Choose the next block. go, again: it is the first of a sample, or of another step. begins: its first word is
        next.
        """
        block, following = Signal(BLOCK_BITS, reset_less=True), Signal(BLOCK_BITS, reset_less=True)
        current = self._table(m, following, begins)
        at_end, busy = self._words(m, current, begins), Signal()
        next_one, can_go, under_way = Signal(), Signal(reset_less=True), Signal(2)
        repeats, ends = self._repeats(m, current, at_end & busy, begins), Signal()
        delay = Signal(AHEAD - 1)
        m.d.comb += [
            ends.eq(at_end & busy & ~repeats & current["last"]),
            again.eq(ends & ~is_last),
            go.eq(((ends & is_last) | (~busy & ~delay.any())) & can_go),
            begins.eq(delay[-1]),
            self.idle.eq(~busy & ~delay.any() & (under_way == 0)),
            self.under_way.eq(under_way),
        ]
        m.d.sync += [
            delay.eq(Cat(go | (at_end & busy & ~(ends & is_last)), delay)),
            under_way.eq(under_way + go - self.sent),
            can_go.eq(self.full.bit_select(next_one, 1) & (under_way < self.ahead) & ~go),
        ]
        entry, first = Signal(BLOCK_BITS, reset_less=True), Array(self.entry)[next_one]
        behind = Signal(BLOCK_BITS, reset_less=True)
        m.d.sync += behind.eq(block + 1)
        with m.If(go):
            m.d.sync += [busy.eq(0), next_one.eq(~next_one), entry.eq(first), following.eq(first)]
        with m.Elif(at_end & busy):
            m.d.sync += [busy.eq(0), following.eq(Mux(repeats, current["target"], Mux(ends, entry, behind)))]
        with m.If(begins):
            m.d.sync += [busy.eq(1), block.eq(following)]

    def _table(self, m: Module, following: Signal, begins: Signal) -> dict[str, Value]:
        """Return the row of the running block in the table of blocks, valid from its first word on."""
        rows = []
        for lane, name in enumerate(BLOCK_LANES):
            memory = Memory(shape=unsigned(self._bits(name)), depth=1 << BLOCK_BITS, init=[])
            m.submodules[f"blocks_{name}"] = memory
            into, out = memory.write_port(), memory.read_port()
            m.d.comb += [
                into.addr.eq(self.part_address[len(BLOCK_LANES).bit_length() - 1 :]),
                into.data.eq(self.part_value),
                into.en.eq(self.part & (self.part_address[: len(BLOCK_LANES).bit_length() - 1] == lane)),
                out.addr.eq(following),
                out.en.eq(1),
            ]
            kept = Signal(self._bits(name), name=f"block_{name}", reset_less=True)
            with m.If(begins):
                m.d.sync += kept.eq(out.data)
            rows.append((name, kept, out.data))
        row: dict[str, Value] = {name: kept for name, kept, _ in rows}
        row |= {f"next_{name}": data for name, _, data in rows}
        low = 0
        for name, bits in CONTROL.items():
            row[name] = row["control"][low : low + bits]
            low += bits
        return row

    def _bits(self, lane: str) -> int:
        """Return the bits of an entry of the table of blocks."""
        own = {"start": self.core.program_bits, "words": self.core.program_bits, "control": sum(CONTROL.values())}
        return own.get(lane, self.core.program_bits + 2)

    def _words(self, m: Module, current: dict[str, Value], begins: Signal) -> Signal:
        """Count through the words of a block. Return whether the block ends AHEAD cycles later."""
        counter = Signal(self.core.program_bits + 2, reset_less=True)
        address = Signal(self.core.program_bits, reset_less=True)
        running, is_last_word, at_end = Signal(), Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += [self.address.eq(address), self.running.eq(running)]
        m.d.sync += [
            counter.eq(counter + 1),
            address.eq(address + 1),
            is_last_word.eq(counter == current["words"]),
            at_end.eq(counter == current["period"]),
        ]
        with m.If(begins):
            m.d.sync += [counter.eq(0), address.eq(current["next_start"]), running.eq(1)]
            m.d.sync += [is_last_word.eq(0), at_end.eq(0)]
        with m.Elif(is_last_word):
            m.d.sync += running.eq(0)
        return at_end

    def _repeats(self, m: Module, current: dict[str, Value], at_end: Value, begins: Signal) -> Signal:
        """Return whether the loop that ends with this block continues. Each nesting level has an iteration counter.

        Args:
            m: The module.
            current: Entries of the current block, and with "next_" of the block after it.
            at_end: Whether the block ends AHEAD cycles later.
            begins: Whether a block's first word is next.
        """
        iterations = [Signal(CONTROL["most"], name=f"iterations_of_level{k}") for k in range(LEVELS)]
        here, is_most = Signal(CONTROL["most"], reset_less=True), Signal(reset_less=True)
        more, repeats = Signal(reset_less=True), Signal()
        m.d.sync += [here.eq(Array(iterations)[current["level"]] + 1), is_most.eq(here == current["most"])]
        level = current["next_control"][CONTROL["target"] :][: CONTROL["level"]]
        with m.If(begins):
            m.d.sync += [more.eq(0), self.loop_iteration.eq(Array(iterations)[level])]
        with m.Elif(self.positive):
            m.d.sync += more.eq(1)
        m.d.comb += repeats.eq(current["repeats"] & ~is_most & (~current["until"] | more))
        for k, count in enumerate(iterations):
            with m.If(at_end & current["repeats"] & (current["level"] == k)):
                m.d.sync += count.eq(Mux(repeats, here, 0))
        return repeats

    def _copies(self, m: Module, started: Signal, sample: Signal, step: Signal, is_last: Signal) -> None:
        """Copy the inputs of a step to the shared memory; each step's own inputs follow those of earlier steps in the
        buffer.
        """
        copied = Signal(self.core.input_bits + 1, reset_less=True)
        place = Signal(self.core.input_bits, reset_less=True)
        behind = Signal(self.core.input_bits, reset_less=True)  # where this iteration's own inputs begin
        copying = Signal()
        m.d.comb += [
            self.copying.eq(copying),
            self.copied.eq(copied),
            self.copies_from.eq(Cat(place, sample)),
            self.is_zero.eq((copied == 0) & (step != 0)),
        ]
        with m.If(started):
            m.d.sync += [copying.eq(1), copied.eq(0), place.eq(0)]
            with m.If(step == 0):
                m.d.sync += behind.eq(self.fixed)
        with m.If(copying & ~self.stalls):
            m.d.sync += [copied.eq(copied + 1), place.eq(place + 1)]
            with m.If(copied + 1 == self.fixed):
                m.d.sync += place.eq(behind)
            with m.If(copied + 1 == self.inputs):
                m.d.sync += [copying.eq(0), behind.eq(behind + (self.inputs - self.fixed))]
                with m.If(is_last):
                    m.d.comb += self.taken.eq(1 << sample)
