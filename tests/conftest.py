"""Options and markers of the suite, folders for what takes long to build, and the list of skipped tests.

Markers by folder are added here: `docs` for pages and examples, `rtl` for what builds, simulates or synthesizes
Verilog. A test has `long` and `gpu` in its own file.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = HERE.parent / "build"

# OpenBLAS starts a thread for each core, and idle threads spin. Two parallel workers on two cores would spend more
# processor time on waiting than on small matrices. The variable is read when numpy is imported, so it is set here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A failed assertion in a helper module shows its values, as one in a test module does.
pytest.register_assert_rewrite(
    *(f"tests.{path.stem}" for path in HERE.glob("*.py") if path.stem not in ("__init__", "conftest"))
)

FOLDERS = {"docs": ("docs",), "rtl": ("hw", "processor")}
"""Marker -> folders whose tests have it."""
FIXTURES = {"rtl": {"designs", "units"}}
"""Marker -> fixtures: a test that uses one of them has the marker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked `long` too")


def has_card() -> bool:
    """Return whether a CUDA card is here."""
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run([program, "-L"], capture_output=True, check=False).returncode == 0


def markers_of(folder: str, fixtures: set[str]) -> set[str]:
    """Return the markers that a test has by its folder and fixtures."""
    return {marker for marker, folders in FOLDERS.items() if folder in folders} | {
        marker for marker, names in FIXTURES.items() if names & fixtures
    }


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skips = {} if config.getoption("--long") else {"long": pytest.mark.skip(reason="long: make test-long")}
    if any("gpu" in item.keywords for item in items) and not has_card():
        skips["gpu"] = pytest.mark.skip(reason="no CUDA card")
    for item in items:
        for marker in markers_of(item.path.parent.name, set(getattr(item, "fixturenames", ()))):
            item.add_marker(marker)
        for marker, skip in skips.items():
            if item.get_closest_marker(marker):
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Exclude the collected tests and imported modules from garbage collection: they live to the end of the run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped, each reason with the number of tests: mostly programs that this machine lacks."""
    skipped = terminalreporter.stats.get("skipped", [])
    # each process of a parallel run reports the files that it skipped as a whole
    files = {tuple(report.longrepr) for report in skipped if isinstance(report, pytest.CollectReport)}
    tests = [report.longrepr for report in skipped if isinstance(report, pytest.TestReport)]
    reasons = Counter(str(where[2]).removeprefix("Skipped: ") for where in (*files, *tests))
    if reasons:
        terminalreporter.section("skipped")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:6d}  {reason}")


@pytest.fixture(scope="session")
def designs() -> Path:
    """Designs kept between runs by content hash, the one of `make run` among them."""
    return BUILD / "designs"


@pytest.fixture(scope="session")
def units() -> Path:
    return BUILD / "units"


@pytest.fixture(scope="session")
def cache() -> Path:
    """Compiled kernels, kept between runs by content hash; CUDA text is compiled with the header of `cuda_on_host`."""
    header = (HERE / "cuda_on_host" / "cuda_runtime.h").read_bytes()
    return BUILD / "kernels" / hashlib.sha256(header).hexdigest()[:8]
