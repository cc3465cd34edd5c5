"""Styles of Verilog: the default, and one for flows that refuse initial values and blocking assignments to registers.

In the default style, registers have initial values and a synchronous reset, tables are initialised memories, and a
clocked block may hold intermediate values. In the strict style:

1. Clocked blocks have only nonblocking assignments, and blocks without a clock only blocking ones.
2. There is no `initial` block and no initial value.
3. A register has an asynchronous reset or none. The reset ends in step with the clock.
4. The clock is never gated: a register that keeps its value has an enable.
5. A table is a function with a `case` statement.
"""

from __future__ import annotations

from amaranth.hdl import ClockDomain, Module, ResetSignal, Signal, Value
from dynagate.design.verilog_list import STRICT


class AsynchronousReset:
    """Amaranth's `platform` for gateware whose registers have an asynchronous reset."""


def target_of(style: str) -> AsynchronousReset | None:
    """Return the platform that gateware is elaborated for."""
    return AsynchronousReset() if style == STRICT else None


def clock_domain(platform: object, name: str = "sync") -> ClockDomain:
    """Return a clock domain with the reset of the platform."""
    return ClockDomain(name, async_reset=isinstance(platform, AsynchronousReset))


def reset_with(m: Module, soft: Value, platform: object) -> Value:
    """Return the reset of an instance that a soft reset clears too.

    An asynchronous reset comes from a register, because the output of a gate may have glitches.

    Args:
        m: Module with the instance.
        soft: Soft reset, a signal of the clock domain.
        platform: Platform of the module.
    """
    if not isinstance(platform, AsynchronousReset):
        return ResetSignal() | soft
    register = Signal(name="datapath_reset", init=1)
    m.d.sync += register.eq(soft)
    return register
