"""The serial line: frames, the gateware that speaks them, and the link on a pseudo-terminal before the real RTL."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import Simulator
from dynagate import Function, build, robots
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.evaluate import evaluate
from dynagate.host import DesignError, DeviceError, RegisterError
from dynagate.host.devices import StreamDevice
from dynagate.host.drivers import ShellDriver, ShellSession
from dynagate.host.uart_link import UartLink
from dynagate.hw.designs import Design
from dynagate.hw.rtl import frames
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.frames import Decoder, FrameKind, SerialFrame
from dynagate.hw.rtl.regmap import REGISTERS
from dynagate.hw.rtl.uart import FrameReader, FrameWriter, clocks_per_bit
from dynagate.sim.line import SimulatedBoard, device_library

from tests.samples import State

FUNCTION = "forward_dynamics"
AWKWARD = b"\xc0\xdb\xdc\xdd\x00\xff"
"""Bytes that frames write otherwise, and others."""


# frames


def some_frame(rng: random.Random, most: int = 6) -> SerialFrame:
    payload = bytes(
        rng.choice(AWKWARD) if rng.random() < 0.5 else rng.randrange(256) for _ in range(4 * rng.randint(0, most))
    )
    return SerialFrame(
        rng.choice(list(FrameKind)),
        rng.randrange(256),
        rng.choice([0, 0xC0DB, 0xFFFF, rng.randrange(1 << 16)]),
        payload,
    )


def damaged(data: bytes, rng: random.Random) -> bytes:
    """With a byte changed, lost or added."""
    at, byte = rng.randrange(len(data)), bytes([rng.randrange(256)])
    changed = bytes([data[at] ^ 1 << rng.randrange(8)])
    return data[:at] + rng.choice([changed, b"", byte + data[at : at + 1]]) + data[at + 1 :]


def test_a_frame_on_the_line() -> None:
    """The bytes that docs/boards_free.md shows: END, header, CRC-32, END; and what END and ESC become."""
    assert SerialFrame(FrameKind.READ, 4, 7).encoded().hex(" ") == "c0 02 04 07 00 8c 29 05 c3 c0"
    assert SerialFrame(FrameKind.WRITE, 32, 1, b"\xc0\xdb\x00\x00").encoded()[5:11] == b"\xdb\xdc\xdb\xdd\x00\x00"


def test_frames_come_back_whatever_is_around_them() -> None:
    rng = random.Random(1)
    for _ in range(300):
        decoder, sent, line = Decoder(), [], b""
        for _ in range(5):
            frame = some_frame(rng)
            sent.append(frame)
            line += frame.encoded() + rng.choice([b"", bytes(rng.randrange(256) for _ in range(5)) + b"\xc0"])
        cut = rng.randrange(len(line))
        assert [*decoder.feed(line[:cut]), *decoder.feed(line[cut:])] == sent


def test_a_damaged_frame_is_dropped() -> None:
    rng = random.Random(2)
    for _ in range(500):
        frame, other = some_frame(rng), some_frame(rng)
        line = damaged(frame.encoded(), rng)
        received = list(Decoder().feed(line + other.encoded()))
        assert received in ([other], [frame, other]), line.hex(" ")
        if frame in received:  # a byte was added before or behind it
            assert frame.encoded()[1:-1] in line


@pytest.mark.parametrize(
    ("megahertz", "baud", "clocks"), [(25, 1e6, 25), (100, 3e6, 33), (87.5, 3e6, 29), (12, 3e6, 4)]
)
def test_clocks_of_a_bit(megahertz: float, baud: float, clocks: int) -> None:
    assert clocks_per_bit(megahertz, int(baud)) == clocks


@pytest.mark.parametrize(
    ("megahertz", "baud", "message"), [(9, 3e6, "3 clocks a bit, 0.0% off"), (25, 3e6, "8 clocks a bit, 4.2% off")]
)
def test_a_clock_that_makes_no_such_baud_is_refused(megahertz: float, baud: float, message: str) -> None:
    with pytest.raises(
        ValueError, match=rf"3000000 baud from a clock of {megahertz} MHz is .*{message}; expected 4 clocks"
    ):
        clocks_per_bit(megahertz, int(baud))


# the gateware, in Amaranth's simulator


def test_the_reader_takes_the_frames_that_the_decoder_takes() -> None:
    rng, depth = random.Random(3), 8
    line, expected = b"", []
    for _ in range(120):
        frame = some_frame(rng, most=depth + 1)
        data = frame.encoded()
        line += damaged(data, rng) if rng.random() < 0.5 else data
        if rng.random() < 0.2:
            line += data.replace(b"\xdb", b"\xdb\xdb", 1)
    expected = [frame for frame in Decoder().feed(line) if len(frame.payload) // 4 + 1 <= depth]
    reader, got = FrameReader(depth), []

    async def bench(ctx) -> None:
        words: dict[int, int] = {}
        ctx.set(reader.room, depth)
        for byte in line:
            ctx.set(reader.data, byte)
            ctx.set(reader.valid, 1)
            for _ in range(8):
                if ctx.get(reader.write):
                    words[ctx.get(reader.place)] = ctx.get(reader.word)
                await ctx.tick()
                ctx.set(reader.valid, 0)
                if ctx.get(reader.whole):
                    header, count = ctx.get(reader.header), ctx.get(reader.count)
                    payload = b"".join(words[k].to_bytes(4, "little") for k in range(count))
                    got.append(SerialFrame(header & 255, header >> 8 & 255, header >> 16, payload))
                    if count:
                        assert ctx.get(reader.value) == words[0]

    simulate(reader, bench)
    assert got == expected
    assert 30 < len(expected) < 120


def test_the_writer_s_frames_are_decoded() -> None:
    rng = random.Random(4)
    sent = [some_frame(rng) for _ in range(40)]
    writer, line = FrameWriter(), bytearray()

    async def source(ctx) -> None:
        for frame in sent:
            words = np.frombuffer(frame.payload, "<u4")
            ctx.set(writer.header, frame.kind | frame.argument << 8 | frame.number << 16)
            ctx.set(writer.open, 1)
            await ctx.tick().until(writer.opened)
            ctx.set(writer.open, 0)
            ctx.set(writer.last, len(words) == 0)
            for k, word in enumerate(words):
                await ctx.tick().repeat(rng.randrange(50))
                ctx.set(writer.word, int(word))
                ctx.set(writer.valid, 1)
                ctx.set(writer.last, k == len(words) - 1)
                await ctx.tick().until(writer.ready)
                ctx.set(writer.valid, 0)
                ctx.set(writer.last, 0)
            if not len(words):
                await ctx.tick().repeat(40)
        await ctx.tick().repeat(200)

    async def sink(ctx) -> None:
        ctx.set(writer.taken, 0)
        async for _, _, offered, data in ctx.tick().sample(writer.offered, writer.data):
            if offered and ctx.get(writer.taken):
                line.append(data)
            ctx.set(writer.taken, rng.random() < 0.5)

    simulate(writer, source, background=sink)
    decoder = Decoder()
    assert list(decoder.feed(bytes(line))) == sent
    assert decoder.damaged == 0


def simulate(component, bench, background=None) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    if background is not None:
        simulator.add_testbench(background, background=True)
    simulator.run()


# the link, before the whole accelerator in Verilator


@dataclass
class Bench:
    """A simulated board and an accelerator on it."""

    built: Design
    board: SimulatedBoard
    accelerator: Function

    @property
    def driver(self) -> ShellDriver:
        return self.accelerator.device.driver

    def states(self, count: int, seed: int = 1) -> State:
        sample = self.built.region.sample(FUNCTION, max(count, 1), seed)
        for port in self.built.graph.inputs:
            low, high = np.array([self.built.formatted.bounds[i] for i in port.nodes]).T
            sample[port.name] = np.clip(sample[port.name], low, high)
        return {name: value[:count].astype(np.float32).astype(np.float64) for name, value in sample.items()}

    def check(self, count: int, seed: int = 1) -> None:
        """The device's results are the integers'."""
        states = self.states(count, seed)
        results = self.accelerator(**states)
        if count:
            expected = evaluate(self.built.formatted, states)
            words = expected.outputs["qdd"].astype(np.float32)
            words[expected.overflow] = np.nan
            np.testing.assert_array_equal(results.qdd, words)


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    arm = robots.load("two_joint_arm")
    return build(arm, FUNCTION, ii=5, policy=Policy(word=20, guard_bits=-0.3), axi=Axi(32, "batch"), folder=designs)


@pytest.fixture
def board(built: Design) -> Iterator[SimulatedBoard]:
    with SimulatedBoard(device_library(built.folder, built.design)) as board:
        yield board


def opened(built: Design, board: SimulatedBoard, **options: float) -> Bench:
    link = UartLink(board.path, built.design, **{"timeout": 5.0, **options})
    return Bench(built, board, Function(StreamDevice(ShellSession(built.design, link).driver())))


@pytest.fixture
def bench(built: Design, board: SimulatedBoard) -> Iterator[Bench]:
    bench = opened(built, board)
    with bench.accelerator:
        yield bench


def test_results_are_the_integers(bench: Bench) -> None:
    for count in (1, 7, 0, 300, 40):
        bench.check(count, seed=count)
    assert bench.driver.counters.samples_out == 40


def test_registers_are_those_of_the_shell(bench: Bench) -> None:
    read, link = bench.driver.registers.read, bench.driver.link
    assert read("hash_high") << 32 | read("hash_low") == bench.built.design.device_hash
    assert read("latency") == bench.built.design.latency
    address = REGISTERS["latency"].address
    with pytest.raises(
        RegisterError, match=rf"writing address 0x{address:02X} of {bench.board.path} was answered with SLV"
    ):
        link.write_register(address, 1)
    with pytest.raises(
        RegisterError, match="reading address 0xFC .* answered with SLVERR; expected an address that a r"
    ):
        link.read_register(0xFC)
    with pytest.raises(RegisterError, match="reading address 0x100 .* expected a multiple of 4 below 0x100"):
        link.read_register(0x100)
    with pytest.raises(RegisterError, match="writing address 0x20 .*: 4294967296; expected 32 bits"):
        link.write_register(0x20, 1 << 32)
    bench.check(5)


def test_garbage_between_frames_is_no_sample(bench: Bench) -> None:
    rng, gap = random.Random(5), frames.END
    noise = bytes([gap, *(rng.randrange(256) for _ in range(50)), gap])
    bench.board.damage = lambda data: data.replace(b"\xc0\xc0", b"\xc0" + noise + b"\xc0")
    bench.check(60)


class Once:
    """Changes one byte of a stream: the first of a frame's content behind `after` bytes, wherever reads cut it."""

    def __init__(self, change: Callable[[bytes], bytes], after: int) -> None:
        self._change, self._left = change, after

    def __call__(self, data: bytes) -> bytes:
        at = max(self._left, 0)
        self._left -= len(data)
        while data[at : at + 1] == bytes([frames.END]):
            at += 1
        if self._change is None or at >= len(data):
            return data
        change, self._change = self._change, None
        return data[:at] + change(data[at : at + 1]) + data[at + 1 :]


def lost(byte: bytes) -> bytes:
    return b""


def changed(byte: bytes) -> bytes:
    return bytes([byte[0] ^ 4])


@pytest.mark.parametrize("change", [lost, changed])
def test_a_damaged_sample_is_an_error_and_a_reset_cures_it(change, bench: Bench) -> None:
    bench.board.damage = Once(change, 3000)
    with pytest.raises(DeviceError, match=rf"{bench.board.path}: sample \d+ was lost or damaged on the line; reset it"):
        bench.check(200)
    bench.check(30)


@pytest.mark.parametrize("change", [lost, changed])
@pytest.mark.parametrize("most", [1, 4096], ids=["a byte a read", "frames a read"])
def test_a_damaged_result_is_an_error_and_a_reset_cures_it(most: int, change, bench: Bench, monkeypatch) -> None:
    """The message is the same whether or not the next results come in the same read."""
    port = bench.driver.link._port
    read = port.read

    def late(_count: int) -> bytes:
        if most > 1:
            time.sleep(0.01)
        return read(min(max(port.in_waiting, 1), most))

    bench.board.damage_back = Once(change, 500)
    with monkeypatch.context() as patch:
        patch.setattr(port, "read", late)
        with pytest.raises(DeviceError, match="a frame from the device was damaged on the line; reset it"):
            bench.check(200)
    bench.check(30)


class Swallowed:
    """Loses the first bytes of a stream."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, data: bytes) -> bytes:
        lost, self._left = self._left, max(self._left - len(data), 0)
        return data[lost:]


def test_a_lost_last_sample_is_a_time_out(built: Design, board: SimulatedBoard) -> None:
    with (bench := opened(built, board, timeout=0.5)).accelerator:
        sample = len(frames.SerialFrame(FrameKind.SAMPLE, 0, 0, bytes(24)).encoded())
        start = bench.driver.stream

        def lossy(samples):
            board.damage = Swallowed(sample)
            return start(samples)

        bench.driver.stream = lossy
        message = rf"0 results for 1 samples: nothing came from {board.path} for 0.5 s; 0 samples entered the datapath"
        with pytest.raises(DeviceError, match=message):
            bench.check(1)
        bench.driver.stream = start
        bench.check(9)


class Faults:
    """Damages a byte now and then: `mean` bytes lie between two faults on average. How the bytes are cut does not
    matter."""

    def __init__(self, mean: float, rng: random.Random) -> None:
        self._mean, self._rng = mean, rng
        self._left = self._gap()

    def _gap(self) -> int:
        return round(self._rng.expovariate(1 / self._mean))

    def __call__(self, data: bytes) -> bytes:
        out = b""
        while self._left < len(data):
            out += data[: self._left] + damaged(data[self._left : self._left + 1], self._rng)
            data, self._left = data[self._left + 1 :], self._gap()
        self._left -= len(data)
        return out + data


def test_faults_at_random_never_make_a_wrong_result(bench: Bench) -> None:
    """Whatever is lost or changed, the call says so or its results are right; the next call works."""
    errors = 0
    for turn in range(15):
        bench.driver.link._timeout = 0.2
        bench.board.damage, bench.board.damage_back = (Faults(3000, random.Random(2 * turn + k)) for k in (0, 1))
        try:
            bench.check(30, seed=turn)
        except DeviceError:
            errors += 1
        bench.board.damage = bench.board.damage_back = lambda data: data
        bench.driver.link._timeout = 60.0  # on a busy machine a sound call takes long
        bench.driver.link.reset()
        bench.check(3, seed=turn)
    assert errors > 0


def test_another_bitstream_is_refused(built: Design, board: SimulatedBoard) -> None:
    other = replace(built.design, hash="f" * len(built.design.hash))
    with pytest.raises(
        DesignError, match=f"{board.path} holds design {built.design.hash[:16]}; design.json describes ffff"
    ):
        ShellSession(other, UartLink(board.path, other)).driver()
    with (bench := opened(built, board)).accelerator:
        bench.check(3)


def test_an_unplugged_board_is_an_error(bench: Bench) -> None:
    bench.check(3)
    bench.board.unplug()
    with pytest.raises(DeviceError, match=f"{bench.board.path} (is gone|cannot be opened)"):
        bench.check(3)
    with pytest.raises(
        DeviceError, match=f"{bench.board.path} cannot be opened: there is no such port; plug the board in"
    ):
        bench.driver.link.reset()


def test_a_silent_board_is_an_error(built: Design, board: SimulatedBoard) -> None:
    board.freeze()
    message = (
        f"nothing on {board.path} answers at 3000000 baud; expected a board with a bitstream of dynagate's and this"
    )
    with pytest.raises(DeviceError, match=message):
        UartLink(board.path, built.design, timeout=0.2)
    board.freeze(False)
    with (bench := opened(built, board, timeout=0.5)).accelerator:
        bench.check(3)
        board.freeze()
        with pytest.raises(RegisterError, match=r"reading address 0x00 .* was not answered in 0.5 s"):
            bench.driver.registers.read("identity")
        board.freeze(False)
        bench.driver.link.reset()
        bench.check(3)


def test_a_busy_board_is_an_error(bench: Bench) -> None:
    command = "import sys\nfrom dynagate.design.files import load\nfrom dynagate.host.uart_link import UartLink\n"
    command += "UartLink(sys.argv[1], load(sys.argv[2]))"
    done = subprocess.run(
        [sys.executable, "-c", command, bench.board.path, bench.built.folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{bench.board.path} cannot be opened: another program uses it; close that" in done.stderr
    bench.check(3)


def test_a_closed_link_refuses_everything(bench: Bench) -> None:
    link = bench.driver.link
    link.close()
    link.close()
    for use in (
        lambda: link.write(np.zeros((1, 7, 1), np.uint32)),
        lambda: link.read(np.zeros((1, 2, 1), np.uint32)),
        lambda: link.read_register(0),
        lambda: link.write_register(0x20, 0),
        link.reset,
    ):
        with pytest.raises(DeviceError, match=f"the device on {bench.board.path} is closed; open it again"):
            use()


def test_one_batch_at_a_time_and_of_the_right_shape(bench: Bench) -> None:
    link = bench.driver.link
    with pytest.raises(DeviceError, match=r"samples are \(1, 3, 2\); .* expects \(samples, 7, 1\)"):
        link.write(np.zeros((1, 3, 2), np.uint32))
    link.write(np.zeros((2, 7, 1), np.uint32))
    with pytest.raises(DeviceError, match="streams already; expected one batch at a time"):
        link.write(np.zeros((2, 7, 1), np.uint32))
    link.reset()
    bench.check(4)


def test_what_cannot_be_opened_is_refused(built: Design, tmp_path: Path) -> None:
    with pytest.raises(
        DeviceError, match="nowhere cannot be opened: there is no such port; plug the board in, or name an"
    ):
        UartLink(str(tmp_path / "nowhere"), built.design)
    near, far = os.openpty()
    with pytest.raises(ValueError, match=r"/dev/pts/\d+ takes no -3 baud"):
        UartLink(os.ttyname(far), built.design, baud=-3)
    os.close(near)
    os.close(far)
    wide = replace(built.design, axi=None)
    with pytest.raises(DesignError, match=r"has no AXI shell of 32 bits; expected a build with axi=Axi\(32\)"):
        UartLink("/dev/null", wide)
