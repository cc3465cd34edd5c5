"""Cores behind standard interfaces: AXI4-Stream of packets in and out, and AXI4-Lite registers."""

from __future__ import annotations

from amaranth.hdl import Const, DomainRenamer, Module, Signal, Value
from amaranth.lib.wiring import connect
from dynagate.base.errors import ArgumentError
from dynagate.base.ownership import head_lines, with_head
from dynagate.design.verilog_list import PLAIN
from dynagate.hw.export.style import AsynchronousReset, clock_domain
from dynagate.hw.processor.isa.shape import FETCH, FLAG_CYCLES, LOAD, NOISE, RESET_CYCLES, Core
from dynagate.hw.processor.rtl.core import Processor
from dynagate.hw.processor.rtl.iteration_memory import KEPT
from dynagate.hw.processor.rtl.program_memory import programmed
from dynagate.hw.processor.shell.dispatch import Collect, CoreEvents, Dispatch
from dynagate.hw.processor.shell.word_stream import BeatsToWords, InputBuffer, WordsToBeats
from dynagate.hw.rtl.accelerator import Accelerator, ShellStatus
from dynagate.hw.rtl.axi import PER_BATCH, Axi
from dynagate.hw.rtl.axi_lite import AxiLite
from dynagate.hw.rtl.regmap import BITS

TOP = "accelerator"
CORE_COMMAND = "dynagate bitstream --core --board NAME --only-project"
"""Command that writes the Verilog of cores for a board."""
"""Name of the Verilog module."""
MOST_CORES = 32
"""Largest number of cores in a shell."""
CORES = "cores"
"""Name of the clock domain of the cores, which a soft reset resets too."""
BATCH_BIT = 16
"""Bit of register `stream` that sets TLAST to end a batch."""


class CoreShell(Accelerator):
    """Cores of one shape behind AXI4-Stream and AXI4-Lite.

    Cores take samples in round-robin order, so results keep their order. A program is loaded into all cores. The
    Verilog depends only on the shape, the streams and the number of cores.

    Args:
        core: Shape of the cores.
        axi: Width of the streams and what TLAST ends.
        cores: Number of cores.
        has_tlast: Whether the source of packets sets TLAST, which a serial line does not.
    """

    def __init__(self, core: Core, axi: Axi, cores: int = 1, *, has_tlast: bool = True) -> None:
        self.core, self.cores = core, cores
        self.one_each = has_tlast and axi.last != PER_BATCH
        super().__init__(axi)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        soft, clear = self._clocked(m, platform)
        reset = self._lengthened(m, soft, platform)
        before, beats = InputBuffer(self.axi.width), WordsToBeats(self.axi.width)
        words = BeatsToWords(self.axi.width, one_each=self.one_each)
        dispatch, status = Dispatch(self.core, self.cores), CoreEvents(self.core, self.cores)
        collect = Collect(self.core, self.cores, always_last=self.axi.last != PER_BATCH)
        processors = [Processor(self.core) for _ in range(self.cores)]
        parts = {"before": before, "words": words, "dispatch": dispatch, "collect": collect, "status": status}
        cores = {f"processor{k}": processor for k, processor in enumerate(processors)}
        for name, part in {**parts, **cores, "beats": beats}.items():
            m.submodules[name] = DomainRenamer(CORES)(part)
        programmed(m, self.core, processors)
        connect(m, before.beats, words.beats)
        connect(m, words.words, dispatch.words)
        connect(m, collect.words, beats.words)
        for k, processor in enumerate(processors):
            connect(m, dispatch.cores[k], processor.i)
            connect(m, processor.o, collect.cores[k])
            connect(m, processor.status, status.cores[k])
        m.d.comb += [collect.restarts.eq(dispatch.restarts), collect.sent.eq(status.sent)]
        first = processors[0]  # all cores are loaded alike
        if self.core.floats:
            connect(m, first.input_points, dispatch.points)
            connect(m, first.output_points, collect.points)
        self._offer(m, beats, reset)
        self._controlled(m, soft, clear, self._registers(m, reset | clear, first, _events(words, dispatch, status)))
        m.d.comb += self._at_the_ports(before, reset)
        return m

    def _lengthened(self, m: Module, soft: Signal, platform: object) -> Signal:
        """Add the clock domain of the cores. Return its reset, which lasts RESET_CYCLES longer than each reset.

        In this time, the instructions under way end. Registers of pipelines therefore need no reset. An asynchronous
        reset has a register of its own, because nothing else may read it.
        """
        kinds = ("multiply_add", LOAD, *self.core.elementary, *((NOISE,) if self.core.noise else ()))
        assert FETCH + max(self.core.latency_of(kind) for kind in kinds) + FLAG_CYCLES < RESET_CYCLES
        reset, count = Signal(name="reset_of_cores", init=1), Signal(range(RESET_CYCLES), name="reset_cycles")
        m.domains.cores = cores = clock_domain(platform, CORES)
        cores.clk, cores.rst = self.clock, reset  # one clock, so that no register sees it later than others
        if isinstance(platform, AsynchronousReset):
            cores.rst = Signal(name="asynchronous_reset_of_cores", init=1)
        m.d.sync += count.eq(count + reset)
        for register in (reset,) if cores.rst is reset else (reset, cores.rst):
            with m.If(count == RESET_CYCLES - 1):
                m.d.sync += register.eq(0)
            with m.If(soft):
                m.d.sync += register.eq(1)
        return reset

    def _registers(self, m: Module, clear: Value, first: Processor, events: ShellStatus) -> AxiLite:
        """Add the AXI4-Lite registers.

        Args:
            m: Module to add them to.
            clear: Signal that sets the counters to 0.
            first: Core whose period and program checksum the registers show. All cores run the same program.
            events: Signals that the counters count.
        """
        values = {
            **self._identity(self.core.device_hash),
            "ii": first.period,
            **self._counters(m, clear, events, reset_less=True),
            "stream": Const(self.axi.width | (self.axi.last == PER_BATCH) << BATCH_BIT, BITS),
            "cores": Const(self.cores, BITS),
            "checksum": first.checksum,
        }
        return AxiLite(values)


def _events(words: BeatsToWords, dispatch: Dispatch, status: CoreEvents) -> ShellStatus:
    """Return the events that registers count."""
    overflowed = status.overflowed
    return ShellStatus(status.entered, status.left, status.bad, overflowed, overflowed, dispatch.dropped, words.hole)


def check_shell(core: Core, axi: Axi, cores: int) -> None:
    """Check that cores fit their shell.

    Raises:
        ArgumentError: The streams carry other words than the cores, or there are too many cores.
    """
    if axi.words != core.stream_words:
        raise ArgumentError(
            f"words '{axi.words}' of a processor; expected '{core.stream_words}': its core has floats={core.floats}",
            code="DG-CORE-033",
        )
    if type(cores) is not int or not 1 <= cores <= MOST_CORES:
        raise ArgumentError(f"{cores} cores; expected 1 to {MOST_CORES}", code="DG-CORE-034")


def shell_text(core: Core, axi: Axi, cores: int = 1, *, has_tlast: bool = True, style: str = PLAIN) -> str:
    """Return the Verilog of cores in their shell, module `accelerator`.

    Args:
        core: Shape of the cores.
        axi: Width of the streams and what TLAST ends.
        cores: Number of cores.
        has_tlast: Whether the source of packets sets TLAST.
        style: Style of the text, "plain" or "strict".

    Raises:
        ArgumentError: The streams carry other words than the cores, or there are too many cores.
    """
    check_shell(core, axi, cores)
    from dynagate.hw.export.netlist import verilog_text

    title = f"{cores} of {core.units} units, {core.word} bits; {core.hash}"
    shell = CoreShell(core, axi, cores, has_tlast=has_tlast)
    text = verilog_text(shell, TOP, blank=True, zeroed=[KEPT], style=style)
    return with_head(f"{TOP}.v", text, (title, *head_lines(CORE_COMMAND)))
