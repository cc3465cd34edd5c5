"""Draw the README's bar chart of speed from docs/figures.json. `python docs/figures.py` writes the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

CPU, CARD = "iiwa14-intel-xeon-avx512f", "iiwa14-nvidia-h100"
CARD_PEER = f"{CARD}-grid"
"""Run of GRiD, which was measured on another day on the same kind of card."""

GRADIENT = "forward_dynamics_gradient"
CARD_BATCH = 65536
ASSUMED_MHZ = 250
WIDTH, LABELS, RIGHT = 860, 350, 110
BAR, GAP = 20, 6
LOW, HIGH = 0.1, 10_000.0
"""Nanoseconds at the two ends of the axis."""

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.head { font-weight: 600 } .note { font-size: 11px; fill: #59636e } .grid { stroke: #d1d9e0 }
.ours { fill: #0969da } .other { fill: #9aa4ae } .modeled { fill: url(#hatch) }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .note { fill: #9198a1 } .grid { stroke: #3d444d }
  .ours { fill: #4493f8 } .other { fill: #656c76 }
}"""


def rows(kept: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str, float]]]]:
    """Return groups of bars: the title of each, and the label, style and nanoseconds of its bars."""
    cpu, card, peer = (kept["runs"][name]["figures"] for name in (CPU, CARD, CARD_PEER))
    design = kept["designs"]["iiwa14 gradient, 24 bits, II 8"]
    fixed = design["interval_cycles"] / ASSUMED_MHZ * 1e3
    return [
        (
            "One call, float64, one CPU core",
            [
                ("Pinocchio, C++", "other", cpu[f"{GRADIENT}/pinocchio"]["ns"]),
                ("Pinocchio's algorithms, C by CasADi", "other", cpu[f"{GRADIENT}/casadi"]["ns"]),
                ("dynagate, C", "ours", cpu[f"{GRADIENT}/call/float64"]["ns"]),
            ],
        ),
        (
            "Per state of a batch of 1,024, one CPU core",
            [
                ("dynagate, C, float64", "ours", cpu[f"{GRADIENT}/float64/packed planes/1024"]["ns"]),
                ("dynagate, C, float32", "ours", cpu[f"{GRADIENT}/float32/packed planes/1024"]["ns"]),
            ],
        ),
        (
            "Per state of a batch of 65,536, float32, one H100",
            [
                ("GRiD", "other", peer[f"{GRADIENT}/grid/{CARD_BATCH}"]["ns"] / CARD_BATCH),
                ("dynagate, CUDA", "ours", card[f"{GRADIENT}/cuda float32/resident/{CARD_BATCH}"]["ns"] / CARD_BATCH),
            ],
        ),
        (
            "Per state of a stream, 24-bit fixed point, one FPGA",
            [(f"dynagate, datapath, modeled at {ASSUMED_MHZ} MHz", "modeled", fixed)],
        ),
    ]


def drawn(kept: Mapping[str, Any]) -> str:
    """Return the picture as SVG, with a logarithmic axis. Bars of modeled figures are hatched."""
    groups = rows(kept)
    span = WIDTH - LABELS - RIGHT
    place = lambda ns: LABELS + span * math.log10(ns / LOW) / math.log10(HIGH / LOW)  # noqa: E731
    y, body = 30, []
    for title, bars in groups:
        body.append(f'<text class="head" x="8" y="{y + 14}">{title}</text>')
        y += BAR + GAP
        for label, style, ns in bars:
            number = f"{ns:,.0f}" if ns >= 100 else f"{ns:.3g}"
            body += [
                f'<text x="{LABELS - 10}" y="{y + 15}" text-anchor="end">{label}</text>',
                f'<rect class="{style}" x="{LABELS}" y="{y}" width="{place(ns) - LABELS:.1f}" height="{BAR}" rx="2"/>',
                f'<text x="{place(ns) + 6:.1f}" y="{y + 15}">{number} ns</text>',
            ]
            y += BAR + GAP
        y += GAP
    ticks = [10.0**k for k in range(round(math.log10(LOW)), round(math.log10(HIGH)) + 1)]
    grid = [f'<path class="grid" d="M{place(ns):.1f} 26V{y}"/>' for ns in ticks]
    numbers = [
        f'<text class="note" x="{place(ns):.1f}" y="{y + 14}" text-anchor="middle">{ns:g}</text>' for ns in ticks
    ]
    cpu, card = (kept["runs"][name] for name in (CPU, CARD))
    note = (
        f"{cpu['cpu']} with AVX-512, {cpu['compiler']}, {cpu['date']}; {card['cpu']}, {card['compiler']}, "
        f"{card['date']}. Shorter is faster."
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 42}" role="img">',
        f"<style>{STYLE}</style>",
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="ours" width="3" height="6"/></pattern></defs>',
        '<text class="head" x="8" y="16">Gradient of forward dynamics of iiwa14: nanoseconds, logarithmic</text>',
        *grid,
        *body,
        *numbers,
        f'<text class="note" x="8" y="{y + 34}">{note}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
