"""Print the rates of an accelerator behind simulated PCIe links: `python -m dynagate.sim.pcie.table [ROBOT
[FUNCTION]]`.

Rates and times are simulated: the clock, latencies and links are assumptions, which the table lists.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from dynagate.fixedpoint.assign import Policy
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import build_request
from dynagate.hw.designs import Design
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl.axi import PER_BATCH, Axi
from dynagate.robot import robots
from dynagate.sim.pcie.host import LATENCY_NS, PORT_NS
from dynagate.sim.pcie.link import (
    CLOCK_NS,
    CaseResult,
    LinkCase,
    PcieRate,
    bytes_of,
    datapath_rate,
    link_rate,
    run_pcie_bench,
)

LINKS = {PcieRate(1, 8): 128, PcieRate(3, 8): 256, PcieRate(3, 16): 256}
"""Largest payload in bytes that a host usually sets, by link. The first link is the one in the paper."""
DESIGNS = ((128, 8), (512, 8), (512, 1))
"""Bits of the streams and initiation interval in cycles of each design."""
BATCH, BATCHES = 256, 64
"""Samples per transfer, and number of transfers."""
WORD = 20
"""Word length in bits."""


HEADINGS = (
    "link",
    "payload",
    "stream bits, II",
    "bytes in, out",
    "link carries M/s",
    "datapath takes M/s",
    "streamed M/s",
    "of the lesser",
    "GB/s in, out",
    "a batch, µs",
    "a sample, µs",
    "a register, µs",
)
"""Headings of the table."""


def main(arguments: Sequence[str]) -> None:
    """Print the table for the robot and function in the arguments."""
    robot, function = [*arguments, *("two_joint_arm", "forward_dynamics")[len(arguments) :]]
    print(f"{robot}, {function}: {BATCHES} batches of {BATCH} queued behind one doorbell. Simulated time. Assumed:")
    print(f"a clock of {1000 // CLOCK_NS} MHz, host memory that answers in {LATENCY_NS[0]} to {LATENCY_NS[1]} ns,")
    print(f"{PORT_NS} ns in each port, read requests of {LinkCase().read_request} bytes, buffers above 4 GiB.\n")
    print("| " + " | ".join(HEADINGS) + " |")
    print("|---" * len(HEADINGS) + "|")
    for width, ii in DESIGNS:
        axi = Axi(width, PER_BATCH)
        request = DesignRequest(robots.load(robot), function, ii=ii, policy=Policy(word=WORD), axi=axi)
        built = build_request(request)
        for text in rows(built, function, width):
            print(text, flush=True)


def rows(built: Design[Pipeline], function: str, width: int) -> list[str]:
    """Return the rows of one design, one for each link."""
    cases = []
    for link, payload in LINKS.items():
        streaming = LinkCase(link, max_payload=payload, batch=BATCH, batches=BATCHES)
        cases += [streaming, replace(streaming, batches=1), replace(streaming, batch=1, batches=1)]
    measured = run_pcie_bench(built, built.region.sample(function, BATCH, seed=1), cases)
    return [row(built, width, cases[k], *measured[k : k + 3]) for k in range(0, len(cases), 3)]


def row(
    built: Design[Pipeline], width: int, case: LinkCase, streaming: CaseResult, batch: CaseResult, sample: CaseResult
) -> str:
    """Return a row of the table."""
    sizes = bytes_of(built)
    link, datapath = link_rate(case, *sizes), datapath_rate(built)
    cells = [
        f"{case.link}",
        f"{case.max_payload}",
        f"{width}, {built.design.body.ii}",
        f"{sizes[0]}, {sizes[1]}",
        f"{link / 1e6:.1f}",
        f"{datapath / 1e6:.1f}",
        f"{streaming.overall / 1e6:.1f}",
        f"{100 * streaming.overall / min(link, datapath):.1f} %",
        ", ".join(f"{streaming.overall * size / 1e9:.2f}" for size in sizes),
        f"{batch.batch_ns / 1e3:.2f}",
        f"{sample.batch_ns / 1e3:.2f}",
        f"{sample.register_ns / 1e3:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main(sys.argv[1:])
