"""A link that fails: no result is ever lost, doubled or another sample's without an error that says so."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

import numpy as np
import pytest
from dynagate import Function, build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.host import DesignError, DeviceError
from dynagate.host.devices import StreamDevice
from dynagate.host.dma import DmaLink
from dynagate.host.drivers import ShellSession
from dynagate.host.tags import COUNT_BITS, Tags, check_tags, tags_from
from dynagate.host.xdma_link import System, XdmaLink
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi

from tests.samples import State
from tests.standins.board import Board
from tests.standins.faults import NAMED, PASSED_OVER, FaultyCard
from tests.standins.opening import board as new_board
from tests.standins.xdma import CardSystem, LocalCard, Served, device_files, failure

FUNCTION = "forward_dynamics"
STATES = 400


THREE_BEATS, ONE_BEAT = (32, 5, 1.0), (512, 1, -0.3)
"""Bits of the streams, interval, and guard bits: beats of a sample are those of the name."""


def design(shape: tuple[int, int, float], designs: Path) -> Design:
    width, ii, guard = shape
    policy = Policy(word=20, guard_bits=guard)
    return build(robots.load("two_joint_arm"), FUNCTION, ii=ii, policy=policy, axi=Axi(width, "batch"), folder=designs)


@pytest.fixture(scope="module", params=[THREE_BEATS, ONE_BEAT], ids=["three beats", "one beat"])
def built(request: pytest.FixtureRequest, designs: Path) -> Design:
    return design(request.param, designs)


@pytest.fixture(scope="module")
def one(designs: Path) -> Design:
    return design(ONE_BEAT, designs)


class Truth:
    """States, each different from the others, and their results."""

    def __init__(self, built: Design) -> None:
        sample = built.region.sample(FUNCTION, STATES, seed=3)
        formatted = built.formatted
        for port in formatted.graph.inputs:
            low, high = np.array([formatted.bounds[i] for i in port.nodes]).T
            sample[port.name] = np.clip(sample[port.name], low, high)
        self.states: State = {name: value.astype(np.float32).astype(np.float64) for name, value in sample.items()}
        expected = evaluate(formatted, self.states)
        self.qdd = expected.outputs["qdd"].astype(np.float32)
        self.qdd[expected.overflow] = np.nan

    def batch(self, turn: random.Random) -> tuple[State, np.ndarray]:
        first = turn.randrange(STATES)
        which = np.arange(first, first + turn.choice([1, 2, 7, 40, 200])) % STATES
        return {name: value[which] for name, value in self.states.items()}, self.qdd[which]


def faulty(built: Design, kinds: Sequence[str], seed: int, *, patient: bool) -> tuple[Function, FaultyCard]:
    board = new_board(built, timeout=2.0 if patient else 0.03)
    card = FaultyCard(LocalCard(board), kinds, 0.3, seed)
    card.asleep = True
    folder = Path(os.path.realpath(os.environ.get("TMPDIR", "/tmp"))) / f"dynagate-{os.getpid()}-{seed}"
    folder.mkdir(exist_ok=True)
    link = XdmaLink(device_files(folder), built.design, system=CardSystem(card), timeout=10.0 if patient else 0.5)
    link._largest = 30  # many transfers in a batch
    accelerator = Function(StreamDevice(ShellSession(built.design, link).driver()))
    card.asleep = False
    return accelerator, card


def named(error: DeviceError) -> str:
    """Its text, which has the card's name."""
    assert "xdma0" in str(error)
    return str(error)


def run_faults(built: Design, kinds: Sequence[str], seed: int, *, faults: int, patient: bool) -> Counter[str]:
    """Calls until there were so many faults; the errors by the first words of their text."""
    turn, truth = random.Random(seed), Truth(built)
    accelerator, card = faulty(built, kinds, seed, patient=patient)
    errors: Counter[str] = Counter()
    right = 0
    with accelerator:
        # a recovery meets faults too: few of them leave few calls, of which one is to come through
        while card.seen.total() < faults or (faults >= 50 and not right and card.seen.total() < 40 * faults):
            batches = [truth.batch(turn) for _ in range(turn.randint(1, 5))]
            try:
                if turn.random() < 0.5:
                    outcomes = [accelerator.submit(**inputs).result for inputs, _ in batches]
                else:
                    outcomes = [lambda inputs=inputs: accelerator(**inputs) for inputs, _ in batches]
            except DeviceError as error:
                errors[str(error)] += 1
                continue
            for outcome, (_, expected) in zip(outcomes, batches, strict=True):
                try:
                    results = outcome()
                except DeviceError as error:
                    errors[named(error)] += 1
                else:
                    np.testing.assert_array_equal(results.qdd, expected)
                    right += 1
        card.asleep = True
        for _ in range(3):  # what is under way may still hold a fault
            inputs, expected = truth.batch(turn)
            try:
                results = accelerator(**inputs)
            except DeviceError:
                continue
            np.testing.assert_array_equal(results.qdd, expected)
            break
        else:
            pytest.fail("the device did not come back")
    assert right or faults < 50, "no call ever came through"
    assert set(card.seen) <= set(kinds)
    return errors


@pytest.mark.parametrize("seed", range(2))
def test_what_a_system_may_do_is_passed_over(seed: int, built: Design) -> None:
    assert not run_faults(built, PASSED_OVER, seed, faults=100, patient=True)


@pytest.mark.parametrize("seed", range(2))
def test_faults_are_named_and_the_device_comes_back(seed: int, built: Design) -> None:
    assert run_faults(built, [*NAMED, *PASSED_OVER], 100 + seed, faults=60, patient=False)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_ten_thousand_faults(seed: int, built: Design) -> None:
    if seed % 2:
        assert not run_faults(built, PASSED_OVER, 1000 + seed, faults=250, patient=True)
    else:
        assert run_faults(built, [*NAMED, *PASSED_OVER], 1000 + seed, faults=250, patient=False)


@pytest.mark.parametrize("kind", NAMED)
def test_each_fault_is_named(kind: str, designs: Path) -> None:
    shape = THREE_BEATS if kind == "cut write" else ONE_BEAT  # a sample of one beat is never cut
    assert run_faults(design(shape, designs), [kind], 7, faults=3, patient=False)


def tags(*counts: int, epoch: int = 5) -> np.ndarray:
    return np.array([epoch << COUNT_BITS | count % (1 << COUNT_BITS) for count in counts], np.uint32)


TAGS = {
    "lost": (
        tags(3, 4, 6, 7),
        r"card gave no result for sample 2: that of sample 3 came instead, so 1 are lost \(tag 0x",
    ),
    "doubled": (tags(3, 4, 4, 5), "card gave no result for sample 2: that of sample 1 came again"),
    "of a batch before": (tags(1, 2, 3, 4), "sample 0: one of a batch before, 2 samples before this one's first, came"),
    "damaged": (
        ~tags(3, 4, 5, 6),
        "card got sample 0 damaged: a beat of it was lost, came twice or has a hole; .* call again",
    ),
    "stale": (tags(3, 4, 5, 6, epoch=4), "sample 0: a stale one, of before the last reset, came instead .* call again"),
}


@pytest.mark.parametrize("case", list(TAGS))
def test_a_result_of_another_sample_is_an_error_that_names_it(case: str) -> None:
    received, message = TAGS[case]
    with pytest.raises(DeviceError, match=message):
        check_tags("card", tags(3, 4, 5, 6), received)


def test_tags_count_on_past_their_last_and_change_with_a_reset() -> None:
    counter = Tags()
    first = counter.take((1 << COUNT_BITS) - 1)
    check_tags("card", tags(-1, 0, 1, epoch=first >> COUNT_BITS), tags_from(counter.take(3), 3))
    counter.begin_anew()
    assert counter.take(1) >> COUNT_BITS == (first + (1 << COUNT_BITS)) % (1 << 32) >> COUNT_BITS


# opening a card


@pytest.fixture
def card(one: Design, tmp_path: Path) -> tuple[Board, str, System]:
    board = new_board(one, timeout=0.2)
    return board, device_files(tmp_path), CardSystem(LocalCard(board))


def opened(built: Design, card: tuple[Board, str, System], **options: object) -> Function:
    _, path, system = card
    link = XdmaLink(path, built.design, system=system, timeout=1.0, **options)
    return Function(StreamDevice(ShellSession(built.design, link).driver()))


def right(accelerator: Function, built: Design) -> None:
    inputs, expected = Truth(built).batch(random.Random(1))
    np.testing.assert_array_equal(accelerator(**inputs).qdd, expected)


def test_a_card_that_is_not_there_is_named(one: Design, card: tuple[Board, str, System]) -> None:
    _, path, system = card
    with pytest.raises(DeviceError, match="nothing_user: there is no such device; expected a card with a dynagate"):
        XdmaLink(f"{path}nothing", one.design, system=system)
    with pytest.raises(DeviceError, match="xdma0_h2c_3: there is no such device"):
        XdmaLink(path, one.design, channel=3, system=system)
    right(opened(one, card), one)  # which the failure has let go


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EACCES, "xdma0_user: it may not be opened; expected rights to read and write it, by a udev rule"),
        (errno.EBUSY, "xdma0_user: it is busy: another process has it open"),
        (errno.EIO, "xdma0_user: it cannot be opened: Input/output error"),
    ],
)
def test_a_card_that_cannot_be_opened_says_why(
    code: int, message: str, one: Design, card: tuple[Board, str, System], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, flags: int) -> int:
        raise failure(code)

    monkeypatch.setattr(card[2], "open", refuse)
    with pytest.raises(DeviceError, match=message):
        opened(one, card)


def test_a_second_opening_is_refused_with_the_process(one: Design, card: tuple[Board, str, System]) -> None:
    first = opened(one, card)
    with pytest.raises(
        DeviceError, match=rf"xdma0_user is busy: process {os.getpid()} \(.+\) has it open; expected one"
    ):
        opened(one, card)
    right(first, one)
    first.close()
    right(opened(one, card), one)


def test_another_bitstream_is_refused_before_the_first_sample(
    one: Design, card: tuple[Board, str, System], designs: Path
) -> None:
    policy = Policy(word=20, guard_bits=1.0)
    other = build(robots.load("two_joint_arm"), FUNCTION, ii=5, policy=policy, axi=Axi(512, "batch"), folder=designs)
    shown, described = one.design.hash[:16], other.design.hash[:16]
    with pytest.raises(DesignError, match=f"xdma0 holds design {shown}; design.json describes {described}: build it"):
        opened(other, card)
    assert card[0].unsent() == 0
    right(opened(one, card), one)


def test_a_shell_that_dma_cannot_serve_is_refused(one: Design, card: tuple[Board, str, System], designs: Path) -> None:
    arm = robots.load("two_joint_arm")
    per_sample = build(arm, FUNCTION, ii=3, policy=Policy(word=20, guard_bits=-0.3), axi=Axi(128), folder=designs)
    with pytest.raises(DesignError, match="TLAST per sample, which DMA does not set; expected a build with axi=Axi"):
        opened(per_sample, card)
    with pytest.raises(ValueError, match="timeout 0; expected seconds above 0"):
        XdmaLink("/dev/xdma0", one.design, timeout=0)


def test_an_unplugged_card_is_named(one: Design, card: tuple[Board, str, System]) -> None:
    board = card[0]
    accelerator = opened(one, card)
    right(accelerator, one)
    board.plugged = False
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"xdma0 (is gone \(No such device\)|does not answer).*it was unplugged"):
            right(accelerator, one)
    with pytest.raises(DeviceError, match="does not answer .all bits read as 1.: it was unplugged or lost its design"):
        accelerator.device.driver.registers.read("status")
    accelerator.close()
    with pytest.raises(DeviceError, match="it was unplugged or lost its design"):
        opened(one, card)
    board.plugged = True
    right(opened(one, card), one)


def test_silence_ends_with_the_drivers_time(one: Design, card: tuple[Board, str, System]) -> None:
    accelerator = opened(one, card)
    accelerator.device.driver.link._send = lambda data: len(data)
    message = r"0 results for \d+ samples: .*: the read of \d+ bytes was given up by the driver xdma \[DG-LINK-091\]"
    with pytest.raises(DeviceError, match=message):
        right(accelerator, one)
    del accelerator.device.driver.link._send
    right(accelerator, one)


class SlowCard(LocalCard):
    """A result comes 0.3 s late; a soft reset drops it until then."""

    resets = 0

    def read(self, most: int) -> bytes:
        while True:
            data, before = super().read(most), self.resets
            time.sleep(0.3)
            if self.resets == before:
                return data

    def pwrite(self, data: bytes, place: int) -> int:
        self.resets += 1
        return super().pwrite(data, place)


def awaiting(link: DmaLink, count: int) -> Future[None]:
    """Let the link receive results that never come."""
    job = link._receiver.submit(link._take, link._epoch, count, link._result_beats)
    link._jobs = [job]
    return job


def test_a_slow_card_comes_to_rest(one: Design, card: tuple[Board, str, System]) -> None:
    board, path, _ = card
    board.timeout = 60.0
    accelerator = opened(one, (board, path, CardSystem(SlowCard(board))))
    link = accelerator.device.driver.link
    until(awaiting(link, 3).running)
    link.reset()
    right(accelerator, one)


def test_closing_ends_the_transfers(
    one: Design, card: tuple[Board, str, System], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynagate.host.dma.CLOSING_S", 60.0)  # on a busy machine
    card[0].timeout = 1e6  # who waits for it hangs
    link = opened(one, card).device.driver.link
    running = awaiting(link, 3)
    until(running.running)
    link.close()
    wait([running])
    right(opened(one, card), one)


KILLED = """
import sys
from dynagate.design.files import load
from dynagate.host import Function
from dynagate.host.devices import StreamDevice
from dynagate.host.dma import DmaLink
from dynagate.host.drivers import ShellSession
from dynagate.host.xdma_link import XdmaLink
from tests.standins.xdma import CardSystem, RemoteCard
import numpy as np

folder, path, address = sys.argv[1:]
design = load(folder)
link = XdmaLink(path, design, system=CardSystem(RemoteCard(address)), timeout=1.0)
accelerator = Function(StreamDevice(ShellSession(design, link).driver()))
states = {name: np.zeros((20_000, 2)) for name in ("q", "qd", "tau")}
pending = [accelerator.submit(**states) for _ in range(4)]
print("streaming", flush=True)
for each in pending:
    each.result()
print("ended", flush=True)
"""


def until(happens: Callable[[], object]) -> None:
    """Return when it has happened; after ten minutes, which only end a hang."""
    end = time.monotonic() + 600.0
    while not happens() and time.monotonic() < end:
        time.sleep(0.001)


def test_a_process_that_is_killed_leaves_a_device_that_the_next_one_recovers(
    one: Design, card: tuple[Board, str, System], tmp_path: Path
) -> None:
    board, path, system = card
    served = Served(LocalCard(board), str(tmp_path / "card"))
    command = [sys.executable, "-c", KILLED, str(one.folder), path, str(tmp_path / "card")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    board.sim.gap = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "streaming\n"
        with pytest.raises(DeviceError, match=rf"xdma0_user is busy: process {process.pid} \(\w+.*\) has it open"):
            XdmaLink(path, one.design, system=system)
        board.held = True  # nobody takes a result, so the next transfer in stays on the card
        until(lambda: board.unsent() or board.out)
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == ""
    assert board.unsent() or board.out, "nothing was under way"
    board.held = False
    served.close()
    accelerator = opened(one, card)
    for _ in range(3):
        right(accelerator, one)
    accelerator.close()
