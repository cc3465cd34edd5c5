"""Tables on pages that are generated from docs/figures.json. `docs/figures.py` writes them between two comments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Figures = Mapping[str, Any]
Written = Callable[[Any, str], str]

GRADIENT, TORQUES = "forward_dynamics_gradient", "inverse_dynamics"
CPU = ("iiwa14-intel-xeon-avx512f", "hyq-intel-xeon-avx512f")
CARD, CARD_PEER = "iiwa14-nvidia-h100", "iiwa14-nvidia-h100-grid"
"""Runs on a GPU. GRiD was measured on another day, on a card of the same kind."""

CPU_ROWS = (
    ("gradient: Pinocchio, C++, float64", f"{GRADIENT}/pinocchio"),
    ("gradient: C that CasADi generates from Pinocchio, float64", f"{GRADIENT}/casadi"),
    ("gradient: one call, float64", f"{GRADIENT}/call/float64"),
    *(
        (f"gradient: per state of {batch:,}, {dtype}, {layout}", f"{GRADIENT}/{dtype}/{layout}/{batch}")
        for batch in (1024, 4096)
        for dtype, layouts in (("float32", ("packed planes", "packed rows", "rows")), ("float64", ("packed planes",)))
        for layout in layouts
    ),
    ("inverse dynamics: Pinocchio, C++, float64", f"{TORQUES}/pinocchio"),
    *(
        (f"inverse dynamics: per state of {batch:,}, float32, {layout}", f"{TORQUES}/float32/{layout}/{batch}")
        for batch, layout in ((1024, "planes"), (4096, "planes"), (4096, "rows"), (8192, "planes"))
    ),
)
CARD_BATCHES = (16, 256, 1024, 4096, 16384, 65536, 1048576)


def cpu(kept: Figures, written: Written) -> list[str]:
    """Return the rows of the table of one CPU core: time, and ratio to Pinocchio's single call."""
    runs = [kept["runs"][name]["figures"] for name in CPU]
    rows = [
        [label, *(_cell(run.get(name, {}), "ns", "times_pinocchio", written) for run in runs)]
        for label, name in CPU_ROWS
    ]
    return _table(["one core", "iiwa14", "HyQ"], rows)


def card(kept: Figures, written: Written) -> list[str]:
    """Return the rows of the table of the GPU: time of a batch, and ratio to GRiD's."""
    run, peers = kept["runs"][CARD]["figures"], kept["runs"][CARD_PEER]["figures"]
    rows = []
    for batch in CARD_BATCHES:
        ours, packed, double = (
            run.get(f"{GRADIENT}/cuda {kind}/{batch}", {})
            for kind in ("float32/resident", "float32/packed resident", "float64/resident")
        )
        peer = peers.get(f"{GRADIENT}/grid/{batch}", {})
        cells = [_cell(figure, "us", "", written) for figure in (ours, packed, double, peer)]
        rows.append([f"{batch:,}", *cells, written(peer["ns"] / ours["ns"], "x") if peer else ""])
    return _table(["batch", "float32", "float32, packed", "float64", "GRiD, float32", "ratio"], rows)


TABLES: dict[str, Callable[[Figures, Written], list[str]]] = {"cpu": cpu, "card": card}
"""Tables by the name in their page's comment."""


def _cell(figure: Figures, form: str, ratio: str, written: Written) -> str:
    parts = [written(figure["ns"], form)] if "ns" in figure else []
    return ", ".join(parts + ([written(figure[ratio], "x")] if ratio in figure else []))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
