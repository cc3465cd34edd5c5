"""Options of `dynagate bench`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.base.option import option
from dynagate.hw.options import INTERVAL
from dynagate.hw.plan.schedule import LONGEST_INTERVAL, check_interval

BATCHES = (16, 32, 64, 128, 256, 1024, 4096, 16384, 65536)
"""Default batch sizes."""
MOST_SAMPLES, MOST_THREADS = 10_000_000, 1024


@dataclass(frozen=True)
class BenchOptions:
    """Options of a benchmark run. Raises ArgumentError if an option is out of range, or two options exclude each
    other.
    """

    batches: tuple[int, ...] = option(
        "Measure batches with this many samples (repeatable).",
        (),
        name="--batch",
        unit="SAMPLES",
        most=MOST_SAMPLES,
    )
    threads: int = option("Use this many threads in threaded measurements.", 2, most=MOST_THREADS)
    ii: int = option(INTERVAL, 8, unit="CYCLES", most=LONGEST_INTERVAL)
    no_pinocchio: bool = option("Skip Pinocchio, which compiles for minutes the first time.", False)
    pinocchio_float32: bool = option("Measure the float32 error of Pinocchio too, which needs 8 GB to compile.", False)
    everything: bool = option(
        "Also measure variants that take more than two minutes to compile for a large robot.", False, name="--all"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", tuple(sorted(set(self.batches))) or BATCHES)
        if self.no_pinocchio and self.pinocchio_float32:
            raise ArgumentError("no_pinocchio and pinocchio_float32 are both given; expected one", code="DG-BENCH-007")
        if min(self.batches) < 1:
            raise ArgumentError(
                f"batches {list(self.batches)}; expected at least one, of 1 sample or more each", code="DG-BENCH-008"
            )
        if self.threads < 1:
            raise ArgumentError(f"{self.threads} threads; expected 1 or more", code="DG-BENCH-009")
        check_interval(self.ii)

    def as_dict(self) -> dict[str, Any]:
        """Return the options as a file of figures stores them."""
        return {
            "batches": list(self.batches),
            "threads": self.threads,
            "ii": self.ii,
            "pinocchio": not self.no_pinocchio,
            "pinocchio_single": self.pinocchio_float32,
            "everything": self.everything,
        }
