"""An accelerator behind a simulated PCIe link: DMA brings samples from a host's memory and results back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dynagate import build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.pcie.link import (
    PAYLOADS,
    CaseResult,
    LinkCase,
    PcieRate,
    bytes_of,
    datapath_rate,
    link_rate,
    run_pcie_bench,
    run_pcie_faults,
)
from dynagate.sim.pcie.table import LINKS
from dynagate.sim.verilate import SimulationError

from tests.designs import faulty

FUNCTION = "forward_dynamics"
STREAMING = LinkCase(batch=64, batches=12)


def shell(designs: Path, width: int, ii: int, guard_bits: float = 1.0) -> Design:
    """guard_bits: negative ones make some states overflow."""
    policy = Policy(word=20, guard_bits=guard_bits)
    return build(robots.load("two_joint_arm"), FUNCTION, ii=ii, policy=policy, axi=Axi(width, "batch"), folder=designs)


def measured(built: Design, cases: list[LinkCase], accelerator: Path | None = None) -> list[CaseResult]:
    return run_pcie_bench(built, built.region.sample(FUNCTION, 256, seed=2), cases, accelerator=accelerator)


def limit(built: Design, case: LinkCase) -> float:
    """The lesser of what the link carries and what the datapath takes, samples a second."""
    return min(link_rate(case, *bytes_of(built)), datapath_rate(built))


def test_batches_over_a_link(designs: Path) -> None:
    built = shell(designs, 512, 1, guard_bits=-0.3)
    cases = [
        STREAMING,
        LinkCase(PcieRate(1, 8), max_payload=128, read_request=1024, split=True, batch=64, batches=2, stalls="mostly"),
        LinkCase(PcieRate(3, 16), max_payload=512, read_request=128, batch=7, batches=3, offset=4052),
        LinkCase(batch=1),
    ]
    rows = measured(built, cases)
    assert rows[0].steady > 0.95 * limit(built, STREAMING)
    assert rows[0].overall < limit(built, STREAMING)
    assert all(row.overtaken > 0 for row in rows[:3])
    assert [row.largest_write for row in rows] == [256, 128, 404, 64]
    assert [row.largest_read for row in rows] == [512, 1024, 128, 64]
    assert rows[1].completions == 2 * 64 + 2, "a completion for each 64 bytes of input, and for two lists"
    assert rows[3].batch_ns < 3000


@pytest.mark.long
def test_faults_on_the_link(designs: Path) -> None:
    built = shell(designs, 512, 1, guard_bits=-0.3)
    run_pcie_faults(built, built.region.sample(FUNCTION, 256, seed=3), LinkCase(batch=64, batches=3))


@pytest.mark.long
@pytest.mark.parametrize(("width", "ii"), [(128, 8), (512, 8), (512, 1)])
def test_links_stream_as_fast_as_they_or_the_datapath_can(width: int, ii: int, designs: Path) -> None:
    built = shell(designs, width, ii)
    cases = [LinkCase(link, payload, batches=64) for link, payload in LINKS.items()]
    for case, row in zip(cases, measured(built, cases), strict=True):
        assert (row.overall if ii == 8 else row.steady) > 0.95 * limit(built, case), case
        assert row.overall < limit(built, case), case


@pytest.mark.long
def test_sizes_of_tlps_are_felt_as_the_arithmetic_says(designs: Path) -> None:
    built = shell(designs, 512, 1)
    cases = [
        LinkCase(link, payload, request, split=split, batches=16)
        for link in LINKS
        for payload in (128, 256, 512)
        for request in (512, 4096)
        for split in (False, True)
    ]
    for case, row in zip(cases, measured(built, cases), strict=True):
        assert row.steady > 0.95 * limit(built, case), case
        assert row.overall < limit(built, case), case


@pytest.mark.long
@pytest.mark.parametrize("width", [128, 512])
def test_sizes_and_stalls(width: int, designs: Path) -> None:
    built = shell(designs, width, 3, guard_bits=-0.3)
    sizes = [LinkCase(max_payload=payload, read_request=request) for payload in (128, 256, 512) for request in PAYLOADS]
    cases = [
        replace(size, split=k % 2 == 0, batch=batch, batches=1 + 256 // batch % 5, stalls=stalls, offset=offset)
        for k, size in enumerate(sizes)
        for batch, stalls, offset in ((1, "never", 0), (7, "bursts", 4092), (256, "mostly", 20))
    ]
    for case, row in zip(cases, measured(built, cases), strict=True):
        assert row.largest_write <= case.max_payload
        assert row.largest_read <= case.read_request


PLANTED = {
    "TLAST is lost": (r"assign m_axis_tlast = [^;]*;", "assign m_axis_tlast = 1'h0;"),
    "results without poison": (r"(\[31:0\] <= )poison_d\d+ \?", r"\g<1>1'b0 ?"),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", list(PLANTED))
def test_bench_notices_a_planted_fault(fault: str, designs: Path, tmp_path: Path) -> None:
    built = shell(designs, 512, 1, guard_bits=-0.3)
    changed = faulty(built.module("accelerator"), tmp_path, *PLANTED[fault])
    with pytest.raises(SimulationError, match="dynagate.sim.pcie.bench"):
        measured(built, [LinkCase(batch=64)], accelerator=changed)


def test_arithmetic_of_a_link() -> None:
    assert PcieRate(1, 8).bytes_per_second == pytest.approx(2.0e9)
    assert PcieRate(3, 16).bytes_per_second == pytest.approx(15.754e9, rel=1e-4)
    assert str(PcieRate(3, 16)) == "Gen3 x16"
    case = LinkCase(PcieRate(1, 8), max_payload=128, read_request=512)
    assert link_rate(case, 128, 0) == pytest.approx(2.0e9 / (128 + 20))  # a completion: header 12, framing 8
    assert link_rate(case, 64, 128) == pytest.approx(2.0e9 / (128 + 24 + 24 / 8))  # a write, an eighth of a request
    assert link_rate(replace(case, split=True), 128, 0) == pytest.approx(2.0e9 / (128 + 2 * 20))


def test_cases_are_checked() -> None:
    with pytest.raises(ValueError, match="PCIe generation 7; expected one of 1, 2, 3, 4"):
        PcieRate(7, 8)
    with pytest.raises(ValueError, match="PCIe link of 3 lanes; expected one of 1, 2, 4, 8, 16"):
        PcieRate(3, 3)
    with pytest.raises(ValueError, match="max_payload of 100 bytes; expected one of 128, 256, 512"):
        LinkCase(max_payload=100)
    with pytest.raises(ValueError, match="read_request of 64 bytes; expected one of 128"):
        LinkCase(read_request=64)
    with pytest.raises(ValueError, match="offset of 6 bytes; expected a multiple of 4 below 4096"):
        LinkCase(offset=6)
