"""The comparison as text and as figures in the manner of the paper's: single calls, partitions, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dynagate.base.errors import MissingExtraError
from dynagate.bench import deadline, rollouts

GRADIENT = "forward_dynamics_gradient"


def text(result: dict[str, Any]) -> str:
    """Tables; every ratio is of two figures measured in this run."""
    machine, peer = result["machine"], result["pinocchio"]
    times, generated = ({} if isinstance(p, str) else p["times"] for p in (peer, result["casadi"]))
    absent = f" ({peer})" if isinstance(peer, str) else ""
    card = result["cuda"]
    optional = {"CasADi": result["casadi"], "a GPU": card}
    if not isinstance(card, str):
        optional |= {"arrays on the GPU": card["resident"], "GRiD": card["grid"]}
    missing = [f"without {name}: {why}" for name, why in optional.items() if isinstance(why, str)]
    lines = [
        f"{result['robot']}, {result['degrees_of_freedom']} degrees of freedom, on {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['vectors']}; {machine['compiler']}",
        f"times in ns, median; ratios to Pinocchio's C++ in double, one core, single calls{absent}",
        *missing,
        "",
        f"{'single call':<28}{'Pinocchio':>10}{'CasADi':>10}{'float64':>10}{'ratio':>7}{'float32':>10}{'ratio':>7}",
    ]
    for name, row in result["single_call"].items():
        cells = [row[dtype]["ns"] for dtype in ("float64", "float32")]
        figures_of_row = "".join(f"{c:>10.0f}{_ratio(times, name, c):>7}" for c in cells)
        lines.append(f"{name:<28}{_number(times, name):>10}{_number(generated, name):>10}{figures_of_row}")
    lines += ["", *_throughput(result, times)]
    lines += ["", f"{GRADIENT}, end to end, µs per batch", *_grid(result)]
    lines += _resident(card)
    lines += ["", rollouts.text(result["rollouts"])]
    lines += [
        "",
        "relative L2 error over all states      " + "".join(f"{b:>10}" for b in result["accuracy"]["float32"]),
    ]
    for label, blocks in result["accuracy"].items():
        lines.append(f"  {label:<36} " + "".join(f"{e:>10.1e}" for e in blocks.values()))
    if not isinstance(peer, str) and peer["float32_error"]:
        dq, dqd = peer["float32_error"]
        lines.append(f"  {'Pinocchio float32':<36} {'':>10}{dq:>10.1e}{dqd:>10.1e}")
    lines += ["", *deadline.lines(result["deadline"]), ""]
    model = result["fpga_modelled"]
    clock, link = model["clock_hz_assumed"] / 1e6, model["link_bytes_per_second_assumed"] / 1e9
    each_way = model["link_seconds_assumed"] * 1e6
    lines += [
        f"modelled: II = {model['ii']}, {model['latency_cycles']} cycles, at an assumed {clock:.0f} MHz, on an assumed",
        f"link of {link:g} GB/s and {each_way:g} µs each way; nothing of it was measured on a board",
    ]
    return "\n".join(lines)


def _throughput(result: dict[str, Any], times: dict[str, Any]) -> list[str]:
    """A line per function, dtype and layout; a pair of columns per batch and number of threads."""
    rows = result["throughput"]
    columns = list(dict.fromkeys((row["batch"], row["threads"]) for row in rows))
    heads = [f"{batch}" + (f", {threads} threads" if threads > 1 else "") for batch, threads in columns]
    lines = [f"{'ns per sample, batches of':<50}" + "".join(f"{head:>18}" for head in heads)]
    cells: dict[tuple[str, str, str], str] = {}
    for row in rows:
        key = (row["function"], row["dtype"], row["layout"])
        cell = f"{row['ns']:>7.1f} ±{row['spread']:<3.0f}{_ratio(times, row['function'], row['ns']):>6}"
        cells[key] = cells.get(key, "") + cell
    return lines + [f"{name:<28}{dtype:>8}{layout:>14}{cell}" for (name, dtype, layout), cell in cells.items()]


def _resident(card: dict[str, Any] | str) -> list[str]:
    """Batches that stay on the GPU; ratios to GRiD's kernel, launches and calls each."""
    if isinstance(card, str) or isinstance(card["resident"], str):
        return []
    peer = {} if isinstance(card["grid"], str) else {row["batch"]: row for row in card["grid"]}
    head = f"{'N':>9}" + "".join(f"{layout:>30}" for layout in dict.fromkeys(r["layout"] for r in card["resident"]))
    lines = [
        "",
        f"{GRADIENT}, float32, arrays on {card['card']}: µs of a launch in a CUDA graph (millions a second,",
        "ratio to GRiD's), of a call from Python that is waited for",
        head + (f"{'GRiD':>22}" if peer else ""),
    ]
    cells: dict[int, str] = {}
    for row in card["resident"]:
        batch, ns = row["batch"], row["ns"]
        ratio = f"{peer[batch]['ns'] / ns:>6.1f}×" if batch in peer else f"{'':>7}"
        cells[batch] = (
            cells.get(batch, "") + f"{ns / 1e3:>8.1f}{batch / ns * 1e3:>6.0f}{ratio}{row['call_ns'] / 1e3:>9.1f}"
        )
    for batch, figures_of_row in cells.items():
        also = f"{peer[batch]['ns'] / 1e3:>12.1f}{peer[batch]['call_ns'] / 1e3:>10.1f}" if batch in peer else ""
        lines.append(f"{batch:>9}{figures_of_row}{also}")
    return lines


def _number(times: dict[str, Any], name: str) -> str:
    return f"{times[name][0]:.0f}" if name in times else "-"


def _ratio(times: dict[str, Any], name: str, ns: float) -> str:
    return f"{times[name][0] / ns:.1f}×" if name in times else "-"


def series(result: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Device -> batch -> microseconds, end to end."""
    lines: dict[str, dict[int, float]] = {}
    for row in result["batches"]:
        label = f"{row['device']} {row['dtype']}" + (f" {row['threads']} threads" if row["threads"] > 1 else "")
        label += " packed" if row["packed"] else ""
        lines.setdefault(label, {})[row["batch"]] = row["ns"] / 1e3
    for row in result["partitions"]:
        lines.setdefault(f"partition {row['partition']}", {})[row["batch"]] = row["ns"] / 1e3
    if not isinstance(result["cuda"], str):
        for row in result["cuda"]["host"]:
            lines.setdefault(f"cuda float32, {row['results']} results", {})[row["batch"]] = row["ns"] / 1e3
        for row in result["cuda"]["partitions"] if not isinstance(result["cuda"]["partitions"], str) else ():
            lines.setdefault(f"cuda partition {row['partition']}", {})[row["batch"]] = row["ns"] / 1e3
    lines["FPGA (modelled)"] = {row["batch"]: row["ns"] / 1e3 for row in result["fpga_modelled"]["batches"]}
    return lines


def _grid(result: dict[str, Any]) -> list[str]:
    lines_by_label = series(result)
    batches = sorted(next(iter(lines_by_label.values())))
    lines = [f"  {'N':<28}" + "".join(f"{n:>10}" for n in batches)]
    return lines + [
        f"  {label:<28}" + "".join(f"{row[n]:>10.1f}" for n in batches) for label, row in lines_by_label.items()
    ]


def figures(result: dict[str, Any], folder: Path) -> list[Path]:
    """PNG files: single calls by stage, partitions, end to end. Raises RuntimeError: matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("figures need matplotlib: pip install 'dynagate[bench]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    peer = result["pinocchio"]
    paths = []

    single = Figure(figsize=(7, 4), layout="constrained")
    axes = single.subplots()
    stages = list(result["single_call"])
    bars = {dtype: [result["single_call"][s][dtype]["ns"] for s in stages] for dtype in ("float64", "float32")}
    if not isinstance(peer, str):
        bars = {"Pinocchio": [peer["times"][s][0] for s in stages], **bars}
    for k, (label, values) in enumerate(bars.items()):
        axes.bar([x + 0.27 * (k - 1) for x in range(len(stages))], values, 0.25, label=label)
    axes.set_xticks(range(len(stages)), [s.replace("_", "\n") for s in stages], fontsize=8)
    axes.set_ylabel("ns per call")
    axes.set_title(f"{result['robot']}: one call, one core", parse_math=False)
    axes.legend()
    paths.append(_saved(single, folder / "single_call.png"))

    for name, belongs, title in (
        ("partitions", lambda label: "partition" in label, "partitions of the gradient in C, and on a GPU"),
        ("batches", lambda label: "partition" not in label, "gradient, end to end"),
    ):
        drawn = Figure(figsize=(7, 4), layout="constrained")
        axes = drawn.subplots()
        for label, row in series(result).items():
            if belongs(label):
                dashed = "--" if "modelled" in label else "-"
                axes.loglog(list(row), list(row.values()), dashed, marker="o", markersize=3, label=label)
        axes.set_xlabel("samples in the batch")
        axes.set_ylabel("µs per batch")
        axes.set_title(f"{result['robot']}: {title}", parse_math=False)
        axes.legend(fontsize=8)
        paths.append(_saved(drawn, folder / f"{name}.png"))
    return paths


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=150)
    return path
