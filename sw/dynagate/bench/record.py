"""A file of measured figures, from which documentation pages are filled.

The file has one entry per run: what was measured (robot, command, commit, date), on which machine, and every figure
with the relative error of the results that were timed.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dynagate
from dynagate.base.errors import ArgumentError

GRADIENT = "forward_dynamics_gradient"
TIMED_BLOCK = "dqdd_dq"
"""Output whose relative L2 error over 256 states is printed next to the times of the gradient."""


def added(result: Mapping[str, Any], path: Path, command: str) -> str:
    """Return the text of a file of figures with those of a run added.

    An entry of the same robot on the same processor is replaced; other entries stay. A GPU has its own entry.

    Args:
        result: Figures of `bench.comparison.compare`.
        path: JSON file of figures, which need not exist.
        command: Command line that measured them.

    Raises:
        ArgumentError: The file exists and is not a file of figures.
    """
    kept = read(path) if path.exists() else {"runs": {}, "designs": {}}
    kept["runs"][entry_name(result)] = {
        "robot": result["robot"],
        "command": command,
        "commit": commit(),
        **result["machine"],
        "figures": dict(measured(result)),
    }
    if isinstance(result.get("cuda"), Mapping):
        kept["runs"][card_name(result)] = card_run(result, command)
    return json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def card_run(result: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the entry of a GPU: its figures, with the card, the driver, the compiler and the date."""
    card = result["cuda"]
    return {
        "robot": result["robot"],
        "command": command,
        "commit": commit(),
        "cpu": card["card"],
        "driver": card["driver"],
        "compiler": card["compiler"],
        "date": result["machine"]["date"],
        "figures": dict(measured_on_card(card)),
    }


def card_name(result: Mapping[str, Any]) -> str:
    """Return a short name for a robot and a GPU, such as `iiwa14-nvidia-h100`."""
    words = re.findall(r"[a-z0-9]+", str(result["cuda"]["card"]).lower())[:2]
    return "-".join([str(result["robot"]), *words])


def measured_on_card(card: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and value of each figure of a GPU: arrays that stay there, calls, arrays in host memory, GRiD."""
    rows = card["grid"] if not isinstance(card["grid"], str) else []
    peer = {row["batch"]: row["ns"] for row in rows}
    for row in card["resident"] if not isinstance(card["resident"], str) else ():
        layout, _, dtype = row["layout"].partition(", ")
        kind = f"{GRADIENT}/cuda {dtype or 'float32'}"
        label = "resident" if layout == "rows" else f"{layout} resident"
        ratio = {"times_grid": _rounded(peer[row["batch"]] / row["ns"])} if row["batch"] in peer else {}
        yield f"{kind}/{label}/{row['batch']}", {"ns": _rounded(row["ns"]), **ratio}
        yield f"{kind}/{label} call/{row['batch']}", {"ns": _rounded(row["call_ns"])}
    for row in card["host"]:
        results, _, dtype = row["results"].partition(", ")
        if results == "the same":
            yield f"{GRADIENT}/cuda {dtype or 'float32'}/host/{row['batch']}", {"ns": _rounded(row["ns"])}
    for row in card["partitions"] if not isinstance(card["partitions"], str) else ():
        own = {"ns": _rounded(row["ns"]), "host_ns": _rounded(row["host_ns"])}
        yield f"{GRADIENT}/cuda {row['partition']}/{row['batch']}", own
    for name, step in card["steps"].items() if not isinstance(card["steps"], str) else ():
        yield f"{name}/cuda float32/resident/1", {"ns": _rounded(step["ns"])}
    for row in rows:
        yield f"{GRADIENT}/grid/{row['batch']}", {"ns": _rounded(row["ns"])}


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file of figures.

    Raises:
        ArgumentError: The file cannot be read, or is something else.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"{path} is not a file of figures: {error}. Use another file.", code="DG-BENCH-011"
        ) from None
    if not isinstance(kept, dict) or not all(isinstance(kept.get(part), dict) for part in ("runs", "designs")):
        raise ArgumentError(
            f'{path} is not a file of figures: no "runs" and "designs". Use another file.', code="DG-BENCH-012"
        )
    return kept


def entry_name(result: Mapping[str, Any]) -> str:
    """Return a short name for a robot and a processor, such as `iiwa14-amd-epyc-avx2`."""
    machine = result["machine"]
    processor = re.sub(r"\(\w+\)|cpu|processor|@.*", " ", f"{machine['cpu']}".lower())
    words = re.findall(r"[a-z0-9]+", processor)[:3]
    return "-".join([str(result["robot"]), *words, str(machine["vectors"])])


def commit() -> str:
    """Return the commit of the checkout that the package runs from, or the package's version without a checkout."""
    place = Path(dynagate.__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(place), "describe", "--always", "--dirty", "--abbrev=10"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return f"version {dynagate.__version__}"
    return done.stdout.strip() if done.returncode == 0 else f"version {dynagate.__version__}"


def measured(result: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and value of each figure: nanoseconds, spread, ratio to Pinocchio's single call, and error."""
    peer = result["pinocchio"] if isinstance(result["pinocchio"], Mapping) else None
    times: Mapping[str, Any] = peer["times"] if peer else {}
    for function, (ns, spread) in times.items():
        yield f"{function}/pinocchio", {"ns": _rounded(ns), "spread": _rounded(spread)}
    if isinstance(result["casadi"], Mapping):
        for function, (ns, spread) in result["casadi"]["times"].items():
            yield f"{function}/casadi", {"ns": _rounded(ns), "spread": _rounded(spread)}
    for function, row in result["single_call"].items():
        for dtype, timing in row.items():
            yield f"{function}/call/{dtype}", _figure(result, times, function, dtype, timing)
    for row in result["throughput"]:
        threads = f"/{row['threads']} threads" if row["threads"] > 1 else ""
        name = f"{row['function']}/{row['dtype']}/{row['layout']}/{row['batch']}{threads}"
        yield name, _figure(result, times, row["function"], row["dtype"], row)


def _figure(
    result: Mapping[str, Any], times: Mapping[str, Any], function: str, dtype: str, timing: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one figure: time, spread, ratio to Pinocchio and error."""
    figure = {"ns": _rounded(timing["ns"]), "spread": _rounded(timing["spread"])}
    if function in times:
        figure["times_pinocchio"] = _rounded(times[function][0] / timing["ns"])
    label = dtype if dtype == "float64" else f"{dtype} fewest operations"
    errors = result["accuracy"].get(label, {})
    if function == GRADIENT and TIMED_BLOCK in errors:
        figure["relative_error"] = float(f"{errors[TIMED_BLOCK]:.1e}")
    return figure


def _rounded(value: float) -> float:
    """Return a value with three significant digits, which is the precision of a noisy machine."""
    return float(f"{value:.3g}")
