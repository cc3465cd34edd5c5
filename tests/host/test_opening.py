"""`dynagate.compile` and `dynagate.open`: robots and designs, and the options that a device takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import AlgorithmOptions, Axi, DesignRequest, Goal, Policy, Region, build, robots
from dynagate.host import DesignError
from dynagate.hw.build import build_request
from dynagate.hw.designs import Design
from dynagate.robot.robots import path

from tests.designs import resealed

ARM = robots.load("two_joint_arm")
FUNCTION = "forward_dynamics_gradient"


@pytest.fixture(scope="module")
def design(designs: Path) -> Design:
    return build(ARM, FUNCTION, ii=3, frame={0: -1}, folder=designs)


OPTIONS: dict[str, tuple[str, str]] = {
    "numpy": ("pack, certificate, region", "threads"),
    "fixed": ("policy, region, certificate", "pack"),
    "cpu": ("dtype, threads, certificate, region, layout, pack, tier", "stream"),
    "cuda": ("dtype, layout, pack, number, stream, warp", "threads"),
}
"""By device the options that it takes besides those of algorithms, and one that it does not take."""

EVERY: dict[str, Any] = {
    "dtype": "float32", "layout": "planes", "pack": True, "threads": 2, "number": 1, "stream": 1, "policy": Policy(),
    "region": Region.of(ARM), "certificate": True, "warp": True,
}  # fmt: skip


@pytest.mark.parametrize("device", list(OPTIONS))
def test_options_that_a_device_does_not_take_are_refused_before_any_work(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done")

    monkeypatch.setattr("dynagate.host.devices.functions.trace", work)
    monkeypatch.setattr("dynagate.hw.build.graph_of", work)
    monkeypatch.setattr(robots, "load", work)
    taken, example = OPTIONS[device]
    refused = EVERY.keys() - set(taken.split(", "))
    assert example in refused
    for option in refused:
        near = r"( \(did you mean '\w+'\?\))?"
        message = rf"device '{device}' takes no option '{option}'{near}; expected one of {taken} \[DG-"
        for what in (ARM, "iiwa14"):
            with pytest.raises(dynagate.Error, match=message):
                dynagate.compile(what, FUNCTION, device=device, **{option: EVERY[option]})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'treads' \(did you mean 'threads'\?\); expected"):
        dynagate.compile(ARM, "forward_dynamics_gradient", device=device, treads=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'scans'"):  # a device says it, nobody chooses it
        dynagate.compile(ARM, "forward_dynamics_gradient", device=device, scans=True)  # type: ignore[call-arg]


def test_options_of_a_device_reach_it(designs: Path) -> None:
    states = Region.of(ARM).sample(FUNCTION, 5, seed=1)
    with dynagate.compile(
        ARM, "forward_dynamics_gradient", device="cpu", dtype="float32", threads=2, layout="planes", pack=True
    ) as opened:
        assert opened(**states).minv.shape == (5, 3)
        assert opened.device.text == "C, float32, 2 threads"
        assert opened.device.kernel.layout == "planes"  # type: ignore[attr-defined]
    with dynagate.compile(ARM, "mass_matrix", device="fixed", policy=Policy(word=12)) as opened:
        assert {f.width for f in opened.device.model.formatted.formats} <= set(range(2, 13)) | {16}  # type: ignore[attr-defined]
    built = build(ARM, FUNCTION, ii=3, folder=designs)
    with dynagate.open(built, device="sim", pauses=(0.5, 0.0)) as chip:
        chip(**states)
        assert chip.transfer.per_sample > 3.0
    with dynagate.compile(ARM, "forward_dynamics", device="numpy", external_forces=True) as opened:
        still = opened(**{name: states[name] for name in ("q", "qd", "tau")}, f_ext=np.zeros((5, 2, 6)))
        pushed = opened(**{name: states[name] for name in ("q", "qd", "tau")}, f_ext=np.ones((5, 2, 6)))
    assert not np.allclose(still.qdd, pushed.qdd)


@pytest.mark.parametrize("device", ["sim", "fixed", "numpy"])
@pytest.mark.parametrize("given", ["build", "folder", "path", "design.json"])
def test_a_design_opens_on_the_devices_that_know_it(device: str, given: str, design: Design) -> None:
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
        from dynagate.fixedpoint.models.evaluate import evaluate

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
            "device 'cpu' does not run this design; expected one of numpy, fixed, sim, board, or dynagate.",
        ),
        ({"device": "fixed", "seed": 2}, "device 'fixed' of a design takes no option 'seed'; it takes none"),
        ({"cores": 4}, "device 'sim' of a design takes no option 'cores'; expected one of pauses, seed, shell"),
        ({"device": "numpy", "shell": True}, "device 'numpy' of a design takes no option 'shell'; .* one of pack"),
        ({"policy": Policy()}, r"open\(\) got an unexpected keyword argument 'policy'"),
        ({"step": print}, "keyword argument 'step' \\(write progress\\)"),
        ({"device": "simm"}, r"device 'simm' \(did you mean 'sim'\?\); expected one of numpy, fixed, sim, board"),
        ({"device": "fixed", "link": "sim"}, "device 'fixed' with link='sim'; expected device='sim', or no device"),
    ],
)
def test_what_a_design_does_not_take_is_refused(options: dict[str, Any], message: str, design: Design) -> None:
    for what in (design, design.folder):
        with pytest.raises(dynagate.Error, match=message):
            dynagate.open(what, **options)


def test_a_graph_is_read_back_by_the_version_that_wrote_it(design: Design, tmp_path: Path) -> None:
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


def test_robots_are_found_by_name_and_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(path("two_joint_arm"), "arm.urdf")
    states = Region.of(ARM).sample("mass_matrix", 3, seed=1)
    expected = dynagate.evaluate(dynagate.trace(ARM, "mass_matrix"), states)["m"]
    for what in ("two_joint_arm", "arm.urdf", "./arm.urdf", Path("arm.urdf")):
        with dynagate.compile(what, "mass_matrix", device="numpy") as opened:
            assert np.array_equal(opened(**states).m, expected)
        if what != "two_joint_arm":
            assert robots.load(what) == ARM
    assert robots.load(tmp_path / "arm.urdf") == ARM


MISSING: list[tuple[str | Path, str, str]] = [
    (
        "two_joint_arn",
        r"no shipped robot 'two_joint_arn' \(did you mean 'two_joint_arm'\?\); expected one of hyq, iiwa14, two_",
        "no design at two_joint_arn; expected the folder that dynagate.build returned",
    ),
    ("none.urdf", "none.urdf: no such file", r"'none.urdf' is a robot, .*; write dynagate.compile\('none.urdf', "),
    (Path("none.urdf"), "none.urdf: no such file", r"is a robot, .*; write dynagate.compile\("),
    (
        "some/design",
        "design: no such file in .*some; expected a URDF file",
        "no design at some/design/?.*; expected the folder",
    ),
    (Path("two_joint_arm"), "two_joint_arm: no such file", "no design at two_joint_arm; expected the folder"),
    ("here", "'here' is a design, .*; write dynagate.open\\(design\\)", "no design at here/design.json; expected the"),
    ("here/design.json", "'here/design.json' is a design, .*; write", "no design at here/design.json"),
]
"""Path or name, and what `compile` and `open` say of it."""


@pytest.mark.parametrize(("what", "of_robot", "of_design"), MISSING)
def test_what_is_not_there_is_named(
    what: str | Path, of_robot: str, of_design: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    with pytest.raises(dynagate.Error, match=of_robot):
        dynagate.compile(what, FUNCTION)
    with pytest.raises(dynagate.Error, match=of_design):
        dynagate.open(what)


def test_a_robot_does_not_open_and_a_design_is_not_compiled(design: Design) -> None:
    for what in (ARM, "two_joint_arm", path("two_joint_arm")):
        with pytest.raises(TypeError, match=r"is a robot, and open\(\) takes designs; write dynagate.compile\("):
            dynagate.open(what)
    with pytest.raises(TypeError, match=r"a robot is compiled: write dynagate.compile\(robot, function\)"):
        dynagate.open(ARM, "forward_dynamics", device="numpy")  # type: ignore[misc, arg-type]
    for built in (design, design.folder, str(design.folder)):
        with pytest.raises(TypeError, match=r"is a design, which is compiled already; write dynagate.open\(design\)"):
            dynagate.compile(built, FUNCTION)  # type: ignore[arg-type]


def test_link_sim_simulates_the_shell_where_there_is_one(design: Design, designs: Path) -> None:
    shelled = build(ARM, "inverse_dynamics", ii=8, axi=Axi(64), folder=designs)
    with dynagate.open(design, link="sim") as bare, dynagate.open(shelled, link="sim") as whole:
        assert "SimLink" in bare.device.text  # type: ignore[attr-defined]
        assert "SimShellLink" in whole.device.text  # type: ignore[attr-defined]


def test_a_request_in_one_object_is_the_same_design(designs: Path, design: Design) -> None:
    request = DesignRequest(ARM, FUNCTION, ii=3, algorithm=AlgorithmOptions(frame={0: -1}))
    assert build_request(request, folder=designs).design == design.design
    assert design.design.options == {"frame": {"0": -1}}
    with pytest.raises(dynagate.Error, match="initiation interval 0; expected a whole number from 1 to 65535 cycles"):
        DesignRequest(ARM, FUNCTION, ii=0)
    with pytest.raises(dynagate.Error, match="a goal and a file of formats; expected one of them"):
        DesignRequest(ARM, FUNCTION, goal=Goal(1e-3), formats="x")


def test_what_the_package_exports_is_there() -> None:
    assert all(hasattr(dynagate, name) for name in dynagate.__all__)
    assert set(dynagate.__all__) <= set(dir(dynagate))
    q = dynagate.integrate(ARM, dynagate.neutral(ARM), [1.0, 2.0])
    assert q.tolist() == [1.0, 2.0]
