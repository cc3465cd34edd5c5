"""cocotb benches of a datapath in its shell: the streams under stalls, registers, resets, and bad input."""

from __future__ import annotations

import json
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from dynagate.design.design import Design
from dynagate.hw.rtl.axi import PER_SAMPLE
from dynagate.sim.bench import PERIOD_NS, pause_patterns, rounds, vectors

MOST_BETWEEN = 24
"""Cycles of registers and FIFOs between the parts, overflow bits that come late among them."""


class Bench:
    """The design under test with its drivers. rows of words: float32 as bits, then a tag, a row per sample."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        data = vectors()
        self.inputs, self.outputs = data["inputs"], data["outputs"]
        self.bad, self.overflow = data["bad"], data["overflow"]
        self.design = Design.from_json(json.loads(str(data["design"])))
        assert self.design.axi is not None
        self.axi = self.design.axi
        self.registers = {name: row.address for name, row in self.axi.registers.items()}
        self.seed = int(data["seed"])
        wires = {"clock": dut.aclk, "reset": dut.aresetn, "reset_active_level": False}
        lanes = {"byte_lanes": self.axi.width // 8}
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), **wires)
        self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), **wires, **lanes)
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), **wires)
        for part in (self.source, self.sink):
            part.log.setLevel("WARNING")
        for part in (self.lite.read_if, self.lite.write_if):
            part.log.setLevel("WARNING")

    @classmethod
    async def start(cls, dut: Any) -> Bench:
        Clock(dut.aclk, PERIOD_NS, unit="ns").start()
        dut.aresetn.value = 0
        bench = cls(dut)
        await ClockCycles(dut.aclk, 4)
        dut.aresetn.value = 1
        await ClockCycles(dut.aclk, 2)
        return bench

    def frame(self, rows: Any, side: str = "input") -> bytes:
        """Samples as they lie in the beats of a stream."""
        padded = np.zeros((len(rows), getattr(self.axi.beats, side) * self.axi.width // 32), dtype="<u4")
        padded[:, : rows.shape[1]] = rows
        return padded.tobytes()

    async def send(self, rows: Any) -> None:
        for frame in self._frames(rows):
            await self.source.send(AxiStreamFrame(frame))

    def _frames(self, rows: Any) -> list[bytes]:
        return [self.frame(rows[k : k + 1]) for k in range(len(rows))] if self.per_sample else [self.frame(rows)]

    @property
    def per_sample(self) -> bool:
        return self.axi.last == PER_SAMPLE

    def offered(self) -> bytes | None:
        """The beat on m_axis, or None."""
        if not int(self.dut.m_axis_tvalid.value):
            return None
        return int(self.dut.m_axis_tdata.value).to_bytes(self.axi.width // 8, "little")

    def rows_of(self, chosen: Any) -> Any:
        """The results of these samples as they lie in the beats, a row each."""
        rows = np.frombuffer(self.frame(self.outputs[chosen], "output"), "<u4")
        return rows.reshape(-1, self.axi.beats.output * self.axi.lanes)

    async def rows(self) -> Any:
        """The results of the next frame, a row each."""
        frame = await with_timeout(self.sink.recv(), 5000 * PERIOD_NS, "ns")
        return np.frombuffer(bytes(frame.tdata), "<u4").reshape(-1, self.axi.beats.output * self.axi.lanes)

    async def expect(self, chosen: Any, *, after: bytes = b"") -> None:
        """The results of these samples, in frames as TLAST has it. after: what the first one begins with."""
        rows = self.outputs[chosen]
        frames = [rows[k : k + 1] for k in range(len(rows))] if self.per_sample else [rows]
        each = self.design.interval + self.axi.beats.input + self.axi.beats.output
        cycles = 60 * len(rows) * each + 5000
        for k, part in enumerate(frames):
            got = await with_timeout(self.sink.recv(), cycles * PERIOD_NS, "ns")
            due = (after if k == 0 else b"") + self.frame(part, "output")
            assert bytes(got.tdata) == due, f"result {k} of {len(frames)} differs"

    async def quiet(self) -> None:
        """Check that no unexpected data is left."""
        await ClockCycles(self.dut.aclk, self.design.latency + 200)
        assert self.sink.empty(), "a result came that belongs to no input"

    async def read(self, name: str) -> int:
        return int.from_bytes((await self.lite.read(self.registers[name], 4)).data, "little")

    async def control(self, bit: str) -> None:
        place = self.axi.registers["control"].bits.index(bit)
        await self.lite.write(self.registers["control"], (1 << place).to_bytes(4, "little"))
        await ClockCycles(self.dut.aclk, 4)

    async def status(self) -> set[str]:
        value = await self.read("status")
        return {name for k, name in enumerate(self.axi.registers["status"].bits) if value >> k & 1}


@cocotb.test()
async def streams_under_stalls(dut: Any) -> None:
    bench = await Bench.start(dut)
    patterns = pause_patterns(bench.seed)
    for gaps, stalls, part in rounds(len(bench.inputs), list(patterns)):
        bench.source.set_pause_generator(patterns[gaps]())
        bench.sink.set_pause_generator(patterns[stalls]())
        await bench.send(bench.inputs[part])
        await bench.expect(part)
    bench.source.clear_pause_generator()
    bench.sink.clear_pause_generator()
    await bench.quiet()
    seen, over = bench.bad, bench.overflow.any(axis=1)
    assert await bench.read("samples_in") == await bench.read("samples_out") == len(bench.inputs)
    assert await bench.read("bad_inputs") == seen.sum()
    assert await bench.read("overflows") == over.sum()
    if seen.any():
        assert await bench.read("first_bad_input") == int(np.argmax(seen))
    if over.any():
        assert await bench.read("first_overflow") == int(np.argmax(over))
    scopes = sum(1 << k for k, flag in enumerate(bench.overflow.any(axis=0)) if flag)
    assert await bench.read("overflow_scopes") == scopes
    expected = {name for name, flag in (("bad_input", seen.any()), ("overflow", over.any())) if flag}
    assert await bench.status() == expected
    assert await bench.read("output_stalls") > 0
    await bench.control("clear")
    assert await bench.status() == set()
    assert await bench.read("samples_in") == 0


@cocotb.test()
async def registers_are_read_while_samples_stream(dut: Any) -> None:
    bench = await Bench.start(dut)
    part = slice(0, min(len(bench.inputs), 64))
    await bench.send(bench.inputs[part])
    receiving = cocotb.start_soon(bench.expect(part))
    design = bench.design
    expected = {
        "identity": 0x44594E47,
        "version": 3,
        "hash_low": design.device_hash & 0xFFFFFFFF,
        "hash_high": design.device_hash >> 32,
        "ii": design.interval,
        "latency": design.latency,
        "input_words": bench.inputs.shape[1] - 1,
        "output_words": bench.outputs.shape[1] - 1,
        "control": 0,
    }
    for name, value in expected.items():
        assert await bench.read(name) == value, name
    beyond = 4 * len(bench.registers)
    assert (await bench.lite.read(beyond, 4)).resp == AxiResp.SLVERR
    assert (await bench.lite.write(bench.registers["status"], bytes(4))).resp == AxiResp.SLVERR
    assert (await bench.lite.write(bench.registers["control"], bytes(4))).resp == AxiResp.OKAY
    await receiving
    assert await bench.read("samples_out") == part.stop


@cocotb.test()
async def misaligned_samples_are_told(dut: Any) -> None:
    bench = await Bench.start(dut)
    beats, width = bench.axi.beats.input, bench.axi.width // 8
    one = bench.frame(bench.inputs[:1])
    if bench.per_sample:
        if beats > 1:  # TLAST too early: dropped
            await bench.source.send(AxiStreamFrame(one[:width]))
        # TLAST missing: two samples in one frame, both of which count
        await bench.source.send(AxiStreamFrame(bench.frame(bench.inputs[1:3])))
    await bench.send(bench.inputs[3:6])
    await bench.expect(slice(1, 6) if bench.per_sample else slice(3, 6))
    await bench.quiet()
    wrong = bench.per_sample * (1 + (beats > 1))
    assert await bench.read("misaligned") == wrong
    assert ("misaligned" in await bench.status()) == bool(wrong)


@cocotb.test()
async def a_batch_that_is_cut_short_ends(dut: Any) -> None:
    """The result of the sample that TLAST cuts is NaN, and has TLAST and its tag inverted."""
    bench = await Bench.start(dut)
    if bench.per_sample or bench.axi.beats.input == 1:
        return
    good = np.flatnonzero(~bench.bad & ~bench.overflow.any(axis=1))[:3]
    width = bench.axi.width // 8
    for kept in range(1, bench.axi.beats.input):
        whole = bench.frame(bench.inputs[good])
        await bench.source.send(AxiStreamFrame(whole[: len(whole) - kept * width]))
        rows = await bench.rows()
        assert rows[:2].tolist() == bench.rows_of(good[:2]).tolist()
        assert np.isnan(rows[2].view(np.float32)[: bench.axi.words.output]).all()
        assert len(rows) == 3
        last_beat = np.frombuffer(whole[: len(whole) - kept * width][-width:], np.uint32)
        assert rows[2, bench.axi.words.output] == ~last_beat[bench.axi.words.input % bench.axi.lanes]
        assert await bench.read("misaligned") == kept
        assert await bench.read("samples_in") == await bench.read("samples_out") == 3 * kept


@cocotb.test()
async def a_beat_too_many_is_told_of_each_sample(dut: Any) -> None:
    """Positions of words that follow the tag and should be 0. The last sample is cut too, and counts once."""
    bench = await Bench.start(dut)
    axi, width = bench.axi, bench.axi.width // 8
    if bench.per_sample or axi.beats.input == 1:
        return
    padded = axi.beats.input * axi.lanes > axi.words.input + 1
    data = bench.frame(bench.inputs[:5])
    at = 2 * len(data) // 5  # in the third sample
    await bench.source.send(AxiStreamFrame(data[: at + width] + data[at:]))
    rows = await bench.rows()
    assert rows[:2].tolist() == bench.rows_of(slice(2)).tolist()
    assert len(rows) == 6
    assert await bench.read("misaligned") == (4 if padded else 1)
    if padded:
        assert np.isnan(rows[2:].view(np.float32)[:, : axi.words.output]).all()


@cocotb.test()
async def holes_are_told(dut: Any) -> None:
    """A missing byte of a sample or of its tag spoils only this sample. After the tag bytes may be missing."""
    bench = await Bench.start(dut)
    axi, size = bench.axi, 4 * (bench.axi.words.input + 1)
    good = np.flatnonzero(~bench.bad & ~bench.overflow.any(axis=1))[:3]
    one = len(bench.frame(bench.inputs[good[:1]]))
    for count, hole in enumerate([None, 0, 5, size - 1, *([axi.width // 8 - 1] if axi.beats.input > 1 else [])]):
        data, keep = bytearray(bench.frame(bench.inputs[good])), [1] * (3 * one)
        for sample in (0, 1):
            low, high = sample * one + size, (sample + 1) * one
            data[low:high], keep[low:high] = b"\xa5" * (high - low), [0] * (high - low)
        if hole is not None:
            keep[one + hole] = 0
        ends = range(one, 3 * one + 1, one) if bench.per_sample else [3 * one]
        for low, high in zip([0, *ends], ends, strict=False):
            await bench.source.send(AxiStreamFrame(bytes(data[low:high]), tkeep=keep[low:high]))
        frames = [await bench.rows() for _ in ends]
        rows, due = np.concatenate(frames), bench.rows_of(good)
        spoilt = [False, hole is not None, False]
        assert (rows != due).any(axis=1).tolist() == spoilt, hole
        if hole is not None:
            assert np.isnan(rows[1].view(np.float32)[: axi.words.output]).all()
            assert rows[1, axi.words.output] == ~due[1, axi.words.output]
        assert await bench.read("misaligned") == count
        assert await bench.status() == ({"misaligned", "hole"} if count else set())
    await bench.control("clear")
    assert await bench.status() == set()


@cocotb.test()
async def resets_in_mid_stream(dut: Any) -> None:
    """A soft reset leaves the beat that is offered."""
    bench = await Bench.start(dut)
    for kind in ("soft", "hard"):
        bench.sink.pause = True
        await bench.send(bench.inputs[:20])
        await ClockCycles(dut.aclk, 2 * bench.design.latency + 60)
        bench.source.clear()
        while not bench.source.idle():
            bench.source.clear()
            await ClockCycles(dut.aclk, 1)
        offered = bench.offered()
        assert offered is not None
        if kind == "soft":
            await bench.control("reset")
            assert bench.offered() == offered
        else:
            dut.aresetn.value = 0
            await ClockCycles(dut.aclk, 3)
            dut.aresetn.value = 1
            await ClockCycles(dut.aclk, 3)
            assert bench.offered() is None
            offered = None
        bench.sink.pause = False
        await ClockCycles(dut.aclk, 4)
        if bench.per_sample and offered is not None:
            await bench.rows()
            offered = None
        await bench.quiet()
        assert await bench.read("samples_in") == 0
        await bench.send(bench.inputs[4:9])
        await bench.expect(slice(4, 9), after=offered or b"")
        await bench.quiet()
        assert await bench.read("samples_out") == 5
        await bench.control("clear")


@cocotb.test()
async def a_sample_alone_takes_what_its_parts_take(dut: Any) -> None:
    """From its first beat in to its last beat out."""
    bench = await Bench.start(dut)
    good = int(np.argmin(bench.bad))
    seen: dict[str, int] = {}
    counting = cocotb.start_soon(_note_beats(dut, seen))
    await bench.send(bench.inputs[good : good + 1])
    await bench.expect(slice(good, good + 1))
    counting.cancel()
    taken = seen["last"] - seen["first"] + 1
    beats, conversion = bench.axi.beats, bench.axi.conversion
    parts = beats.input + beats.output + conversion.input + conversion.output + bench.design.latency
    dut._log.info("from the first beat in to the last beat out: %d cycles, %d of them in parts named", taken, parts)
    assert parts <= taken <= parts + bench.design.interval + MOST_BETWEEN


async def _note_beats(dut: Any, seen: dict[str, int]) -> None:
    """The cycles of the first beat in and of the last beat out."""
    cycle = 0
    while True:
        await RisingEdge(dut.aclk)
        await ReadOnly()
        cycle += 1
        if int(dut.s_axis_tvalid.value) and int(dut.s_axis_tready.value):
            seen.setdefault("first", cycle)
        if int(dut.m_axis_tvalid.value) and int(dut.m_axis_tready.value):
            seen["last"] = cycle
