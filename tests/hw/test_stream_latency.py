"""The latency from stream to stream that the datasheet says, as samples alone take it in simulation."""

from __future__ import annotations

import re
from pathlib import Path

import dynagate
import numpy as np
import pytest
from dynagate import Region, robots
from dynagate.design.codec import Words
from dynagate.fixedpoint.assign import Policy
from dynagate.host.sim_links import SimShellLink
from dynagate.hw.bodies.pipeline_datasheet import summary
from dynagate.hw.designs import Design
from dynagate.hw.rtl.axi import Axi

ARM = robots.load("two_joint_arm")


def said(built: Design) -> tuple[int, int]:
    """The least and the most cycles."""
    text = (built.folder / "datasheet.md").read_text()
    head = r"^\| with (?:float32|fixed) streams \| (\d+)(?: to (\d+))? cycles from the first beat in"
    found = re.search(head, text, flags=re.M)
    assert found is not None
    assert f"{found[0].split(' | ')[1]}" in summary(built)
    return int(found[1]), int(found[2] or found[1])


@pytest.fixture(autouse=True)
def any_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are sent after a random number of cycles in which nothing moves, so that they meet every slot."""
    random, write = np.random.default_rng(3), SimShellLink.write

    def later(link: SimShellLink, samples: Words, results: int | None = None) -> None:
        stream = link.new_stream()
        stream.to_receive = 1  # which does not come
        with link.opened() as device:
            link.library.dynagate_run(device, stream, int(random.integers(1, 40)), 1000)
        write(link, samples, results)

    monkeypatch.setattr(SimShellLink, "write", later)


def test_a_function(designs: Path) -> None:
    policy, axi = Policy(word=20), Axi(64, "batch")
    built = dynagate.build(ARM, "forward_dynamics", ii=5, policy=policy, axi=axi, folder=designs)
    least, most = said(built)
    inputs = built.region.sample("forward_dynamics", 1, seed=2)
    seen = set()
    with dynagate.open(built, link="sim") as accelerator:
        for _ in range(60):
            accelerator(**inputs)
            seen.add(accelerator.transfer.latency)
    assert seen == set(range(least, most + 1))


def test_a_ring(designs: Path) -> None:
    region = Region.of(ARM, velocity=12.0, acceleration=40.0)
    built = dynagate.build(ARM, "rollout", ii=4, region=region, dt=0.02, axi=Axi(128), folder=designs)
    least, most = said(built)
    seen = set()
    with dynagate.open(built, link="sim") as chip:
        for _ in range(60):
            chip(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 1, 2)))
            seen.add(chip.transfer.latency)
    assert seen == set(range(least, most + 1))


def drawn(seed: int) -> dict[str, object]:
    """A design: function, interval, words, width, what TLAST ends, and what the streams carry."""
    random = np.random.default_rng(seed)
    functions = ["inverse_dynamics", "mass_matrix", "forward_dynamics", "inverse_dynamics_gradient", "kinetic_energy"]
    axi = Axi(
        int(random.choice([32, 64, 128, 256, 512])),
        str(random.choice(["sample", "batch"])),
        str(random.choice(["float32", "float32", "float32", "fixed"])),
    )
    return {
        "function": str(random.choice(functions)),
        "ii": int(random.integers(1, 13)),
        "policy": Policy(word=int(random.integers(14, 25))),
        "axi": axi,
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_ten_random_designs(seed: int, designs: Path) -> None:
    """The datasheet's cycles from stream to stream are those that samples alone take, to the cycle."""
    request = drawn(seed)
    built = dynagate.build(ARM, folder=designs, **request)  # type: ignore[arg-type]
    least, most = said(built)
    inputs = built.region.sample(str(request["function"]), 1, seed=2)
    seen = set()
    with dynagate.open(built, link="sim") as accelerator:
        for _ in range(40 * built.hardware.plan.ii):
            accelerator(**inputs)
            seen.add(accelerator.transfer.latency)
            if seen == set(range(least, most + 1)):
                break
        for _ in range(2 * built.hardware.plan.ii):
            accelerator(**inputs)
            seen.add(accelerator.transfer.latency)
    assert seen == set(range(least, most + 1)), request
