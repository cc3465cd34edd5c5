"""Styles of Verilog: the default, and one for flows that refuse initial values and blocking assignments to registers.

In the default style, registers have initial values and a synchronous reset, tables are initialised memories, and a
clocked block may hold intermediate values. In the strict style:

1. Clocked blocks have only nonblocking assignments, and blocks without a clock only blocking ones.
2. There is no `initial` block and no initial value.
3. A register has an asynchronous reset or none. The reset ends in step with the clock.
4. The clock is never gated: a register that keeps its value has an enable.
5. A table is a function with a `case` statement.
6. A register that a soft reset keeps, such as one that describes a loaded program, is in the clock domain LASTING. Its
   reset is the asynchronous one only.
"""

from __future__ import annotations

from amaranth.hdl import ClockDomain, Module, ResetSignal, ShapeLike, Signal, Value
from dynagate.design.verilog_list import STRICT

LASTING = "lasting"
"""Clock domain of registers that a soft reset keeps. Its clock and reset are those of the domain "sync"."""


class AsynchronousReset:
    """Amaranth's `platform` for gateware whose registers have an asynchronous reset."""


def target_of(style: str) -> AsynchronousReset | None:
    """Return the platform that gateware is elaborated for."""
    return AsynchronousReset() if style == STRICT else None


def clock_domain(platform: object, name: str = "sync") -> ClockDomain:
    """Return a clock domain with the reset of the platform."""
    return ClockDomain(name, async_reset=isinstance(platform, AsynchronousReset))


def add_lasting_domain(m: Module, sync: ClockDomain, platform: object) -> None:
    """Add the clock domain LASTING to a module, for a platform with an asynchronous reset.

    Args:
        m: Module of the clock domain "sync".
        sync: That clock domain.
        platform: Platform of the module.
    """
    if isinstance(platform, AsynchronousReset):
        m.domains.lasting = lasting = clock_domain(platform, LASTING)
        lasting.clk, lasting.rst = sync.clk, sync.rst


def lasting_register(shape: ShapeLike, name: str, platform: object) -> tuple[Signal, str]:
    """Return a register that a soft reset keeps, and its clock domain.

    By default the register has no reset, and keeps its value through every reset. On a platform with an asynchronous
    reset it has no initial value, so that reset clears it.

    Args:
        shape: Shape of the register.
        name: Name of the register.
        platform: Platform of the module.
    """
    has_reset = isinstance(platform, AsynchronousReset)
    return Signal(shape, name=name, reset_less=not has_reset), LASTING if has_reset else "sync"


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
