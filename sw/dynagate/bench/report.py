"""The figures of `dynagate bench` as text: single calls, batches, end to end."""

from __future__ import annotations

from typing import Any

from dynagate.bench import contacts, deadline, paper, rollouts, solvers

GRADIENT = "forward_dynamics_gradient"


def text(result: dict[str, Any]) -> str:
    """Return tables of the figures. Every ratio compares two figures of this run."""
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
        *([result["left_out"]] if result["left_out"] else []),
        "",
        f"{'single call':<28}{'Pinocchio':>10}{'CasADi':>10}{'float64':>10}{'ratio':>7}{'float32':>10}{'ratio':>7}",
    ]
    for name, row in result["single_call"].items():
        cells = [row[dtype]["ns"] if dtype in row else None for dtype in ("float64", "float32")]
        figures_of_row = "".join(
            f"{'-':>10}{'-':>7}" if c is None else f"{c:>10.0f}{_ratio(times, name, c):>7}" for c in cells
        )
        lines.append(f"{name:<28}{_number(times, name):>10}{_number(generated, name):>10}{figures_of_row}")
    lines += ["", *_throughput(result, times)]
    lines += ["", f"{GRADIENT}, end to end, µs per batch", *_grid(result)]
    lines += _resident(card)
    lines += ["", rollouts.text(result["rollouts"]), "", solvers.text(result["solver"])]
    lines += ["", contacts.text(result["contacts"])] if "contacts" in result else []
    blocks = next(iter(result["accuracy"].values()))
    lines += [
        "",
        "relative L2 error over all states      " + "".join(f"{b:>10}" for b in blocks),
    ]
    for label, errors in result["accuracy"].items():
        lines.append(f"  {label:<36} " + "".join(f"{e:>10.1e}" for e in errors.values()))
    if not isinstance(peer, str) and peer["float32_error"]:
        dq, dqd = peer["float32_error"]
        lines.append(f"  {'Pinocchio float32':<36} {'':>10}{dq:>10.1e}{dqd:>10.1e}")
    lines += ["", *deadline.lines(result["deadline"]), "", *paper.text(result["paper"]), ""]
    return "\n".join([*lines, *_assumed(result["fpga_modeled"])])


def _assumed(model: dict[str, Any] | str) -> list[str]:
    """Return the assumptions of the modeled FPGA, or the reason why there is no model."""
    if isinstance(model, str):
        return [model]
    clock, link = model["clock_hz_assumed"] / 1e6, model["link_bytes_per_second_assumed"] / 1e9
    each_way = model["link_seconds_assumed"] * 1e6
    return [
        f"modeled: II = {model['ii']}, {model['latency_cycles']} cycles, at an assumed {clock:.0f} MHz, on an assumed",
        f"link of {link:g} GB/s and {each_way:g} µs each way; nothing of it was measured on a board",
    ]


def _throughput(result: dict[str, Any], times: dict[str, Any]) -> list[str]:
    """Return a line per function, dtype and layout, with a pair of columns per batch and number of threads."""
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
    """Return lines about batches that stay on the GPU, with ratios to GRiD's kernel."""
    if isinstance(card, str) or isinstance(card["resident"], str):
        return []
    peer = {} if isinstance(card["grid"], str) else {row["batch"]: row for row in card["grid"]}
    head = f"{'N':>9}" + "".join(f"{layout:>30}" for layout in dict.fromkeys(r["layout"] for r in card["resident"]))
    lines = [
        "",
        f"{GRADIENT}, arrays on {card['card']}: µs of a launch in a CUDA graph (millions a second,",
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
    """Return end-to-end times in µs by device, then by batch."""
    lines: dict[str, dict[int, float]] = {}

    def add(label: str, row: dict[str, Any]) -> None:
        lines.setdefault(label, {})[row["batch"]] = row["ns"] / 1e3

    for row in result["batches"]:
        label = f"{row['device']} {row['dtype']}" + (f" {row['threads']} threads" if row["threads"] > 1 else "")
        add(label + (" packed" if row["packed"] else ""), row)
    for row in result["partitions"]:
        add(f"partition {row['partition']}", row)
    if not isinstance(result["cuda"], str):
        for row in result["cuda"]["host"]:
            results, _, dtype = row["results"].partition(", ")
            add(f"cuda {dtype or 'float32'}, {results} results", row)
        for row in result["cuda"]["partitions"] if not isinstance(result["cuda"]["partitions"], str) else ():
            add(f"cuda partition {row['partition']}", row)
    model = result["fpga_modeled"]
    if not isinstance(model, str):
        for row in model["batches"]:
            add("FPGA (modeled)", row)
        for row in model["partitions"]:
            add(f"FPGA partition {row['partition']} (modeled)", row)
    return lines


def _grid(result: dict[str, Any]) -> list[str]:
    """Return end-to-end times as a table of devices and batches."""
    lines_by_label = series(result)
    batches = sorted(next(iter(lines_by_label.values())))
    lines = [f"  {'N':<28}" + "".join(f"{n:>10}" for n in batches)]
    return lines + [
        f"  {label:<28}" + "".join(f"{row[n]:>10.1f}" if n in row else f"{'-':>10}" for n in batches)
        for label, row in lines_by_label.items()
    ]
