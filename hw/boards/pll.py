"""Make the datapath's clock from a board's oscillator: by ECP5's phase-locked loop, or without change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from amaranth.hdl import Const, Instance, Module, Signal
from dynagate.base.errors import ArgumentError

OSCILLATOR = (400.0, 800.0)
"""Range of the loop's oscillator in MHz (Lattice FPGA-DS-02012, sysCLOCK PLL timing)."""
COMPARED = (10.0, 400.0)
"""Range of the frequency at the phase comparator in MHz."""


class Clock(Protocol):
    """A source of the datapath's clock."""

    @property
    def megahertz(self) -> float: ...

    def drive(self, m: Module, source: float, clock: Signal, output: Signal, locked: Signal) -> None:
        """Add the clock source to a module.

        Args:
            m: Module to add to.
            source: Frequency of `clock` in MHz.
            clock: Input clock.
            output: Output clock, driven here.
            locked: Driven here: 1 once the output clock runs.
        """


@dataclass(frozen=True)
class Oscillator:
    """The board's oscillator without change."""

    megahertz: float

    def drive(self, m: Module, source: float, clock: Signal, output: Signal, locked: Signal) -> None:
        """Connect the output to the input clock."""
        m.d.comb += [output.eq(clock), locked.eq(1)]


@dataclass(frozen=True)
class Pll:
    """Settings of ECP5's phase-locked loop."""

    into: int
    """Divider of the input clock."""
    feedback: int
    """Divider of the feedback."""
    out: int
    """Divider of the output clock."""
    megahertz: float
    """Frequency of the output in MHz."""

    def drive(self, m: Module, source: float, clock: Signal, output: Signal, locked: Signal) -> None:
        """Add the loop to a module, with the arguments of `Clock.drive`."""
        m.submodules.pll = self.instance(source, clock, output, locked)

    def instance(self, source: float, clock: Signal, output: Signal, locked: Signal) -> Instance:
        """Return the loop as an instance, with the arguments of `Clock.drive`."""
        off = dict.fromkeys(("PLLRST_ENA", "INTFB_WAKE", "STDBY_ENABLE", "DPHASE_SOURCE"), "DISABLED")
        zero = ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PLLWAKESYNC", "ENCLKOP")
        return Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=f"{source:g}",
            a_FREQUENCY_PIN_CLKOP=f"{self.megahertz:g}",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            **{f"p_{name}": value for name, value in off.items()},
            p_CLKI_DIV=self.into,
            p_CLKFB_DIV=self.feedback,
            p_CLKOP_DIV=self.out,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_CPHASE=self.out // 2 - 1,
            p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP",
            **{f"i_{name}": Const(0, 1) for name in zero},
            **{f"i_{name}": Const(1, 1) for name in ("PHASEDIR", "PHASESTEP", "PHASELOADREG")},
            i_CLKI=clock,
            i_CLKFB=output,
            o_CLKOP=output,
            o_LOCK=locked,
        )


def settings(source: float, least: float, most: float) -> list[Pll]:
    """Return the settings for output clocks in a range, the fastest first, each with the loop's oscillator near mid
    range.

    Args:
        source: Frequency of the input clock in MHz.
        least: Smallest output frequency in MHz.
        most: Largest output frequency in MHz.
    """
    best: dict[float, tuple[float, Pll]] = {}
    middle = sum(OSCILLATOR) / 2
    for into in range(1, 129):
        if not COMPARED[0] <= source / into <= COMPARED[1]:
            continue
        for feedback in range(1, 81):
            megahertz = source * feedback / into
            if not least <= megahertz <= most:
                continue
            for out in range(2, 129):
                if OSCILLATOR[0] <= megahertz * out <= OSCILLATOR[1]:
                    rank = abs(megahertz * out - middle)
                    if megahertz not in best or rank < best[megahertz][0]:
                        best[megahertz] = rank, Pll(into, feedback, out, megahertz)
    return [pll for _, (_, pll) in sorted(best.items(), reverse=True)]


def fastest(source: float, most: float) -> Pll:
    """Return the settings for the fastest output clock up to a frequency.

    Args:
        source: Frequency of the input clock in MHz.
        most: Largest output frequency in MHz.

    Raises:
        ArgumentError: The loop has no output clock that slow.
    """
    plls = settings(source, OSCILLATOR[0] / 128, most)
    if not plls:
        raise ArgumentError(
            f"no clock of up to {most:g} MHz from {source:g} MHz; expected {OSCILLATOR[0] / 128:g} or more",
            code="DG-BOARD-005",
        )
    return plls[0]
