"""Calculate and run PCIe simulations: rates of a link, cases to simulate, and their measurements (plain Python).

The simulation is `sim.pcie.bench`, with the endpoint of `sim.pcie.dma` and the host of `sim.pcie.host`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError
from dynagate.design.files import text_of
from dynagate.design.words import sample_bytes
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.build import SHELL_TOP
from dynagate.hw.designs import Design
from dynagate.sim.runner import expected_words, run_bench, words_of
from dynagate.sim.verilate import SHELL_PORTS, cocotb_program

CLOCK_NS = 4
"""Period of the accelerator's clock in ns: an assumed 250 MHz."""
FRAMING = 8
"""Bytes around every TLP: sequence number, LCRC, start and end."""
COMPLETION_HEADER, REQUEST_HEADER = 12, 16
"""Bytes of the header of a completion, and of a request to an address above 4 GiB."""
BOUNDARY = 64
"""Read completion boundary in bytes, at which a root complex may split completions."""
LANE_RATES = {1: 2.5e9 * 8 / 10, 2: 5e9 * 8 / 10, 3: 8e9 * 128 / 130, 4: 16e9 * 128 / 130}
"""Bits per second of a lane by generation, without the overhead of the line code (8b/10b, 128b/130b)."""
PAYLOADS = (128, 256, 512, 1024, 2048, 4096)
"""Sizes in bytes that a PCIe device can use for payloads and for read requests."""


@dataclass(frozen=True)
class PcieRate:
    """Generation and width of a PCIe link."""

    generation: int = 3
    """Generation, 1 to 4."""
    width: int = 8
    """Number of lanes."""

    def __post_init__(self) -> None:
        if self.generation not in LANE_RATES:
            raise ArgumentError(
                f"PCIe generation {self.generation}; expected one of {', '.join(map(str, LANE_RATES))}",
                code="DG-PCIE-007",
            )
        if self.width not in (1, 2, 4, 8, 16):
            raise ArgumentError(f"PCIe link of {self.width} lanes; expected one of 1, 2, 4, 8, 16", code="DG-PCIE-008")

    @property
    def bytes_per_second(self) -> float:
        """Return the bytes per second in each direction, with TLP headers and framing."""
        return LANE_RATES[self.generation] * self.width / 8

    def __str__(self) -> str:
        return f"Gen{self.generation} x{self.width}"


@dataclass(frozen=True)
class LinkCase:
    """One run of the simulation."""

    link: PcieRate = PcieRate()
    """Generation and width of the link."""
    max_payload: int = 256
    """Largest payload in bytes."""
    read_request: int = 512
    """Largest read request in bytes."""
    split: bool = False
    """Whether the host splits completions at every read completion boundary."""
    batch: int = 256
    """Samples per transfer."""
    batches: int = 1
    """Transfers queued behind one doorbell."""
    stalls: str = "never"
    """Pattern of `sim.bench.pause_patterns` with which the DMA stalls the result stream."""
    offset: int = 0
    """Bytes into a page at which host buffers begin, a multiple of 4."""

    def __post_init__(self) -> None:
        for name in ("max_payload", "read_request"):
            if getattr(self, name) not in PAYLOADS:
                expected = ", ".join(map(str, PAYLOADS))
                raise ArgumentError(
                    f"{name} of {getattr(self, name)} bytes; expected one of {expected}", code="DG-PCIE-009"
                )
        if self.offset % 4 or not 0 <= self.offset < 4096:
            raise ArgumentError(
                f"offset of {self.offset} bytes; expected a multiple of 4 below 4096", code="DG-PCIE-010"
            )


@dataclass(frozen=True)
class CaseResult:
    """Measurements of a case, in simulated time."""

    overall: float
    """Samples per second from the doorbell until the host sees the last transfer complete."""
    steady: float
    """Samples per second in the middle half of the transfers; 0 for a single transfer.

    The rate may exceed the link's by the share of samples that the DMA's buffer already held.
    """
    batch_ns: float
    """Time in ns from the doorbell until the host sees the first transfer complete."""
    register_ns: float
    """Time in ns to read an accelerator register."""
    completions: int
    """Number of completions."""
    overtaken: int
    """Number of reads that were answered before an older one."""
    largest_write: int
    """Bytes of the device's largest memory write."""
    largest_read: int
    """Bytes of the device's largest read request."""


def link_rate(case: LinkCase, bytes_in: int, bytes_out: int) -> float:
    """Return the samples per second that the link carries.

    Payloads, TLP overhead and read requests are counted; descriptors and data link packets (acknowledgements, credits)
    are not.

    Args:
        case: Link and sizes of requests.
        bytes_in: Bytes of a sample.
        bytes_out: Bytes of a result.
    """
    completion = min(BOUNDARY if case.split else case.max_payload, case.read_request)
    down = bytes_in * (1 + (COMPLETION_HEADER + FRAMING) / completion)
    write = bytes_out * (1 + (REQUEST_HEADER + FRAMING) / case.max_payload)
    request = bytes_in * (REQUEST_HEADER + FRAMING) / case.read_request
    return case.link.bytes_per_second / max(down, write + request)


def datapath_rate(built: Design[Pipeline]) -> float:
    """Return the samples per second that the accelerator accepts at the assumed clock."""
    axi = built.design.axi
    assert axi is not None, "the design has no AXI shell"
    return 1e9 / CLOCK_NS / max(built.design.body.ii, axi.beats.input, axi.beats.output)


def bytes_of(built: Design[Pipeline]) -> tuple[int, int]:
    """Return the bytes of a sample and of a result on the streams."""
    axi = built.design.axi
    assert axi is not None, "the design has no AXI shell"
    return sample_bytes(axi.words.input, axi.width), sample_bytes(axi.words.output, axi.width)


def run_pcie_bench(
    built: Design[Pipeline],
    inputs: Mapping[str, npt.NDArray[np.float64]],
    cases: Sequence[LinkCase],
    *,
    seed: int = 1,
    accelerator: Path | None = None,
) -> list[CaseResult]:
    """Stream states from host memory over PCIe through the accelerator and back, case by case.

    Args:
        built: Design with an AXI shell.
        inputs: States by input name.
        cases: Cases to run.
        seed: Seed of the simulation.
        accelerator: Verilog of another shell than the built one.

    Returns:
        Measurements of each case.

    Raises:
        SimulationError: Results differ from the integer model, or a rule of PCIe is broken.
    """
    with tempfile.TemporaryDirectory() as folder:
        measured = Path(folder) / "measured.json"
        _run(built, inputs, cases, "dynagate.sim.pcie.bench", seed, accelerator, measured)
        rows = [json.loads(line) for line in measured.read_text().splitlines()]
    return [CaseResult(**row) for row in rows]


def run_pcie_faults(
    built: Design[Pipeline], inputs: Mapping[str, npt.NDArray[np.float64]], case: LinkCase, *, seed: int = 1
) -> None:
    """Inject errors of the link and of the host.

    Each error must be reported in the DMA's status, must put no wrong data on the streams, and must end with a soft
    reset.

    Args:
        built: Design with an AXI shell.
        inputs: States by input name.
        case: Case to run.
        seed: Seed of the simulation.

    Raises:
        SimulationError: A check fails.
    """
    _run(built, inputs, [case], "dynagate.sim.pcie.bench_faults", seed)


def _run(
    built: Design[Pipeline],
    inputs: Mapping[str, npt.NDArray[np.float64]],
    cases: Sequence[LinkCase],
    module: str,
    seed: int,
    accelerator: Path | None = None,
    measured: Path | None = None,
) -> None:
    """Run the tests of a module in the simulator."""
    words = words_of(built, inputs)
    outputs, _, _ = expected_words(built, words)
    top = accelerator or built.module("accelerator")
    program = cocotb_program(top, SHELL_TOP, SHELL_PORTS, also=[built.module("datapath")])
    data = {"inputs": words, "outputs": outputs, "design": text_of(built.design), "seed": seed}
    data |= {"cases": json.dumps([asdict(case) for case in cases]), "measured": str(measured)}
    run_bench(program, module, data)


def case_of(content: Mapping[str, object]) -> LinkCase:
    """Return the case that `dataclasses.asdict` converted to a dict."""
    fields = dict(content)
    return LinkCase(link=PcieRate(**fields.pop("link")), **fields)  # type: ignore[arg-type]
