"""Devices: one face for functions and rollouts, options in objects or by name, designs that are read once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Policy, Region, Rollout, build, robots
from dynagate.design import files
from dynagate.dynamics import ROLLOUT
from dynagate.host import DeviceError, Opened
from dynagate.host.devices import BoardExecutor, Cpu, DeviceOptions, IntegerExecutor, Numpy
from dynagate.host.devices.options import Kind
from dynagate.host.openers import LABELS, OPENERS, chosen_device
from dynagate.hw.designs import Design

ARM = robots.load("two_joint_arm")
HERE = ("numpy", "fixed", "cpu")
"""Devices that need neither a card nor a build."""
REGION = Region.of(ARM, velocity=12.0, acceleration=40.0)
STATES = Region.of(ARM).sample("forward_dynamics", 6, seed=1)


def motion(steps: int = 4) -> dict[str, np.ndarray]:
    tau = np.random.default_rng(3).uniform(-1.0, 1.0, (6, steps, 2))
    return {"q0": STATES["q"].copy(), "qd0": np.zeros((6, 2)), "tau": tau}


@pytest.fixture(scope="module")
def rollout_design(designs: Path) -> Design:
    return build(ARM, ROLLOUT, ii=4, dt=0.02, region=REGION, folder=designs)


@pytest.fixture(scope="module")
def design(designs: Path) -> Design:
    return build(ARM, "forward_dynamics", ii=3, folder=designs)


def opened(what: str, device: str, request: pytest.FixtureRequest) -> tuple[Opened, dict[str, np.ndarray]]:
    if what == "function":
        return dynagate.compile(ARM, "forward_dynamics", device=device), {
            k: STATES[k].copy() for k in ("q", "qd", "tau")
        }
    if what == "rollout":
        own: dict[str, Any] = {"region": REGION} if device == "fixed" else {}
        return dynagate.Rollout(ARM, device=device, steps=4, dt=0.02, **own), motion()
    return dynagate.open(request.getfixturevalue("rollout_design"), device=device), motion()


@pytest.mark.parametrize(
    ("what", "device"), [*((w, d) for w in ("function", "rollout") for d in HERE), ("rollout design", "fixed")]
)
def test_whatever_is_opened_has_one_face(what: str, device: str, request: pytest.FixtureRequest) -> None:
    thing, inputs = opened(what, device, request)
    assert isinstance(thing, Opened)
    assert thing.outputs == (("qdd",) if what == "function" else ("q", "qd"))
    assert thing.function == ("forward_dynamics" if what == "function" else "rollout")
    with thing as same:
        assert same is thing
        first = thing(**inputs)
        bound = thing.bind(**inputs)
        kept = {name: getattr(bound(), name) for name in thing.outputs}
        for name, array in kept.items():
            assert np.array_equal(array, getattr(first, name))
        inputs["tau"][...] *= 0.5
        other = thing(**inputs)
        again = bound()
        for name, array in kept.items():
            assert getattr(again, name) is array
            assert np.array_equal(array, getattr(other, name))
            assert not np.array_equal(array, getattr(first, name))
        submitted = thing.submit(**inputs).result()
        assert np.array_equal(getattr(submitted, thing.outputs[0]), kept[thing.outputs[0]])
        with thing.stream() as stream:
            (streamed,) = stream([inputs])
        assert np.array_equal(getattr(streamed, thing.outputs[0]), kept[thing.outputs[0]])
        with pytest.raises(TypeError, match="'tau' is a list, which cannot be read in place; expected a numpy array"):
            thing.bind(**{**inputs, "tau": inputs["tau"].tolist()})
    with pytest.raises(DeviceError, match="is closed; open it again"):
        thing(**inputs)
    with pytest.raises(DeviceError, match="is closed; open it again"):
        bound()


def test_options_in_an_object_are_those_by_name() -> None:
    states = {name: STATES[name] for name in ("q", "qd", "tau")}
    for device, name, options in (
        (Cpu(dtype="float32", layout="planes"), "cpu", {"dtype": "float32", "layout": "planes"}),
        (IntegerExecutor(policy=Policy(word=14)), "fixed", {"policy": Policy(word=14)}),
        (Numpy(), "numpy", {}),
    ):
        one = dynagate.compile(ARM, "forward_dynamics", device=device, form="aba")
        other = dynagate.compile(ARM, "forward_dynamics", device=name, form="aba", **options)
        with one, other:
            assert np.array_equal(one(**states).qdd, other(**states).qdd)
            assert one.dtype == other.dtype
    by_object = Rollout(ARM, steps=4, dt=0.02, device=Cpu(dtype="float32"))
    assert by_object.dtype == np.float32
    assert by_object.device == "cpu"
    assert np.array_equal(by_object(**motion()).q, Rollout(ARM, steps=4, dt=0.02, dtype="float32")(**motion()).q)


def test_a_build_takes_its_options_by_name(designs: Path, design: Design) -> None:
    again = build(ARM, "forward_dynamics", ii=3, folder=designs)
    assert again.design == design.design
    assert (design.latency, design.interval) == (design.design.latency, 3)
    assert design.resources.dsp == design.design.body.dsp_blocks
    assert design.folder / "datapath.v" in design.files
    with pytest.raises(
        TypeError,
        match=r"build\(\) got an unexpected keyword argument 'wrod' \(did you mean 'word'\?\); expected",
    ):
        build(ARM, "forward_dynamics", wrod=24, folder=designs)
    with pytest.raises(TypeError, match=r"build\(\) without function; expected robot, function"):
        build(ARM, ii=4)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="'inverse_dynamics,mass_matrix' is for the command line; write a list"):
        build(ARM, "inverse_dynamics,mass_matrix", folder=designs)
    with pytest.raises(ValueError, match=r"function 'ilqr' computes motions; write dynagate.ilqr\(...\)"):
        build(ARM, "ilqr", folder=designs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": Cpu(), "threads": 2}, r"threads together with Cpu\(.*; expected all of its options in its object"),
        (
            {"device": BoardExecutor()},
            r"device 'board' runs designs; write dynagate.open\(dynagate.build\(",
        ),
        ({"device": "sim"}, "device 'sim' runs designs; write .*, link='sim'"),
        ({"device": "cpu", "pack": 2}, "pack=2; expected True or False"),
        ({"device": "numpy", "threads": 2}, "device 'numpy' takes no option 'threads'"),
        ({"overflow": "clip"}, "overflow 'clip'; expected 'mask' or 'raise'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    """Before any work: the robot is not even read."""
    with pytest.raises(ValueError, match=message):
        dynagate.compile("no_such_robot.urdf", "mass_matrix", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": Cpu(pack=True)}, "device 'cpu' of a rollout takes no option 'pac"),
        ({"device": BoardExecutor()}, "device 'board' runs designs; write dynagate.open"),
    ],
)
def test_options_that_a_rollout_does_not_take_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dynagate.Rollout("no_such_robot.urdf", steps=3, dt=0.1, **options)


def test_a_rollout_on_a_design_refuses_what_a_robots_rollout_refuses(rollout_design: Design) -> None:
    with pytest.raises(ValueError, match="overflow='raise' of a rollout; expected 'mask'"):
        dynagate.open(rollout_design.folder, device="fixed", overflow="raise")
    refused = pytest.raises(ValueError, match="rollout has no outputs to choose; expected all: q, qd")
    with dynagate.open(rollout_design.folder, device="fixed") as chip, refused:
        chip.choosing("q")


@pytest.mark.parametrize("device", ["fixed", "numpy"])
def test_a_design_is_read_once(device: str, design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    loaded = files.load

    def counted(path: Any, **options: Any) -> Any:
        read.append(path)
        return loaded(path, **options)

    monkeypatch.setattr("dynagate.host.devices.sources.load", counted)
    dynagate.open(design.folder, device=device).close()
    assert len(read) == 1


def test_a_closed_rollout_sweeps_nothing() -> None:
    rollout, inputs = Rollout(ARM, steps=4, dt=0.02), motion()
    costs = np.ones((6, 5, 2))
    trajectories = rollout(**inputs)
    rollout.vjp(trajectories, inputs["tau"], costs, costs)
    rollout.close()
    with pytest.raises(DeviceError, match="<Rollout two_joint_arm, 4 steps, dt 0.02 s, .*> is closed; open it again"):
        rollout.vjp(trajectories, inputs["tau"], costs, costs)


def test_each_pair_of_the_table_has_options_of_its_device() -> None:
    for (_, name), opener in OPENERS.items():
        assert issubclass(opener.options, DeviceOptions)
        assert opener.options.name == name
        assert opener.options().changed() == {}
        assert callable(opener.open)
    assert {kind for kind, _ in OPENERS} == set(LABELS)


@pytest.mark.parametrize(("kind", "name"), OPENERS)
def test_an_option_is_taken_where_the_options_of_the_pair_have_a_field(kind: Kind, name: str) -> None:
    known = {field.name for field in fields(OPENERS[kind, name].options)}
    for option in {field.name for opener in OPENERS.values() for field in fields(opener.options)} - known:
        with pytest.raises(dynagate.Error, match=f"device '{name}'.* takes no option '{option}'"):
            chosen_device(kind, name, {option: 1})


CLOSED = """
import faulthandler, gc
import dynagate, numpy as np

faulthandler.enable()
state = dict.fromkeys(("q", "qd", "tau"), np.zeros((3, 2)))
for device in ("numpy", "cpu", "fixed"):
    opened = dynagate.compile("two_joint_arm", "forward_dynamics", device=device)
    bound, stream = opened.bind(**state), iter(opened.stream(1)([state] * 4))
    results, pending = next(stream), opened.submit(**state)
    opened.close()
    for left in (bound, lambda: next(stream), lambda: opened(**state), lambda: opened.submit(**state)):
        try:
            left()
        except dynagate.host.DeviceError as error:
            assert "is closed; open it again" in str(error), error
        else:
            raise AssertionError(device)
    assert np.array_equal(pending.result().qdd, results.qdd)
    kept = dynagate.compile("two_joint_arm", "forward_dynamics", device=device).bind(**state)
    gc.collect()
    assert np.array_equal(kept().qdd, results.qdd)
print("all closed")
"""


def test_what_is_left_of_a_closed_device_raises() -> None:
    """Bound calls, streams and results, in a process of their own, which a crash would end."""
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, text=True, check=False)
    assert done.stdout == "all closed\n", done.stderr
