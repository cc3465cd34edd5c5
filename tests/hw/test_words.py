"""Numbers to the words of the streams and back: by hand, and by the C of a design and numpy, bit by bit."""

from __future__ import annotations

from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, build, robots
from dynagate.design.codec import Codec, NumberSlot
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.format import Format
from dynagate.host import DeviceError
from dynagate.host.tags import COUNT_BITS
from dynagate.host.words import StreamWords, tag_words
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi

from tests.samples import State

FUNCTION = "forward_dynamics_gradient"
COUNTS = (1, 7, 8, 9, 16, 100)
"""Around the blocks in which rows are converted."""


@pytest.fixture(scope="module", params=[32, 512])
def built(request: pytest.FixtureRequest, designs: Path) -> Design:
    axi = Axi(request.param, "batch")
    return build(robots.load("two_joint_arm"), FUNCTION, ii=3, policy=Policy(word=20), axi=axi, folder=designs)


@pytest.fixture
def both(built: Design) -> tuple[StreamWords, StreamWords]:
    """Compiled and in numpy, with the same tags, which soon begin anew."""
    words = [StreamWords(built.design, built.design.axi, native=native) for native in (True, False)]
    for each in words:
        each.tags._epoch, each.tags._next = 5, (1 << COUNT_BITS) - 3
    assert words[0].functions is not None
    return words[0], words[1]


def inside(built: Design, count: int, dtype: type) -> State:
    sample = built.region.sample(FUNCTION, count, seed=count)
    for port in built.graph.inputs:
        low, high = np.array([built.formatted.bounds[i] for i in port.nodes]).T
        sample[port.name] = np.clip(sample[port.name], low, high).astype(dtype)
    return sample


@pytest.mark.parametrize("dtype", [np.float64, np.float32, int], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("count", COUNTS)
def test_samples(count: int, dtype: type, built: Design, both: tuple[StreamWords, StreamWords]) -> None:
    axi, arrays, filled = built.design.axi, inside(built, count, dtype), []
    for words in both:
        filled.append(np.full((count, axi.beats.input, axi.lanes), 7, np.uint32))
        assert words.fill(arrays, filled[-1]) >> COUNT_BITS == 5
    np.testing.assert_array_equal(*filled)
    assert (both[0].filling(list(arrays.values())) is None) == (dtype is int)
    tags = tag_words(filled[0], axi.words.input)
    np.testing.assert_array_equal(tags & ((1 << COUNT_BITS) - 1), (np.arange(count) - 3) % (1 << COUNT_BITS))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e9])
@pytest.mark.parametrize("sample", [0, 8, 99])
def test_an_input_outside_its_range_is_noticed(
    sample: int, value: float, built: Design, both: tuple[StreamWords, StreamWords]
) -> None:
    axi, arrays = built.design.axi, inside(built, 100, np.float64)
    arrays["tau"][sample, 1] = value
    for words in both:
        refused = []
        words.refuse = lambda arrays, batch, refused=refused: refused.append(batch)
        words.fill(arrays, np.zeros((100, axi.beats.input, axi.lanes), np.uint32))
        assert refused == [100]
    if np.isfinite(value):
        with pytest.raises(ValueError, match=rf"input 'tau' is 1e\+09 at \({sample}, 1\); the formats were chosen for"):
            StreamWords(built.design, axi).fill(arrays, np.zeros((100, axi.beats.input, axi.lanes), np.uint32))


def results(built: Design, count: int) -> np.ndarray:
    axi = built.design.axi
    words = np.random.default_rng(count).normal(size=(count, axi.beats.output * axi.lanes)).astype(np.float32)
    words = words.view(np.uint32).reshape(count, axi.beats.output, axi.lanes)
    tag_words(words, axi.words.output)[...] = 5 << COUNT_BITS | np.arange(count)
    return words


@pytest.mark.parametrize("count", COUNTS)
def test_results(count: int, built: Design, both: tuple[StreamWords, StreamWords]) -> None:
    words = results(built, count)
    after = built.design.axi.words.output
    words.reshape(count, -1)[count // 2, :after] = np.float32(np.nan).view(np.uint32)
    (outputs, empty), (expected, empty_too) = (each.take("card", words, 5 << COUNT_BITS) for each in both)
    assert list(outputs) == list(expected) == ["qdd", "dqdd_dq", "dqdd_dqd", "minv"]
    for name, value in expected.items():
        np.testing.assert_array_equal(outputs[name], value)
        assert outputs[name].dtype == np.float32
    np.testing.assert_array_equal(empty, empty_too)
    assert np.flatnonzero(empty).tolist() == [count // 2]


def test_torn_results_and_other_tags_are_errors(built: Design, both: tuple[StreamWords, StreamWords]) -> None:
    for each in both:
        words = results(built, 20)
        words.reshape(20, -1)[11, 0] = np.float32(np.nan).view(np.uint32)
        with pytest.raises(DeviceError, match="card: some words of result 11 are NaN; expected all of them or none"):
            each.take("card", words, 5 << COUNT_BITS)
        words = results(built, 20)[[0, 1, 3, 4, 5]]
        with pytest.raises(DeviceError, match="card gave no result for sample 2: that of sample 3 came instead, so 1"):
            each.take("card", np.ascontiguousarray(words), 5 << COUNT_BITS)


def bits_of(words: np.ndarray) -> int:
    """The words of one sample as one number."""
    return int.from_bytes(np.ascontiguousarray(words, "<u4").tobytes(), "little")


def test_integers_lie_at_the_bits_of_their_slots() -> None:
    slots = (
        NumberSlot(0, Format(5, 0)),
        NumberSlot(5, Format(30, 0)),
        NumberSlot(35, Format(32, 0)),
        NumberSlot(67, Format(4, 0), fill=9),
    )
    codec, integers = Codec(slots, 3), np.array([[-3, 1 << 28, -(1 << 31), -5], [7, -1, 12345, 3]])
    words = codec.zeros(2)
    codec.put_integers(words, integers)
    for row, sample in zip(integers, words, strict=True):
        expected = sum(int(x) % (1 << slot.bits) << slot.bit for x, slot in zip(row, slots, strict=True))
        assert bits_of(sample) == expected
    np.testing.assert_array_equal(codec.integers(words), integers)
    words[:, 2] ^= np.uint32(1 << 7)  # a bit above the integer in the last slot
    np.testing.assert_array_equal(codec.integers(words), integers)


def test_ieee_numbers_follow_each_other() -> None:
    number = "float32"
    size = np.dtype(number).itemsize * 8
    codec = Codec(tuple(NumberSlot(size * k, Format(24, 10), number) for k in range(5)), -(-5 * size // 32))
    values = np.random.default_rng(1).normal(size=(3, 4, 5))
    words = codec.zeros(3, 4)
    codec.put(words, values[..., ::-1], [4, 3, 2, 1, 0])
    flat = np.zeros((3, 4, codec.words * 32 // size), number)
    flat[..., :5] = values
    np.testing.assert_array_equal(words, flat.view(np.uint32))
    got = codec.values(words, [1, 3])
    assert got.dtype == number
    np.testing.assert_array_equal(got, values[..., [1, 3]].astype(number))


def test_a_slot_moves_by_words_and_mixed_slots_are_numbers() -> None:
    codec = Codec(
        (NumberSlot(0, Format(8, 0), None, 32), NumberSlot(32, Format(20, 4), "float32", 32)),
        6,
        NumberSlot(160, Format(32, 0)),
    )
    words = codec.zeros(1)
    for step in range(2):
        codec.moved([2 * step, 2 * step]).put(words, np.array([[-1.6, 0.1]]))
    codec.put_flags(words, [6])
    tenth = int(np.float32(0.1).view(np.uint32))
    assert words[0].tolist() == [0xFFFFFFFE, tenth, 0xFFFFFFFE, tenth, 0, 6]
    np.testing.assert_array_equal(codec.values(words), [[-2.0, np.float32(0.1)]])
    assert codec.flags(words).tolist() == [6]
    with pytest.raises(ValueError, match="NaN"):
        codec.put(words, np.array([[np.nan, 0.0]]))


def test_packed_results_end_with_a_flag_in_all_bits_above(designs: Path) -> None:
    built = build(robots.load("two_joint_arm"), "inverse_dynamics", ii=3, axi=Axi(32, words="fixed"), folder=designs)
    codec, widths = built.design.wire.output, [field.width for field in built.design.output.fields]
    end = sum(widths)
    assert [slot.bit for slot in codec.slots] == np.cumsum([0, *widths])[:-1].tolist()
    words = codec.zeros(2)
    codec.put_flags(words, [0, -1])
    assert [bits_of(row) for row in words] == [0, (1 << 32 * codec.words) - (1 << end)]
    assert (codec.flags(words) & 1).tolist() == [0, 1]


ARM = robots.load("two_joint_arm")


@pytest.mark.parametrize("native", [False, True])
def test_a_rounding_step_more_than_the_range(native: bool, tmp_path: Path) -> None:
    built = dynagate.build(ARM, "mass_matrix", ii=16, region=Region.of(ARM), axi=Axi(32), folder=tmp_path)
    assert built.design.axi is not None
    words = StreamWords(built.design, built.design.axi, native=native)
    assert (words.functions is not None) == native
    field = built.design.input.fields[1]
    samples = np.zeros((1, *(built.design.axi.beats.input, built.design.axi.lanes)), np.uint32)
    for bound, out in zip(field.range, (-1.0, 1.0), strict=True):
        words.fill({"q": np.array([[0.0, bound + out * field.format.step]])}, samples)
        for steps in (1.5, 3.5):
            with pytest.raises(ValueError, match=r"input 'q' is .* at \(0, 1\); the formats were chosen for"):
                words.fill({"q": np.array([[0.0, bound + steps * out * field.format.step]])}, samples)
