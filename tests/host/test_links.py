"""One face for every device: the same tests on a bare datapath and on whole accelerators of several stream widths."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Function, build, robots
from dynagate.design.codec import Words
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.host import DesignError, DeviceError, DeviceLink, RegisterError, Results
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellSession
from dynagate.host.links import SilenceError
from dynagate.host.registers import Registers
from dynagate.host.sim_links import SimulatedLink
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import PER_SAMPLE, Axi
from dynagate.hw.rtl.regmap import REGISTERS, VERSION
from dynagate.sim.runner import expected_words

from tests.designs import resealed
from tests.holes import punch
from tests.samples import State
from tests.standins import opening as standins

FUNCTION = "forward_dynamics"


@dataclass(frozen=True)
class Kind:
    """An implementation of the face. guard_bits: negative ones make many states overflow. standin: the board's link,
    behind which a Verilated accelerator stands for the board; None for a simulated device. link: of a simulated card,
    whose pauses are its own."""

    shell: bool
    axi: Axi
    ii: int = 3
    guard_bits: float = -0.3
    standin: str | None = None
    link: str | None = None

    def built(self, designs: Path) -> Design:
        policy = Policy(word=20, guard_bits=self.guard_bits)
        return build(robots.load("two_joint_arm"), FUNCTION, ii=self.ii, policy=policy, axi=self.axi, folder=designs)


SHELLS = {
    "shell of 32 bits": Kind(True, Axi(32, "batch"), ii=5, guard_bits=1.0),
    "shell of 64 bits": Kind(True, Axi(64, "sample")),
    "shell of 128 bits": Kind(True, Axi(128, "sample")),
    "shell of 512 bits": Kind(True, Axi(512, "batch"), ii=1),
}
SIMULATED = {"datapath": Kind(False, Axi(128, "sample")), **SHELLS}
BOARDS = {
    "xdma": replace(SHELLS["shell of 512 bits"], standin="xdma"),
    "pynq": replace(SHELLS["shell of 32 bits"], standin="pynq"),
    "xrt": replace(SHELLS["shell of 512 bits"], standin="xrt"),
}
PCIE = {"pcie": replace(SHELLS["shell of 512 bits"], link="pcie")}
KINDS = {**SIMULATED, **BOARDS, **PCIE}
RARE = (*PCIE, "shell of 128 bits")
"""Kinds that the long tests have: a card takes long, and the shell of 64 bits differs from that of 128 in its width."""


def some(*names: str) -> list[Any]:
    """Parameters for kinds, those of RARE marked long."""
    return [pytest.param(name, marks=pytest.mark.long if name in RARE else ()) for name in names]


@pytest.fixture(params=some(*KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(params=some(*SIMULATED))
def simulated(request: pytest.FixtureRequest) -> Kind:
    return SIMULATED[request.param]


@pytest.fixture(params=some(*SHELLS, *BOARDS, *PCIE))
def shell(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@dataclass
class Bench:
    """An opened implementation, and what the integer executor expects of it."""

    kind: Kind
    built: Design
    accelerator: Function

    @property
    def driver(self):
        return self.accelerator.device.driver

    @property
    def link(self) -> DeviceLink:
        return self.driver.link

    def states(self, count: int, seed: int = 1) -> State:
        """Numbers that float32 holds, so that every implementation gets the same ones, in the ranges of the formats."""
        sample = self.built.region.sample(FUNCTION, max(count, 1), seed)
        formatted = self.built.formatted
        for port in formatted.graph.inputs:
            low, high = np.array([formatted.bounds[i] for i in port.nodes]).T
            sample[port.name] = np.clip(sample[port.name], low, high)
        return {name: value[:count].astype(np.float32).astype(np.float64) for name, value in sample.items()}

    def check(self, count: int, seed: int = 1) -> None:
        inputs = self.states(count, seed)
        results = self.accelerator(**inputs)
        if not count:
            assert results.qdd.shape == (0, 2)
            return
        self.equal(results, inputs)

    def equal(self, results: Results, inputs: State) -> None:
        """To what the integer executor says."""
        design = self.built.design
        expected = evaluate(self.built.formatted, inputs, design.numbers)
        qdd = expected.outputs["qdd"].astype(design.results)
        qdd[expected.overflow] = np.nan
        assert results.qdd.dtype == qdd.dtype
        np.testing.assert_array_equal(results.qdd, qdd)
        np.testing.assert_array_equal(results.overflow, expected.overflow)

    def samples(self, count: int, seed: int = 1) -> Words:
        """As the link takes them."""
        from dynagate.host.words import StreamWords, pack_inputs

        design, states = self.driver.design, self.states(count, seed)
        if self.kind.shell:
            words = np.zeros((count, design.axi.beats.input, design.axi.lanes), dtype=np.uint32)
            StreamWords(design, design.axi, native=False).fill(states, words)
            return words
        return pack_inputs(design, states, count)[:, np.newaxis]

    def results(self, count: int) -> Words:
        return np.zeros((count, *self.driver.result), np.uint32)


def opened(kind: Kind, designs: Path, **options: object) -> Bench:
    built = kind.built(designs)
    if kind.link is not None:
        return Bench(kind, built, dynagate.open(built, link=kind.link))
    if kind.standin is not None:
        return Bench(kind, built, Function(StreamDevice(standins.driver(kind.standin, built, **options))))
    return Bench(kind, built, dynagate.open(built, shell=kind.shell, **options))


@pytest.fixture
def bench(kind: Kind, designs: Path) -> Iterator[Bench]:
    bench = opened(kind, designs, pauses=(0.3, 0.2), seed=5)
    with bench.accelerator:
        yield bench


@pytest.fixture
def simulated_bench(simulated: Kind, designs: Path) -> Iterator[Bench]:
    bench = opened(simulated, designs, pauses=(0.3, 0.2), seed=5)
    with bench.accelerator:
        yield bench


@pytest.fixture(params=some(*SHELLS))
def simulated_shell_bench(request: pytest.FixtureRequest, designs: Path) -> Iterator[Bench]:
    bench = opened(SHELLS[request.param], designs)
    with bench.accelerator:
        yield bench


@pytest.fixture
def shell_bench(shell: Kind, designs: Path) -> Iterator[Bench]:
    bench = opened(shell, designs)
    with bench.accelerator:
        yield bench


# every implementation


USUAL = (0.2, 0.3)
PATIENT = ("datapath", "shell of 64 bits", "xdma")
"""Kinds that stand for the others where sources or sinks pause most of the time."""


@pytest.mark.parametrize(
    ("name", "pauses"),
    [
        pytest.param(
            name, pauses, marks=pytest.mark.long if name in RARE or (pauses != USUAL and name not in PATIENT) else ()
        )
        for name in KINDS
        for pauses in ((0.0, 0.0), USUAL, (0.95, 0.0), (0.0, 0.95))
    ],
    ids=str,
)
def test_results_equal_the_integer_executor(name: str, pauses: tuple[float, float], designs: Path) -> None:
    kind = KINDS[name]
    bench = opened(kind, designs, pauses=pauses, seed=3)
    with bench.accelerator:
        for count in (1, 7, 0, 400):
            bench.check(count, seed=count)
        overflow = bench.accelerator(**bench.states(400, seed=400)).overflow
        assert not overflow.all()
        assert overflow.any() == (kind.guard_bits < 0)


def test_at_full_speed_the_slowest_of_streams_and_datapath_sets_the_rate(simulated: Kind, designs: Path) -> None:
    bench = opened(simulated, designs)
    with bench.accelerator:
        bench.check(1000)
        beats = bench.samples(1).shape[1]
        # the FIFO at the input takes a few samples at once
        assert max(simulated.ii, beats) - 0.05 <= bench.accelerator.transfer.per_sample <= max(simulated.ii, beats)


def test_several_may_be_open_at_once(kind: Kind, designs: Path) -> None:
    benches = [opened(kind, designs, pauses=(0.1 * k, 0.1), seed=k) for k in range(3)]
    for turn in range(3):
        for k, bench in enumerate(benches):
            bench.check(20 + k, seed=3 * turn + k)
    benches[1].accelerator.close()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda bench: bench.check(300), (benches[0], benches[2])))
    benches[2].accelerator.close()
    benches[0].check(9)
    benches[0].accelerator.close()


CLOSING = """
import ctypes, sys, dynagate
devices = [dynagate.open(sys.argv[1], shell=sys.argv[2] == "True") for _ in range(3)]
inputs = {name: [[0.0, 0.0]] for name in ("q", "qd", "tau")}
for device in devices:
    device(**inputs)
assert ctypes.CDLL(None).mallopt(-6, 165)  # M_PERTURB
for device in reversed(devices):
    device.close()
print("closed")
"""


def test_several_are_closed_in_any_order(simulated: Kind, designs: Path) -> None:
    """While devices are closed, freed memory is overwritten, so a device that reads it ends the process."""
    command = [sys.executable, "-c", CLOSING, str(simulated.built(designs).folder), str(simulated.shell)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr


def test_another_design_is_refused_by_name(simulated: Kind, designs: Path, tmp_path: Path) -> None:
    built = simulated.built(designs)
    folder, other = altered(built, tmp_path, ii=built.hardware.plan.ii + 1)
    shown, described = built.design.hash[:16], other["hash"][:16]
    library = "libaccelerator.so" if simulated.shell else "libdatapath.so"
    message = f"{library} holds design {shown}; design.json describes {described}: build it again"
    with pytest.raises(DesignError, match=message):
        dynagate.open(folder, shell=simulated.shell)


def altered(built: Design, folder: Path, **changes: object) -> tuple[Path, dict]:
    """A copy of the design with other content in design.json, beside the same Verilog."""
    copy = folder / "copy"
    shutil.copytree(built.folder, copy)
    design = json.loads((copy / "design.json").read_text())
    other = resealed({**design, **changes})
    (copy / "design.json").write_text(json.dumps(other))
    return copy, other


def test_a_closed_device_refuses_everything(bench: Bench) -> None:
    bench.check(3)
    bench.accelerator.close()
    bench.link.close()
    with pytest.raises(DeviceError, match="<(Function|Device) two_joint_arm .*> is closed; open it again"):
        bench.accelerator(**bench.states(1))
    address = REGISTERS["hash_low"].address
    for use in (
        lambda: bench.link.write(np.zeros((1, 1, 4), np.uint32)),
        lambda: bench.link.read(bench.results(1)),
        lambda: bench.link.read_register(address),
        lambda: bench.link.reset(),
    ):
        with pytest.raises(DeviceError, match="is closed; open it again"):
            use()
    if bench.kind.shell:
        with pytest.raises(DeviceError, match="is closed; open it again"):
            bench.link.write_register(REGISTERS["control"].address, 0)


def while_it_streams(bench: Bench, monkeypatch: pytest.MonkeyPatch, handler: object) -> None:
    """Streams a batch that takes long, and has a signal's handler called meanwhile."""
    write = bench.link.write

    def write_and_wait(samples: Words) -> None:
        write(samples)
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(bench.link, "write", write_and_wait)
            bench.accelerator(**{name: np.zeros((200_000, 2)) for name in ("q", "qd", "tau")})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_ctrl_c_is_heard_and_the_device_stays_usable(
    kind: Kind, designs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = opened(kind, designs, pauses=(0.97, 0.0))
    with bench.accelerator:
        with pytest.raises(KeyboardInterrupt):
            while_it_streams(bench, monkeypatch, signal.default_int_handler)
        bench.check(50)


def test_a_signal_handler_may_close_a_device_that_streams(
    simulated: Kind, designs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = opened(simulated, designs, pauses=(0.97, 0.0))
    with pytest.raises(DeviceError, match=r"lib\w+\.so was closed while it streamed"):
        while_it_streams(bench, monkeypatch, lambda *_: bench.accelerator.close())
    assert not bench.link._end.alive


def test_reset_drops_what_was_under_way(simulated_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated_bench.check(5)
    simulated_bench.link.write(simulated_bench.samples(40))
    received = 0
    with monkeypatch.context() as patch:
        patch.setattr("dynagate.host.sim_links.SLICE_MS", 0)
        received = simulated_bench.link.read(simulated_bench.results(40))
    assert received < 40
    simulated_bench.link.reset()
    with monkeypatch.context() as patch:
        patch.setattr("dynagate.host.sim_links.IDLE_CYCLES", 500)
        patch.setattr("dynagate.host.sim_links.SLICE_MS", 10_000)  # however busy this machine is
        with pytest.raises(SilenceError, match="no beat moved for 500 cycles"):
            simulated_bench.link.read(simulated_bench.results(1))
    simulated_bench.link.reset()
    simulated_bench.check(30)


def test_results_are_read_in_parts(simulated_bench: Bench) -> None:
    count = 20
    whole = simulated_bench.driver.stream(simulated_bench.samples(count))
    parts = simulated_bench.results(count)
    simulated_bench.link.write(simulated_bench.samples(count))
    for first, last in ((0, 1), (1, 4), (4, count - 1), (count - 1, count)):
        assert simulated_bench.link.read(parts[first:last]) == last - first
    if simulated_bench.kind.shell:
        for words in (whole, parts):
            words.reshape(count, -1)[:, 2] = 0  # tags, which the driver writes
    np.testing.assert_array_equal(parts, whole)
    with pytest.raises(ValueError, match="results cannot be written in one piece; expected a contiguous array of uint"):
        simulated_bench.link.read(parts[::2])
    words = parts.shape[2]
    with pytest.raises(
        DeviceError, match=rf"results are \(20, 3, {words + 1}\); lib.* expects \(samples, beats, {words}\)"
    ):
        simulated_bench.link.read(np.zeros((20, 3, words + 1), np.uint32))
    with pytest.raises(DeviceError, match=r"samples are \(20, 1, 77\); lib\w+\.so expects \(samples, beats, \d+\)"):
        simulated_bench.link.write(np.zeros((20, 1, 77), np.uint32))
    simulated_bench.check(4)


def test_registers_are_read_while_samples_stream(kind: Kind, designs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a simulated device between two slices of the stream. A busy machine may give the reading thread no turn within
    a batch, so that there are several."""
    monkeypatch.setattr("dynagate.host.sim_links.SLICE_MS", 1)
    bench = opened(kind, designs, pauses=(0.3, 0.3))
    name = "samples_out" if kind.shell else "hash_low"
    with bench.accelerator, ThreadPoolExecutor(1) as threads:
        for _ in range(8):
            seen = []
            streaming = threads.submit(bench.check, 20_000)
            while not streaming.done():
                seen.append(bench.driver.registers.read(name))
            streaming.result()
            if not kind.shell:
                assert set(seen) == {bench.driver.design.device_hash & 0xFFFFFFFF}
                return
            if any(count % 20_000 for count in seen):
                return
    raise AssertionError("none was read while samples streamed")


def test_batches_under_way_come_out_in_order(bench: Bench) -> None:
    counts = [1, 40, 7, 300, 2, 90, 1, 1, 64, 5, 33, 12]
    with bench.accelerator as accelerator:
        pending = [accelerator.submit(**bench.states(count, seed=k)) for k, count in enumerate(counts)]
        bench.check(9)  # waits for the others
        for k in random.Random(1).sample(range(len(counts)), len(counts)):
            assert pending[k].done()
            bench.equal(pending[k].result(), bench.states(counts[k], seed=k))
            assert pending[k].result() is pending[k].result()
        with accelerator.stream(ahead=3) as stream:
            for k, results in enumerate(stream(bench.states(count, seed=k) for k, count in enumerate(counts))):
                bench.equal(results, bench.states(counts[k], seed=k))


def test_a_stream_keeps_the_datapath_busy(simulated: Kind, designs: Path) -> None:
    """95 % of what the slower of datapath and streams carries, in cycles of the device, for batches of 256."""
    bench = opened(simulated, designs)
    inputs = bench.states(256)
    with bench.accelerator as accelerator:
        pending = [accelerator.submit(**inputs) for _ in range(8)]
        for each in pending:
            each.result()
        beats = max(bench.driver.sample[0], bench.driver.result[0])
        assert accelerator.transfer.per_sample <= max(simulated.ii, beats) / 0.95


@pytest.mark.parametrize(
    ("axi", "ii"),
    [(Axi(32, "batch"), 5), pytest.param(Axi(512, "batch"), 8, marks=pytest.mark.long)],
    ids=["streams set the rate", "datapath sets the rate"],
)
def test_a_stream_keeps_a_card_busy(axi: Axi, ii: int, designs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """95 % of what the slower of datapath and streams carries, in cycles of the card, for batches of 256. The card's
    clock begins when all batches wait for it, so that it does not depend on how fast this machine is."""
    monkeypatch.setattr("tests.standins.board.FIFO", 1 << 20)
    bench = opened(Kind(True, axi, ii=ii, guard_bits=1.0, standin="xdma"), designs)
    card, inputs, batches = bench.link._system.card.board, bench.states(256), 8
    beats = bench.driver.sample[0]
    with bench.accelerator as accelerator:
        bench.check(1)
        begin, card.held = card.sim.stream.last_output, True
        pending = [accelerator.submit(**inputs) for _ in range(batches)]
        while card.unsent() < 256 * batches * beats:
            time.sleep(0.001)
        card.held = False
        for each in pending:
            bench.equal(each.result(), inputs)
        cycles = (card.sim.stream.last_output - begin) / (256 * batches)
        assert cycles <= max(ii, beats, bench.driver.result[0]) / 0.95


def test_a_batch_that_is_refused_leaves_the_others_alone(bench: Bench) -> None:
    good, bad = bench.states(5), {**bench.states(3), "q": np.full((3, 2), 9.0)}
    with bench.accelerator as accelerator:
        before = accelerator.submit(**good)
        with pytest.raises(ValueError, match=r"input 'q' is 9 at \(0, 0\); the formats were chosen for"):
            accelerator.submit(**bad)
        after = accelerator.submit(**good)
        bench.equal(after.result(), good)
        bench.equal(before.result(), good)
    with pytest.raises(DeviceError, match="is closed; open it again"):
        accelerator.submit(**good)
    bench.equal(after.result(), good)


def test_closing_ends_what_is_under_way(simulated: Kind, designs: Path) -> None:
    bench = opened(simulated, designs, pauses=(0.99, 0.0))
    pending = bench.accelerator.submit(**bench.states(20_000))
    bench.accelerator.close()
    with pytest.raises(DeviceError, match=r"lib\w+\.so was closed while it streamed"):
        pending.result()


def test_a_failure_is_of_its_batch_and_those_behind_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    read, submitted = bench.link.read, threading.Event()

    def failing(results: Words) -> int:
        if len(results) == 31:
            submitted.wait(10)
            raise DeviceError("the cable fell out")
        return read(results)

    states = [bench.states(count, seed=count) for count in (30, 31, 32)]
    with bench.accelerator as accelerator:
        monkeypatch.setattr(bench.link, "read", failing)
        pending = [accelerator.submit(**each) for each in states]
        submitted.set()
        bench.equal(pending[0].result(), states[0])
        with pytest.raises(DeviceError, match="^the cable fell out$"):
            pending[1].result()
        with pytest.raises(DeviceError, match=r"dropped a batch behind one that failed: the cable fell out"):
            pending[2].result()
        bench.equal(accelerator.submit(**states[2]).result(), states[2])
        bench.check(7)


def test_overflow_is_an_error_where_the_caller_wants_it(shell_bench: Bench) -> None:
    states = shell_bench.states(400, seed=400)
    flags = shell_bench.accelerator(**states).overflow
    strict = Function(shell_bench.accelerator.device, overflow="raise")
    if not flags.any():
        assert not strict(**states).overflow.any()
        return
    message = rf"{flags.sum()} of 400 samples overflowed, the first at \({np.argmax(flags)},\); expected states inside"
    with pytest.raises(ArithmeticError, match=message):
        strict(**states)
    with pytest.raises(ArithmeticError, match=message):
        strict.submit(**states).result()
    with pytest.raises(ValueError, match="overflow 'ignore'; expected 'mask' or 'raise'"):
        Function(shell_bench.accelerator.device, overflow="ignore")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_random_turns(seed: int, kind: Kind, designs: Path) -> None:
    turn = random.Random(seed)
    bench = opened(kind, designs, pauses=(turn.random() / 2, turn.random() / 2), seed=seed)

    def abandon() -> None:
        bench.link.write(bench.samples(turn.randint(1, 9)))
        bench.link.reset()

    def refuse() -> None:
        with pytest.raises(ValueError, match="input 'q' is 9 at .* the formats were chosen for"):
            bench.accelerator(**{**bench.states(3), "q": np.full((3, 2), 9.0)})

    def read_hash() -> None:
        assert bench.driver.registers.read("hash_high") == bench.driver.design.device_hash >> 32

    turns = [
        lambda: bench.check(turn.randint(0, 60), seed=turn.randint(0, 99)),
        bench.link.reset,
        abandon,
        refuse,
        read_hash,
    ]
    turns += [bench.driver.session.reset, bench.driver.session.clear] if kind.shell else []
    with bench.accelerator:
        for _ in range(40):
            turn.choice(turns)()
        bench.check(50)


# the bare datapath


def test_a_bare_datapath_has_its_hash_alone(designs: Path) -> None:
    bench = opened(KINDS["datapath"], designs)
    with bench.accelerator:
        status = REGISTERS["status"].address
        only = r"only hash_low at 0x08 and hash_high at 0x0C; expected a design built with axi=Axi\(\.\.\.\)"
        with pytest.raises(RegisterError, match=f"a bare datapath has no register at 0x24, {only}"):
            bench.link.read_register(status)
        with pytest.raises(RegisterError, match=f"no register at 0x20 that can be written, {only}"):
            bench.link.write_register(REGISTERS["control"].address, 1)
        with pytest.raises(RegisterError, match="no register 'status'; expected one of hash_low, hash_high"):
            bench.driver.registers.read("status")
        with pytest.raises(
            RegisterError, match=r"register 'hash_low' is read-only; expected one of none \(a bare data"
        ):
            bench.driver.registers.write("hash_low", 1)


@pytest.mark.parametrize("name", ["datapath", "shell of 32 bits"])
@pytest.mark.parametrize("after", [0, 1, 6, 12])
def test_a_link_is_closed_where_its_device_cannot_be_opened(
    name: str, after: int, designs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A register that cannot be read, while the host looks at the device or reads its counters."""
    built, left, closed = SIMULATED[name].built(designs), [after], list[str]()
    real, close = Registers.read, SimulatedLink.close

    def read(self: Registers, register: str) -> int:
        if not left[0]:
            raise DeviceError("the cable is out")
        left[0] -= 1
        return real(self, register)

    def closing(self: SimulatedLink) -> None:
        closed.append(self.text)
        close(self)

    monkeypatch.setattr(Registers, "read", read)
    monkeypatch.setattr(SimulatedLink, "close", closing)
    if name == "datapath" and after > 1:
        dynagate.open(built).close()
        return
    with pytest.raises(DeviceError, match="the cable is out"):
        dynagate.open(built, shell=SIMULATED[name].shell)
    assert closed


def test_a_design_without_a_shell_is_refused(designs: Path) -> None:
    arm = robots.load("two_joint_arm")
    bare = build(arm, FUNCTION, ii=3, folder=designs)
    with pytest.raises(ValueError, match=r"shell=True, but .* has no AXI shell; expected a design built with axi=Axi"):
        dynagate.open(bare, shell=True)


# the shell


def test_words_are_the_ones_that_the_bench_of_the_hardware_expects(shell_bench: Bench) -> None:
    samples = shell_bench.samples(60)
    words, bad, _ = expected_words(shell_bench.built, samples.reshape(60, -1)[:, :6].copy())
    assert not bad.any()
    got = shell_bench.driver.stream(samples).reshape(60, -1)
    np.testing.assert_array_equal(got[:, :2], words)
    assert not got[:, 3:].any(), "what is left of the last beat is 0"


def test_registers_by_name(shell_bench: Bench) -> None:
    registers, design = shell_bench.driver.registers, shell_bench.built.design
    shell_bench.check(12)
    values = {name: registers.read(name) for name in REGISTERS}
    fixed = ("identity", "version", "hash_low", "hash_high", "ii", "latency", "input_words", "output_words", "control")
    assert [values[name] for name in fixed] == [
        0x44594E47,
        3,
        design.device_hash & 0xFFFFFFFF,
        design.device_hash >> 32,
        shell_bench.kind.ii,
        design.latency,
        6,
        2,
        0,
    ]
    assert values["samples_in"] == values["samples_out"] == 12
    with pytest.raises(RegisterError, match="no register 'speed'; expected one of identity, version, hash_low"):
        registers.read("speed")
    with pytest.raises(RegisterError, match="register 'control' has no bit 'start'; expected one of reset, clear"):
        registers.set("control", "start")


def test_read_only_and_unmapped_registers_are_refused(simulated_shell_bench: Bench) -> None:
    link, registers = simulated_shell_bench.link, simulated_shell_bench.driver.registers
    read_only = [name for name, register in REGISTERS.items() if register.access == "read"]
    before = {name: registers.read(name) for name in read_only}
    for name in read_only:
        address = f"0x{REGISTERS[name].address:02X}"
        message = rf"register '{name}' is read-only; expected one of control \(writing address {address} of .* SLVERR"
        with pytest.raises(RegisterError, match=message):
            registers.write(name, 3)
    assert {name: registers.read(name) for name in read_only} == before
    for address in (4 * len(REGISTERS), 0xFC):
        with pytest.raises(
            RegisterError, match=f"reading address 0x{address:02X} of libacc.* answered with SLVERR; exp"
        ):
            link.read_register(address)
        with pytest.raises(
            RegisterError, match=f"writing address 0x{address:02X} of libacc.* answered with SLVERR; exp"
        ):
            link.write_register(address, 1)
    for address in (2, 0x100, -4):
        with pytest.raises(RegisterError, match="reading address .* expected a multiple of 4 below 0x100"):
            link.read_register(address)
    with pytest.raises(RegisterError, match="writing address 0x20 of .*: 4294967296; expected 32 bits"):
        registers.write("control", 1 << 32)
    simulated_shell_bench.check(5)


def test_counters_and_status_after_overflow_and_bad_inputs(shell_bench: Bench) -> None:
    driver, count = shell_bench.driver, 60
    samples = shell_bench.samples(count, seed=8)
    for k, word in ((4, np.nan), (17, np.inf), (40, 1e30)):
        samples.reshape(count, -1)[k, k % 6] = np.float32(word).view(np.uint32)
    _, bad, scopes = expected_words(shell_bench.built, samples.reshape(count, -1)[:, :6].copy())
    overflow = scopes.any(axis=1)
    words = driver.floats(samples).reshape(count, -1)[:, :2].view(np.float32)
    assert np.array_equal(np.isnan(words).all(axis=1), bad | overflow)
    counters = driver.counters
    assert counters == driver.session.read_counters()
    assert (counters.samples_in, counters.samples_out, counters.misaligned) == (count, count, 0)
    assert (counters.bad_inputs, counters.first_bad_input) == (bad.sum(), 4)
    assert counters.overflows == overflow.sum()
    assert counters.first_overflow == (int(np.argmax(overflow)) if overflow.any() else None)
    names = driver.design.output.scopes
    assert counters.overflow_scopes == tuple(name for name, any_ in zip(names, scopes.any(axis=0), strict=True) if any_)
    assert counters.status == {"bad_input"} | ({"overflow"} if overflow.any() else set())
    for begin_anew in (driver.session.clear, driver.session.reset):
        driver.floats(samples)
        begin_anew()
        cleared = driver.session.read_counters()
        assert cleared.status == frozenset()
        assert (cleared.samples_in, cleared.bad_inputs, cleared.overflows, cleared.overflow_scopes) == (0, 0, 0, ())
        assert (cleared.first_bad_input, cleared.first_overflow) == (None, None)
    shell_bench.check(20)


def test_counters_are_of_the_last_batch(shell_bench: Bench) -> None:
    for count in (30, 5):
        shell_bench.check(count, seed=8)
        overflow = evaluate(shell_bench.built.formatted, shell_bench.states(count, seed=8)).overflow
        assert shell_bench.driver.counters.samples_out == count
        assert shell_bench.driver.counters.overflows == overflow.sum()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_input_that_only_the_device_refuses_is_named(value: float, shell_bench: Bench) -> None:
    arrays = shell_bench.states(12)
    with pytest.raises(ValueError, match=r"input 'qd' is nan at \(7, 1\); expected finite numbers"):
        shell_bench.accelerator(**{**arrays, "qd": with_entry(arrays["qd"], np.nan)})
    low, high = shell_bench.driver.design.input.fields[3].format.limits
    driver = shell_bench.driver
    message = rf"input 'qd' is {value:g} in sample 7; its format holds {low:g} to {high:g}"
    unchecked = {**arrays, "qd": with_entry(arrays["qd"], value)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dynagate.host.inputs.check_range", lambda *_: None)
        with pytest.raises(ValueError, match=message.replace("+", r"\+")):
            driver.run(unchecked, 12)
    shell_bench.check(12)


def with_entry(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.copy()
    changed[7, 1] = value
    return changed


@pytest.mark.parametrize(
    "simulated_shell_bench", [name for name, kind in SHELLS.items() if kind.axi.width < 128], indirect=True
)
def test_a_sample_that_is_cut_short_is_counted(simulated_shell_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = simulated_shell_bench.samples(1).shape[1]
    samples, write = simulated_shell_bench.samples(3), simulated_shell_bench.link.write
    # samples are made of the beats of others where TLAST ends a batch, and the last one is cut: its result comes too
    message = "gave no result for sample 0: .* came"
    if simulated_shell_bench.driver.axi.last == PER_SAMPLE:
        message = (
            "0 results for 3 samples: no beat moved for 500 cycles; 0 samples entered the datapath, "
            "0 results left it, 3 were misaligned"
        )
    monkeypatch.setattr(simulated_shell_bench.link, "write", lambda samples: write(samples[:, : beats - 1]))
    monkeypatch.setattr("dynagate.host.sim_links.IDLE_CYCLES", 500)
    with pytest.raises(DeviceError, match=message):
        simulated_shell_bench.driver.floats(samples)
    monkeypatch.setattr(simulated_shell_bench.link, "write", write)
    simulated_shell_bench.check(20)


@pytest.mark.parametrize("simulated_shell_bench", ["shell of 64 bits"], indirect=True)
def test_a_sample_with_a_hole_is_told(simulated_shell_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = simulated_shell_bench.samples(3)
    punch(monkeypatch, -1)
    message = (
        "sample 2 damaged: a beat of it was lost, came twice or has a hole; .*; the stream had holes: beats whose TKEEP"
    )
    with pytest.raises(DeviceError, match=message):
        simulated_shell_bench.driver.floats(samples)
    monkeypatch.undo()
    simulated_shell_bench.check(20)


def test_tlast_of_results_is_checked(simulated_shell_bench: Bench) -> None:
    samples = simulated_shell_bench.samples(3)
    link = simulated_shell_bench.link
    link.write(samples)
    link.packet = "batch" if link.packet == PER_SAMPLE else "sample"
    with pytest.raises(
        DeviceError, match=rf"libaccelerator\.so set TLAST on another beat than the last of a {link.packet}"
    ):
        link.read(simulated_shell_bench.results(3))


IDENTITY = {"identity": (0x12345678, "0x44594E47"), "version": (VERSION + 1, f"0x{VERSION:X}")}


@pytest.mark.parametrize("name", list(IDENTITY))
def test_registers_that_design_json_does_not_describe_are_refused(name: str, designs: Path, tmp_path: Path) -> None:
    value, shown = IDENTITY[name]
    built = SHELLS["shell of 64 bits"].built(designs)
    folder, _ = altered(built, tmp_path, axi={**built.design.to_json()["axi"], name: value})
    message = rf"libaccelerator\.so has {shown} in register '{name}'; design.json describes 0x{value:X}: build it again"
    with pytest.raises(DesignError, match=message):
        dynagate.open(folder, shell=True)


class Altered(DeviceLink):
    """A real link, some registers of which read as other values."""

    def __init__(self, link: DeviceLink, values: Mapping[str, int]) -> None:
        self._link, self.text = link, "another device"
        self._values = {REGISTERS[name].address: value for name, value in values.items()}
        self.write, self.read, self.reset = link.write, link.read, link.reset
        self.write_register = link.write_register

    def write(self, samples: Words) -> None: ...
    def read(self, results: Words) -> int: ...
    def write_register(self, address: int, value: int) -> None: ...
    def reset(self) -> None: ...

    def read_register(self, address: int) -> int:
        return self._values.get(address, self._link.read_register(address))

    def close(self) -> None:
        self.closed = True
        self._link.close()


@pytest.mark.parametrize("name", ["ii", "latency", "input_words", "output_words"])
def test_a_device_with_other_streams_is_refused(name: str, designs: Path) -> None:
    bench = opened(SHELLS["shell of 64 bits"], designs)
    link = Altered(bench.link, {name: 77})
    with pytest.raises(DesignError, match=f"another device has 0x4D in register '{name}'; design.json describes 0x"):
        ShellSession(bench.driver.design, link).driver()
    assert link.closed


@pytest.mark.parametrize(
    "values",
    [
        {"samples_in": 9},
        {"samples_out": 11},
        {"misaligned": 1},
        {"misaligned": 1, "status": 0b1110},
        {"overflows": 0},
        {"first_overflow": 8},
        {"overflows": 10},
    ],
    ids=str,
)
def test_counters_that_do_not_agree_with_the_results_are_an_error(values: dict[str, int], designs: Path) -> None:
    bench = opened(SHELLS["shell of 64 bits"], designs)
    arrays = bench.states(10, seed=2)
    overflow = evaluate(bench.built.formatted, arrays).overflow
    assert 0 < overflow.sum() < 10
    ShellSession(bench.driver.design, Altered(bench.link, {})).driver().run(arrays, 10)
    with pytest.raises(
        DeviceError, match=r"another device counted Counters\(.*\) for a batch of 10 in which \d results"
    ) as refused:
        ShellSession(bench.driver.design, Altered(bench.link, values)).driver().run(arrays, 10)
    assert ("; the stream had holes" in str(refused.value)) == ("status" in values)
    bench.accelerator.close()
