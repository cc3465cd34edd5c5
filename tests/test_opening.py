"""`dynagate.open`: what it takes for a robot and what for a design, and which options a device takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import AlgorithmOptions, Axi, Budget, DesignRequest, Goal, Policy, Region, Stages, build, robots
from dynagate.host import DesignError
from dynagate.hw.build import Build, build_request
from dynagate.robot.robots import path

from tests.designs import resealed

ARM = robots.load("two_joint_arm")
FUNCTION = "forward_dynamics_gradient"


@pytest.fixture(scope="module")
def design(designs: Path) -> Build:
    return build(ARM, FUNCTION, ii=3, frame={0: -1}, folder=designs)


ALGORITHM = (
    "form, frame, mass, prefix, external_forces, outputs, variable, dt, integrator, friction, friction_speed, damping"
)
OPTIONS: dict[str, tuple[str, str]] = {
    "numpy": ("certificate, region, pack", "threads"),
    "fixed": ("policy, region, certificate", "pack"),
    "cpu": ("certificate, region, dtype, layout, pack, threads", "stream"),
    "cuda": ("dtype, layout, pack, number, stream", "threads"),
    "sim": (
        "ii, policy, goal, formats, axi, budget, stages, region, certificate, abreast, words, units, folder, pauses, "
        "seed, shell",
        "dtype",
    ),
}
"""By device the options that it takes besides the algorithm's, and one that it does not take."""

EVERY: dict[str, Any] = {
    "dtype": "float32", "layout": "rows", "pack": False, "threads": 1, "number": 0, "stream": 0, "policy": Policy(),
    "region": Region.of(ARM), "ii": 0, "goal": Goal(1e-3), "formats": "x", "axi": Axi(), "budget": Budget(),
    "stages": Stages(), "folder": "x", "pauses": (0.0, 0.0), "seed": 1, "link": "xdma:/dev/xdma0",
    "certificate": True,
}  # fmt: skip


@pytest.mark.parametrize("device", list(OPTIONS))
def test_options_that_a_device_does_not_take_are_refused_before_any_work(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr("dynagate.host.devices.options.trace", work)
    monkeypatch.setattr("dynagate.hw.build.graph_of", work)
    monkeypatch.setattr(robots, "load", work)
    taken, example = OPTIONS[device]
    refused = EVERY.keys() - set(taken.split(", "))
    assert example in refused
    for option in refused:
        near = r"( \(did you mean '\w+'\?\))?"
        message = f"device '{device}' takes no option '{option}'{near}; expected one of {taken}, {ALGORITHM}$"
        for what in (ARM, "iiwa14"):
            with pytest.raises(dynagate.Error, match=message):
                dynagate.open(what, device=device, **{option: EVERY[option]})
    near = r"'treads'( \(did you mean 'threads'\?\))?"
    own = f"expected for device '{device}' one of {taken}, {ALGORITHM}, device, algorithm, overflow, step$"
    with pytest.raises(TypeError, match=f"unexpected keyword argument {near}; {own}"):
        dynagate.open(ARM, device=device, treads=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'scans'"):  # a device says it, nobody chooses it
        dynagate.open(ARM, device=device, scans=True)  # type: ignore[call-arg]


def test_options_of_a_device_reach_it(designs: Path) -> None:
    states = Region.of(ARM).sample(FUNCTION, 5, seed=1)
    with dynagate.open(ARM, device="cpu", dtype="float32", threads=2, layout="planes", pack=True) as opened:
        assert opened(**states).minv.shape == (5, 3)
        assert opened.device.text == "C, float32, 2 threads"
        assert opened.device.kernel.layout == "planes"  # type: ignore[attr-defined]
    with dynagate.open(ARM, "mass_matrix", device="fixed", policy=Policy(word=12)) as opened:
        assert {f.width for f in opened.device.formatted.formats} <= set(range(2, 13)) | {16}  # type: ignore[attr-defined]
    with dynagate.open(ARM, device="sim", ii=3, frame={0: -1}, folder=designs, pauses=(0.5, 0.0)) as opened:
        opened(**states)
        assert opened.transfer.per_sample > 3.0
    with dynagate.open(ARM, "forward_dynamics", device="numpy", external_forces=True) as opened:
        still = opened(**{name: states[name] for name in ("q", "qd", "tau")}, f_ext=np.zeros((5, 2, 6)))
        pushed = opened(**{name: states[name] for name in ("q", "qd", "tau")}, f_ext=np.ones((5, 2, 6)))
    assert not np.allclose(still.qdd, pushed.qdd)


@pytest.mark.parametrize("device", ["sim", "fixed", "numpy"])
@pytest.mark.parametrize("given", ["build", "folder", "path", "design.json"])
def test_a_design_opens_on_the_devices_that_know_it(device: str, given: str, design: Build) -> None:
    what = {
        "build": design,
        "folder": design.folder,
        "path": str(design.folder),
        "design.json": design.folder / "design.json",
    }[given]
    states = design.region.sample(FUNCTION, 50, seed=3)
    with dynagate.open(what, device=device) as opened:  # type: ignore[arg-type]
        results = opened(**states)
        assert (opened.device.robot, opened.device.function) == ("two_joint_arm", FUNCTION)
    if device == "numpy":
        expected = dynagate.evaluate(design.graph, states)
    else:
        from dynagate.fixedpoint.evaluate import evaluate

        expected = evaluate(design.formatted, states).outputs
    for name, value in expected.items():
        assert np.array_equal(results[name], value), name


def test_designs_with_every_kind_of_format_and_joint_come_back_whole(designs: Path) -> None:
    """Formats of an accuracy, constants, shifts, quaternions, external forces; read back as they were."""
    from dynagate.design.rebuilt import formatted_design

    hyq = robots.load("hyq", floating_base=True)
    region = Region.of(hyq, velocity=1.0)
    moving = build(hyq, "kinetic_energy", ii=16, region=region, folder=designs)
    optimized = build(ARM, "inverse_dynamics", ii=2, goal=Goal(1e-2), external_forces=True, folder=designs)
    for built in (moving, optimized):
        assert formatted_design(built.folder) == built.formatted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"device": "cpu"},
            "device 'cpu' computes from a robot; .* or one of .* designs: numpy, fixed, sim, board",
        ),
        ({"device": "fixed", "policy": Policy()}, "device 'fixed' of a design takes no option 'policy'; it takes none"),
        ({"ii": 4}, "device 'sim' of a design takes no option 'ii'; expected one of pauses, seed, shell"),
        ({"device": "numpy", "frame": "base"}, "device 'numpy' of a design takes no option 'frame'; .* one of pack"),
        ({"function": "mass_matrix"}, f"the design computes {FUNCTION}, not 'mass_matrix'; expected that"),
    ],
)
def test_what_a_design_does_not_take_is_refused(options: dict[str, Any], message: str, design: Build) -> None:
    for what in (design, design.folder):
        with pytest.raises(dynagate.Error, match=message):
            dynagate.open(what, **options)


def test_a_graph_is_read_back_by_the_version_that_wrote_it(design: Build, tmp_path: Path) -> None:
    def changed(name: str, change: Callable[[dict[str, Any]], Any]) -> Path:
        folder = tmp_path / name
        shutil.copytree(design.folder, folder)
        content = json.loads((folder / "design.json").read_text())
        change(content)
        (folder / "design.json").write_text(json.dumps(resealed(content)))
        return folder

    older = changed("older", lambda content: content["versions"].update(source="0" * 16))
    with pytest.raises(DesignError, match="older was built by another version of dynagate, .*; build the design again"):
        dynagate.open(older, device="fixed")
    renamed = changed("renamed", lambda content: content["nodes"][3].update(name="other"))
    with pytest.raises(DesignError, match="renamed is not a design: .*its nodes are not those of its robot"):
        dynagate.open(renamed, device="numpy")
    for part in ("arithmetic", "versions"):
        lighter = changed(f"without {part}", lambda content: content.pop(part))  # noqa: B023
        with pytest.raises(DesignError, match=f"is not a design: required field missing @ design.{part}"):
            dynagate.open(lighter, device="fixed")


def test_robots_open_by_name_and_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(path("two_joint_arm"), "arm.urdf")
    states = Region.of(ARM).sample("mass_matrix", 3, seed=1)
    expected = dynagate.evaluate(dynagate.trace(ARM, "mass_matrix"), states)["m"]
    for what in ("two_joint_arm", "arm.urdf", "./arm.urdf", Path("arm.urdf")):
        with dynagate.open(what, "mass_matrix", device="numpy") as opened:
            assert np.array_equal(opened(**states).m, expected)
        if what != "two_joint_arm":
            assert robots.load(what) == ARM
    assert robots.load(tmp_path / "arm.urdf") == ARM


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "two_joint_arn",
            r"no shipped robot 'two_joint_arn' \(did you mean 'two_joint_arm'\?\); expected one of hyq, iiwa14, "
            "two_joint_arm",
        ),
        ("none.urdf", "none.urdf: no such file"),
        (Path("none.urdf"), "none.urdf: no such file"),
        ("some/design", "no design at some/design/?.*; expected the folder that dynagate.build returned"),
        (Path("two_joint_arm"), "no design at two_joint_arm; expected the folder that dynagate.build returned"),
        ("here", "no design at here/design.json; expected the folder"),
    ],
)
def test_what_is_not_there_is_named(
    what: str | Path, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    with pytest.raises(dynagate.Error, match=message):
        dynagate.open(what)


def test_a_request_in_one_object_is_the_same_design(designs: Path, design: Build) -> None:
    request = DesignRequest(ARM, FUNCTION, ii=3, algorithm=AlgorithmOptions(frame={0: -1}))
    assert build_request(request, folder=designs).design == design.design
    assert design.design.options == {"frame": {"0": -1}}
    with pytest.raises(dynagate.Error, match="initiation interval 0; expected a whole number from 1 to 65535 cycles"):
        DesignRequest(ARM, ii=0)
    with pytest.raises(dynagate.Error, match="a goal and a file of formats; expected one of them"):
        DesignRequest(ARM, goal=Goal(1e-3), formats="x")


def test_what_the_package_exports_is_there() -> None:
    assert all(hasattr(dynagate, name) for name in dynagate.__all__)
    assert set(dynagate.__all__) <= set(dir(dynagate))
    q = dynagate.integrate(ARM, dynagate.neutral(ARM), [1.0, 2.0])
    assert q.tolist() == [1.0, 2.0]
