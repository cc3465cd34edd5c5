"""Rollouts in other processes or on a Ray cluster: the options of the scripts, and work by joblib."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import joblib


def whole(text: str) -> int:
    """An option's whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number, 1 or more")
    return int(text)


OPTIONS: dict[str, dict[str, Any]] = {
    "backend": {
        "choices": ("loky", "ray"),
        "default": "loky",
        "help": "processes here, or a Ray cluster (%(default)s)",
    },
    "jobs": {"type": whole, "default": 1, "help": "processes (threads of learn.py) or Ray workers (%(default)s)"},
    "cluster": {"default": None, "help": "address of a Ray cluster; without it Ray starts one here"},
}


def connect(backend: str, cluster: str | None) -> None:
    """Connects to Ray where it is the backend. Ends the script where it is not there."""
    if backend != "ray":
        if cluster is not None:
            raise SystemExit(f"--cluster {cluster} is of the backend ray; expected --backend ray beside it")
        return
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise SystemExit("--backend ray needs Ray: pip install ray") from None

    ray.init(address=cluster, ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    register_ray()


def spread(work: Callable[[Any], Any], items: Sequence[Any], backend: str, jobs: int) -> list[Any]:
    """work(item) of every item, in order."""
    if jobs == 1 and backend == "loky":
        return [work(item) for item in items]
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        return list(joblib.Parallel()(joblib.delayed(work)(item) for item in items))
