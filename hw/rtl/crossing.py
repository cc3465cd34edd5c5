"""Registers for streams between two dies (SLR) of a device: one register on each side of every wire that crosses.

The wires between dies are slow. A register that launches a wire and a register that receives it, with nothing between
them, leave a complete clock period for the wire. A beat may therefore not wait for an answer of the other die in the
same cycle: the sink reports space in a FIFO, early enough for the beats that are still under way.
"""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from dynagate.hw.rtl.accelerator import ports as shell_ports
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.units.rescale import KEPT, PACKED

MODULE = "crossings"
"""Name of the Verilog module."""
LATENCY = 3
"""Cycles from the acceptance of a beat to the first cycle in which the other side offers it."""
UNDER_WAY = 5
"""Beats that may still arrive after the sink reports for the first time that its FIFO has no space.

Three were accepted in the cycles before, and are not counted in its level. One more is accepted before the report
arrives. The last is that of the cycle in which the FIFO reached the limit.
"""
DEPTH = 16
"""Beats in the FIFO of a sink: with fewer than 2 * UNDER_WAY, a stream could not carry a beat in every cycle."""
CROSSES = {**KEPT, **PACKED}
"""Attributes of a register at a crossing, which has to stay a flip-flop of its own."""


class CrossingStream(NamedTuple):
    """A stream among the ports of the shell: its payload, a valid and a ready."""

    name: str
    """Beginning of the names of its ports, such as s_axis_t or s_axil_aw."""
    payload: tuple[str, ...]
    """Names of the ports with the payload."""
    width: int
    """Bits of the payload."""
    into: bool
    """Whether the shell receives the stream."""


def channels(axi: Axi) -> tuple[CrossingStream, ...]:
    """Return the streams among the ports of a shell."""
    ports = shell_ports(axi)
    streams = []
    for valid, member in ports.items():
        name = valid.removesuffix("valid")
        if name == valid:
            continue
        payload = tuple(p for p in ports if p.startswith(name) and p not in (valid, f"{name}ready"))
        width = sum(ports[port].shape for port in payload)
        streams.append(CrossingStream(name, payload, width, member.flow is In))
    return tuple(streams)


class CrossingSource(wiring.Component):
    """The end of a crossing that sends.

    =======  ===  ====================================================================
    payload  in   payload of a beat
    valid    in   1: a beat is offered
    ready    out  1: the beat is accepted
    sent     out  to the other die: the payload, and above it 1 for a beat
    space    in   from the other die: its FIFO has space
    =======  ===  ====================================================================
    """

    def __init__(self, width: int) -> None:
        super().__init__(
            {"payload": In(width), "valid": In(1), "ready": Out(1), "sent": Out(width + 1), "space": In(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        launch = Signal(len(self.sent), reset_less=True, attrs=CROSSES)
        credit = Signal(reset_less=True, attrs=CROSSES)
        m.d.sync += [credit.eq(self.space), launch.eq(Cat(self.payload, self.valid & self.ready))]
        m.d.comb += [self.ready.eq(credit), self.sent.eq(launch)]
        return m


class CrossingSink(wiring.Component):
    """The end of a crossing that receives.

    =======  ===  ====================================================================
    payload  out  payload of a beat
    valid    out  1: a beat is offered
    ready    in   1: the beat is accepted
    sent     in   from the other die: the payload, and above it 1 for a beat
    space    out  to the other die: the FIFO has space
    =======  ===  ====================================================================
    """

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {"payload": Out(width), "valid": Out(1), "ready": In(1), "sent": In(width + 1), "space": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.fifo = fifo = SyncFIFO(width=self.width, depth=DEPTH)
        arrival = Signal(self.width + 1, reset_less=True, attrs=CROSSES)
        room = Signal(reset_less=True, attrs=CROSSES)
        m.d.sync += [arrival.eq(self.sent), room.eq(fifo.w_level <= DEPTH - UNDER_WAY)]
        m.d.comb += [
            fifo.w_data.eq(arrival[: self.width]),
            fifo.w_en.eq(arrival[self.width]),
            self.space.eq(room),
            self.payload.eq(fifo.r_data),
            self.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.ready),
        ]
        return m


class CrossingEnd(wiring.Component):
    """The registers of all streams on one die.

    The streams have the ports of the shell. `NAME_to` and `NAME_from` lead to the other die and come from it.

    Args:
        axi: Options of the streams.
        at_shell: Whether this is the die of the shell, and not that of the link to the host.
    """

    def __init__(self, axi: Axi, *, at_shell: bool) -> None:
        self.channels, self.at_shell = channels(axi), at_shell
        members = {name: member for name, member in shell_ports(axi).items() if name not in ("aclk", "aresetn")}
        wires = {}
        for channel in self.channels:
            forth, back = (Out, In) if self._sends(channel) else (In, Out)
            wires[f"{channel.name}_sent"] = forth(channel.width + 1)
            wires[f"{channel.name}_space"] = back(1)
        own = {name: member.flip() if at_shell else member for name, member in members.items()}
        super().__init__({**own, **wires})

    def _sends(self, channel: CrossingStream) -> bool:
        """Return whether a stream leaves this die."""
        return channel.into != self.at_shell

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for channel in self.channels:
            name = channel.name
            valid, ready = getattr(self, f"{name}valid"), getattr(self, f"{name}ready")
            payload = Cat(getattr(self, port) for port in channel.payload)
            sent, space = getattr(self, f"{name}_sent"), getattr(self, f"{name}_space")
            end: CrossingSource | CrossingSink
            if self._sends(channel):
                m.submodules[name] = end = CrossingSource(channel.width)
                m.d.comb += [end.payload.eq(payload), end.valid.eq(valid), ready.eq(end.ready)]
                m.d.comb += [sent.eq(end.sent), end.space.eq(space)]
            else:
                m.submodules[name] = end = CrossingSink(channel.width)
                m.d.comb += [payload.eq(end.payload), valid.eq(end.valid), end.ready.eq(ready)]
                m.d.comb += [end.sent.eq(sent), space.eq(end.space)]
        return m


class Crossings(wiring.Component):
    """Both ends: the ports of the shell for the link, and the same with the prefix `shell_` for the shell.

    A reset lasts at least LATENCY cycles: beats that are under way when it begins are dropped.
    """

    def __init__(self, axi: Axi) -> None:
        self.axi = axi
        members = shell_ports(axi)
        inside = {f"shell_{name}": m.flip() for name, m in members.items() if name not in ("aclk", "aresetn")}
        super().__init__({**members, **inside})

    def elaborate(self, platform: object) -> Module:
        from dynagate.hw.export.style import clock_domain

        m = Module()
        m.domains.sync = sync = clock_domain(platform)
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        ends = {False: CrossingEnd(self.axi, at_shell=False), True: CrossingEnd(self.axi, at_shell=True)}
        m.submodules.link, m.submodules.shell = ends[False], ends[True]
        for name, member in shell_ports(self.axi).items():
            if name in ("aclk", "aresetn"):
                continue
            outside, inside = getattr(self, name), getattr(self, f"shell_{name}")
            near, far = getattr(ends[False], name), getattr(ends[True], name)
            into = member.flow is In
            m.d.comb += [near.eq(outside), inside.eq(far)] if into else [outside.eq(near), far.eq(inside)]
        for channel in ends[True].channels:
            source, sink = ends[not channel.into], ends[channel.into]
            sent, space = f"{channel.name}_sent", f"{channel.name}_space"
            m.d.comb += [
                getattr(sink, sent).eq(getattr(source, sent)),
                getattr(source, space).eq(getattr(sink, space)),
            ]
        return m


def crossings_text(axi: Axi) -> str:
    """Return the Verilog of the module `crossings`."""
    from dynagate.hw.export.netlist import verilog_text

    return verilog_text(Crossings(axi), MODULE)
