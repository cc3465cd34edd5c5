"""Robots and motions as pictures: what is drawn lies where the links are, and files are what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Robot, draw, evaluate, robots, trace
from dynagate.cli import main
from dynagate.integrators.pictures import FRAMES, HEIGHT, WIDTH, pixels, skeleton, sweep
from PIL import Image

from .robots import random_urdf

ARM = robots.load("two_joint_arm")
SVG = "{http://www.w3.org/2000/svg}"


def test_lines_go_from_joint_to_joint(tmp_path: Path) -> None:
    """On a tree that no other test has, and on the arm by hand."""
    path = tmp_path / "tree.urdf"
    path.write_text(random_urdf(52))
    robot = Robot.from_urdf(path)
    q = np.random.default_rng(1).uniform(-1.0, 1.0, (4, robot.nq))
    lines, places = skeleton(robot, q), evaluate(trace(robot, "link_positions"), {"q": q})["link_positions"]
    for i, link in enumerate(robot.links):
        np.testing.assert_allclose(lines[:, i, 1], places[:, i])
        np.testing.assert_allclose(lines[:, i, 0], places[:, link.parent] if link.parent >= 0 else 0.0)
    assert lines.shape[1] > len(robot.links)  # and beyond the last ones
    arm = skeleton("two_joint_arm", np.zeros(2))
    assert arm.shape == (3, 2, 3)
    assert np.allclose(np.linalg.norm(arm[1, 1] - arm[1, 0]), 0.5)  # the upper arm
    assert np.allclose(np.linalg.norm(arm[2, 1] - arm[2, 0]), 2 * 0.18)


def test_an_svg_moves(tmp_path: Path) -> None:
    q = np.linspace([0.0, 0.0], [1.0, -0.5], 30)
    root = ElementTree.parse(draw(ARM, q, tmp_path / "motion.svg", dt=0.1)).getroot()
    moving = root.findall(f".//{SVG}animate")
    assert len(moving) == 2  # the shoulder stands
    assert all(each.get("dur") == "3.000s" for each in moving)
    values = (moving[0].get("values") or "").split(";")
    assert len(values) == 30
    points = np.array([[[float(x) for x in p.split(",")] for p in v.split(" ")] for v in values])
    assert ((points >= 0.0) & (points <= [WIDTH, HEIGHT])).all()
    still = ElementTree.parse(draw(ARM, q[0], tmp_path / "still.svg")).getroot()
    assert not still.findall(f".//{SVG}animate")


def test_pixels_and_gifs(tmp_path: Path) -> None:
    motion = sweep("two_joint_arm")
    assert motion.shape == (48, 2)
    assert (motion >= ARM.lower).all()
    assert (motion <= ARM.upper).all()
    with Image.open(draw(ARM, motion, tmp_path / "motion.gif", dt=0.05)) as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"]) == (48, (WIDTH, HEIGHT), 50)
    with Image.open(draw(ARM, motion, tmp_path / "motion.png")) as png:
        assert png.size == (WIDTH, HEIGHT)
    picture, other = pixels(ARM, [0.0, 0.0]), pixels(ARM, [1.5, 0.0])
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert 0.005 < (picture < 128).any(axis=2).mean() < 0.2
    assert (picture != other).any()


def test_long_motions_and_lost_ones(tmp_path: Path) -> None:
    """Of a long one every so many pictures; what diverged is left out."""
    q = np.zeros((3, 5 * FRAMES + 1, 2))
    q[:, :, 0] = np.linspace(0.0, 1.0, 5 * FRAMES + 1)
    q[1, 500:] = np.nan
    root = ElementTree.parse(draw(ARM, q, tmp_path / "many.svg", dt=0.001)).getroot()
    moving = root.findall(f".//{SVG}animate")
    assert len(moving) == 2 * 2
    assert len((moving[0].get("values") or "").split(";")) <= FRAMES
    assert moving[0].get("dur") == "1.002s"


@pytest.mark.parametrize(
    ("q", "file", "dt", "message"),
    [
        (np.zeros(3), "a.svg", 0.1, r"q has shape \(1, 1, 3\); expected \(..., 2\)"),
        (np.full(2, np.nan), "a.svg", 0.1, "has no motion whose numbers are all finite; expected one or more"),
        (np.zeros((0, 2)), "a.svg", 0.1, "has no motion whose numbers are all finite"),
        (np.zeros(2), "a.mp4", 0.1, r"a.mp4; expected a name that ends in .svg, .gif, .png"),
        (np.zeros(2), "a.svg", 0.0, "dt=0.0; expected seconds between steps, more than 0"),
    ],
)
def test_what_cannot_be_drawn(q: Any, file: str, dt: float, message: str, tmp_path: Path) -> None:
    with pytest.raises(dynagate.Error, match=message):
        draw(ARM, q, tmp_path / file, dt=dt)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["svg", "gif", "png"])
@pytest.mark.parametrize("file", ["folder", "nowhere/a", "file/a", "x" * 5000, "a\0b"])
def test_files_that_cannot_be_written_are_named(file: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"folder.{suffix}").mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(dynagate.Error, match="cannot write .*; expected a file in a folder that exists"):
        draw(ARM, np.zeros(2), tmp_path / f"{file}.{suffix}")
    assert sorted(tmp_path.rglob("*")) == before


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    motion = dynagate.Rollout(ARM, steps=10, dt=0.01, device="numpy")(np.zeros(2), np.zeros(2), np.zeros((10, 2)))
    np.savez("motion.npz", q=motion.q)
    np.savez("other.npz", x=motion.q)
    Path("text.npz").write_text("no archive")
    runner = CliRunner()
    for arguments, file in (([], "two_joint_arm.svg"), (["motion.npz", "--output", "m.gif", "--dt", "0.01"], "m.gif")):
        result = runner.invoke(main, ["view", "two_joint_arm", *arguments])
        assert result.exit_code == 0, result.output
        assert result.output.strip().endswith(file)
        assert Path(file).stat().st_size > 1000
    for name, message in (
        ("none.npz", "none.npz: no such file; expected an .npz"),
        ("other.npz", "holds x; expected q"),
        ("text.npz", "is no .npz file of arrays"),
    ):
        result = runner.invoke(main, ["view", "two_joint_arm", name])
        assert result.exit_code == 1
        assert message in result.output


def test_without_pillow_only_pixels_are_refused(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "import dynagate; dynagate.draw('two_joint_arm', [0, 0], 'a.svg')\n"
        "try: dynagate.draw('two_joint_arm', [0, 0], 'a.png')\n"
        "except dynagate.Error as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "a picture of pixels needs the module 'PIL'; pip install 'dynagate[view]'\n"
    assert (tmp_path / "a.svg").exists()


def test_an_environment_renders() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("numba")
    from examples.papers.position_based.environments import Walking

    with gymnasium.make("dynagate/Hopper-v0", render_mode="rgb_array") as environment:
        environment.reset(seed=1)
        picture = environment.render()
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert (picture < 128).any()
    with pytest.raises(ValueError, match="render_mode='ansi'; expected 'human', 'rgb_array' or None"):
        Walking(render_mode="ansi")
