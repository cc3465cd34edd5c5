"""The comparison as figures in the manner of the paper's: single calls, partitions, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dynagate.base.figures import grid, new_figure, plain_logarithmic, saved
from dynagate.bench.report import series, spreads

PARTITIONS = (
    "split: a kernel for each of q̈, M⁻¹ and the gradient of inverse dynamics, their product by numpy; fused: the "
    "product within the last kernel; completely fused: one kernel. FPGA: the last kernel modelled, the rest measured"
)


def figures(result: dict[str, Any], folder: Path) -> list[Path]:
    """PNG files: single calls by stage, partitions, end to end. Raises MissingExtraError: matplotlib is missing."""
    figure = new_figure(7, 4, "bench")
    folder.mkdir(parents=True, exist_ok=True)
    on_gpu = " in C and on a GPU" if any("cuda partition" in label for label in series(result)) else " in C"
    titles = {"partitions": f"partitions of the gradient{on_gpu}", "batches": "gradient, end to end"}
    return [
        _single_calls(figure, result, folder / "single_call.png"),
        *(_curves(result, folder / f"{name}.png", name, title) for name, title in titles.items()),
    ]


def _origin(result: dict[str, Any]) -> str:
    """Machine, compiler and date of the measurement."""
    machine = result["machine"]
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['vectors']}; {machine['compiler']}; "
        f"Python {machine['python']}, numpy {machine['numpy']}; {machine.get('date', 'no date kept')}"
    )


def _single_calls(figure: Any, result: dict[str, Any], path: Path) -> Path:
    """Bars with their numbers; whiskers are the distance of the quartiles."""
    axes = figure.subplots()
    peer, stages = result["pinocchio"], list(result["single_call"])
    bars = {
        dtype: [(row[dtype]["ns"], row[dtype]["spread"]) for row in result["single_call"].values()]
        for dtype in ("float64", "float32")
    }
    notes = ["median; whiskers: distance of the quartiles", _origin(result)]
    if isinstance(peer, str):
        notes.insert(0, f"without Pinocchio: {peer}")
    else:
        bars = {"Pinocchio": [tuple(peer["times"][stage][:2]) for stage in stages], **bars}
    bars["datapath (modelled, no link)"] = [(result["fpga_modelled"]["single_call"][stage], 0.0) for stage in stages]
    width = 0.8 / len(bars)
    for k, (label, values) in enumerate(bars.items()):
        places = [x + width * (k - (len(bars) - 1) / 2) for x in range(len(stages))]
        heights, errors = [ns for ns, _ in values], [spread / 2 for _, spread in values]
        drawn = axes.bar(
            places, heights, 0.93 * width, yerr=errors, capsize=2, label=label, error_kw={"linewidth": 0.7}
        )
        axes.bar_label(drawn, fmt="%.0f", fontsize=6, padding=1)
    axes.set_xticks(range(len(stages)), [s.replace("_", "\n") for s in stages], fontsize=8)
    axes.set_ylabel("ns per call")
    axes.set_title(f"{result['robot']}: one call, one core", parse_math=False)
    grid(axes)
    axes.legend()
    return saved(figure, path, notes)


def _curves(result: dict[str, Any], path: Path, name: str, title: str) -> Path:
    """Time by batch on logarithmic axes, the legend beside them; bands are the distance of the quartiles."""
    figure = new_figure(9, 4.5, "bench")
    axes = figure.subplots()
    apart = spreads(result)
    for label, row in series(result).items():
        if ("partition" in label) != (name == "partitions"):
            continue
        dashed = "--" if "modelled" in label else "-"
        (line,) = axes.loglog(list(row), list(row.values()), dashed, marker="o", markersize=3, label=label)
        half = [apart[label][batch] / 2 for batch in row]
        low = [max(us - each, us / 10) for us, each in zip(row.values(), half, strict=True)]
        high = [us + each for us, each in zip(row.values(), half, strict=True)]
        axes.fill_between(list(row), low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("samples in the batch")
    axes.set_ylabel("µs per batch")
    axes.set_title(f"{result['robot']}: {title}", parse_math=False)
    plain_logarithmic(axes.xaxis)
    plain_logarithmic(axes.yaxis)
    grid(axes)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    notes = [PARTITIONS] if name == "partitions" else []
    return saved(figure, path, [*notes, "median; bands: distance of the quartiles", _origin(result)])
