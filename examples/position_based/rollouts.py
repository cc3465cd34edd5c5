"""Rollouts in other processes or on a Ray cluster: the options of the scripts, and work by joblib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import joblib

OPTIONS: dict[str, dict[str, Any]] = {
    "backend": {
        "choices": ("loky", "ray"),
        "default": "loky",
        "help": "processes here, or a Ray cluster (%(default)s)",
    },
    "jobs": {"type": int, "default": 1, "help": "processes or Ray workers (%(default)s)"},
    "cluster": {"default": None, "help": "address of a Ray cluster; without it Ray starts one here"},
}


def connect(backend: str, cluster: str | None) -> None:
    """Connects to Ray where it is the backend."""
    if backend != "ray":
        return
    import ray
    from ray.util.joblib import register_ray

    ray.init(address=cluster, ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    register_ray()


def spread(work: Callable[[Any], Any], items: Sequence[Any], backend: str, jobs: int) -> list[Any]:
    """work(item) of every item, in order."""
    if jobs == 1 and backend == "loky":
        return [work(item) for item in items]
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        return list(joblib.Parallel()(joblib.delayed(work)(item) for item in items))
