"""The driver's code of the host over a simulated PCIe card: results, registers, rate, and faults of the link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Function, robots
from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import Policy
from dynagate.host import DesignError, DeviceError
from dynagate.host.board_links import LinkText
from dynagate.host.pcie_link import PcieLink
from dynagate.host.xdma_link import XdmaLink
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi
from dynagate.sim.pcie.link import CLOCK_NS, LinkCase, bytes_of, datapath_rate, link_rate

FUNCTION = "forward_dynamics"
ARM = robots.load("two_joint_arm")


def build(ii: int, designs: Path) -> Design:
    policy = Policy(word=20, guard_bits=1.0)
    return dynagate.build(ARM, FUNCTION, ii=ii, policy=policy, axi=Axi(512, "batch"), folder=designs)


@pytest.fixture(scope="module")
def built(designs: Path) -> Design:
    return build(8, designs)


@pytest.fixture(scope="module")
def card(built: Design) -> Iterator[Function]:
    with dynagate.open(built, link="pcie") as accelerator:
        yield accelerator


def link_of(card: Function) -> PcieLink:
    link = card.device.driver.link  # type: ignore[attr-defined]
    assert isinstance(link, PcieLink)
    return link


def states(built: Design, count: int, seed: int) -> dict[str, np.ndarray]:
    sample = built.region.sample(FUNCTION, max(count, 1), seed)
    return {name: value[:count].astype(np.float32) for name, value in sample.items()}


def check(card: Function, built: Design, count: int, seed: int) -> None:
    inputs = states(built, count, seed)
    with dynagate.open(built, device="fixed") as integers:
        expected, results = integers(**inputs), card(**inputs)
    np.testing.assert_array_equal(results.overflow, expected.overflow)
    sound = ~expected.overflow
    np.testing.assert_array_equal(results.qdd[sound], expected.qdd[sound].astype(np.float32))


def test_results_equal_the_integers(card: Function, built: Design) -> None:
    assert isinstance(link_of(card), XdmaLink)  # the code of real cards
    for count in (1, 7, 300):
        check(card, built, count, seed=count)
    # each call counts anew
    assert card.device.driver.registers.read("samples_out") == 300  # type: ignore[attr-defined]


def test_the_example_on_the_page_runs(built: Design, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/pcie.md opens a card by `generation` and `width`, calls it, and prints the cycles that it took."""
    page = (Path(__file__).parents[2] / "docs" / "pcie.md").read_text()
    (block,) = re.findall(r"^```text\n(with dynagate\.open.*?)^```", page, flags=re.S | re.M)
    inputs = states(built, 20, 2)
    space = {"dynagate": dynagate, "built": built, "states": inputs}
    exec(compile(block, "pcie.md", "exec"), space)
    with dynagate.open(built, device="fixed") as integers:
        expected = integers(**inputs)
    assert not expected.overflow.any()
    np.testing.assert_array_equal(space["results"].qdd, expected.qdd.astype(np.float32))
    printed = re.search(r"latency=(\d+), per_sample=([\d.]+)", capsys.readouterr().out)
    assert printed is not None
    assert float(printed[2]) == int(printed[1]) / 20


@pytest.mark.long
def test_a_read_may_wait_behind_others_on_a_slow_link(designs: Path) -> None:
    """Results outweigh inputs, and the link is slower than the datapath: an answer waits behind those of a full buffer,
    32 µs. A read times out after 10 µs in which the link carries nothing."""
    function, policy = "forward_dynamics_gradient", Policy(word=20, guard_bits=1.0)
    wide = dynagate.build(ARM, function, ii=8, policy=policy, axi=Axi(64, "batch"), folder=designs)
    inputs = {name: value.astype(np.float32) for name, value in wide.region.sample(function, 3000, 1).items()}
    with dynagate.open(wide, device="fixed") as integers, dynagate.open(wide, link="pcie,generation=1,width=4") as slow:
        expected, results = integers(**inputs), slow(**inputs)
    np.testing.assert_array_equal(results.overflow, expected.overflow)
    for port in wide.graph.outputs:
        own, theirs = (getattr(each, port.name)[~expected.overflow] for each in (results, expected))
        np.testing.assert_array_equal(own, theirs.astype(np.float32))


@pytest.mark.long
@pytest.mark.parametrize(("ii", "count"), [(8, 8000), (1, 16_384)], ids=["of the datapath", "of the link"])
def test_streaming_reaches_the_lesser_limit(ii: int, count: int, designs: Path) -> None:
    """Begin and end of the stream included; the link's in one packet, the largest."""
    design = build(ii, designs)
    with dynagate.open(design, link="pcie") as streamed:
        check(streamed, design, count, seed=1)
        rate = 1e9 / CLOCK_NS / streamed.transfer.per_sample
    of_datapath, of_link = datapath_rate(design), link_rate(LinkCase(), *bytes_of(design))
    limit = min(of_datapath, of_link)
    assert limit == (of_datapath if ii == 8 else of_link)
    assert 0.95 * limit <= rate <= limit


@pytest.mark.parametrize("count", [4, pytest.param(10_000, marks=pytest.mark.long)])
def test_faults_of_the_link_are_told_and_nothing_is_misplaced(count: int, card: Function, built: Design) -> None:
    """Poisoned and misplaced completions, and late ones. A call either raises or gives every result in its place. Small
    batches and many faults: what comes behind a fault is another call."""
    socket, chance = link_of(card).card, 0.05
    before, seed = socket.call("spoil", chance), 0
    told: list[str] = []
    try:
        while (faults := socket.call("spoil", chance) - before) < count:
            try:
                check(card, built, 50, seed)
            except DeviceError as error:
                told.append(str(error))
            seed += 1
            assert seed < 100 * count
            if seed % 200 == 0:  # seen with pytest -s, of the run that lasts
                print(f"{faults} faults, {len(told)} of {seed} calls raised", flush=True)
    finally:
        socket.call("spoil", 0.0)
    assert 0 < len(told) <= faults
    # descriptors of the results are read over the link too
    assert all(re.search(r"a (write|read) failed \(Input/output error\)", text) for text in told)
    check(card, built, 400, seed=2)


def test_a_packet_may_take_longer_than_the_timeout(
    card: Function, built: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the simulation, where the machine is busy: something moves all the time."""
    monkeypatch.setattr(link_of(card), "timeout", 0.7)
    check(card, built, 2000, seed=5)


def test_a_reset_that_failed_is_repeated(card: Function, built: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call resets first: what the failed one left would come before its results."""

    def breaks(*_: object) -> bool:
        raise DeviceError("the link broke")

    with monkeypatch.context() as patch:
        patch.setattr(link_of(card), "_finds", breaks)
        with pytest.raises(DeviceError, match="the link broke"):
            link_of(card).reset()
    check(card, built, 20, seed=3)


@pytest.mark.long
def test_a_card_that_goes_away_is_told(built: Design) -> None:
    accelerator = dynagate.open(built, link="pcie:,generation=1")
    with accelerator:
        link_of(accelerator).card._process.kill()
        with pytest.raises(DeviceError, match=r"a simulated card at PCIe Gen1 x8 is gone \(No such device\)"):
            accelerator(**states(built, 3, seed=1))


def test_what_the_link_is_told_is_checked(built: Design, designs: Path) -> None:
    assert LinkText.of("pcie", "here").path == "here"
    assert LinkText.of("pcie,width=4", "here").options == {"width": "4"}
    assert LinkText.of("pcie:there", "here").path == "there"
    with pytest.raises(ArgumentError, match="no accelerator.v in /nowhere; expected the folder of the design"):
        dynagate.open(built, link="pcie:/nowhere")
    with pytest.raises(ArgumentError, match="PCIe generation 7; expected one of 1, 2, 3, 4"):
        dynagate.open(built, link="pcie,generation=7")
    bare = dynagate.build(ARM, FUNCTION, ii=8, policy=Policy(word=20), folder=designs)
    with pytest.raises(DesignError, match="has no AXI shell; expected a build with axi="):
        dynagate.open(bare, link="pcie")
