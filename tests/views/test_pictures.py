"""Robots and motions as pictures: what is drawn lies where the links are, and files are what they say."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dynagate
import numpy as np
import pytest
from click.testing import CliRunner
from dynagate import Robot, draw, evaluate, neutral, robots, trace
from dynagate.cli import main
from dynagate.views.scene.contours import contours
from dynagate.views.scene.pictures import HEIGHT, WIDTH, pixels, sweep
from dynagate.views.scene.raster import seen
from dynagate.views.scene.scene import scene_of
from PIL import Image

from tests.robots import random_urdf

ARM = robots.load("two_joint_arm")
SVG = "{http://www.w3.org/2000/svg}"


def test_capsules_reach_from_joint_to_joint(tmp_path: Path) -> None:
    """On a tree that no other test has."""
    path = tmp_path / "tree.urdf"
    path.write_text(random_urdf(52))
    robot = Robot.from_urdf(path)
    q = np.random.default_rng(1).uniform(-1.0, 1.0, (4, robot.nq))
    scene, places = scene_of(robot, q, dt=0.1), evaluate(trace(robot, "link_positions"), {"q": q})["link_positions"]
    for frame in range(4):
        corners, normals = scene.placed(frame)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=2), 1.0)
        for i, link in enumerate(robot.links):
            if link.parent >= 0 and link.joint.type != "prismatic":  # else it is somewhere on a rail
                own = corners[scene.carrier == link.parent].reshape(-1, 3)
                reach = np.linalg.norm(own - places[frame, i], axis=1).min()
                assert reach < 0.08 * scene.size


@pytest.mark.parametrize("name", robots.names())
def test_the_camera_keeps_the_robot_in_the_picture(name: str) -> None:
    robot = robots.load(name)
    scene = scene_of(robot, sweep(robot, steps=6), dt=0.1)
    seen = np.stack([scene.camera.seen(scene.placed(k)[0], k)[0] for k in range(scene.frames)])
    extent = np.abs(seen).max(axis=(0, 1, 2)) / [4.0 / 3.0, 1.0]
    assert 0.75 < extent.max() < 1.0


def test_a_robot_that_travels_stays_in_the_picture_and_hangs_on_no_pole() -> None:
    robot = robots.load("hyq", floating_base=True)
    q = np.tile(neutral(robot), (20, 1))
    q[:, 0], q[:, 2] = np.linspace(0.0, 12.0, 20), 0.9
    scene = scene_of(robot, q, dt=0.1)
    seen = np.stack([scene.camera.seen(scene.placed(k)[0], k)[0] for k in range(20)])
    assert np.abs(seen).max() < 4.0 / 3.0
    assert np.ptp(seen[..., 1]) > 0.8  # half of the height is 1
    base = scene.placed(0)[0][scene.carrier == len(robot.links)]
    assert not base.size
    assert scene.ground == 0.0
    q[:, 2] = -3.0
    assert scene_of(robot, q, dt=0.1).ground < -3.0


def test_a_robot_that_leaves_the_picture_is_not_drawn() -> None:
    robot = robots.load("hyq", floating_base=True)
    q = np.tile(neutral(robot), (5, 1))
    q[:, 0] = [0.0, 1.0, 1e3, 1e6, 1e6]
    root = ElementTree.fromstring(draw(robot, q).data)
    assert [len(group) for group in root.findall(f"{SVG}g")][2] <= 2  # lines of the ground and a shadow
    q[:, 0] = 1e12
    with pytest.raises(dynagate.Error, match=r"lead further than 1e\+09 times the robot's size; expected"):
        draw(robot, q)


def test_what_is_nearer_hides_what_is_behind() -> None:
    """Two triangles that cross, each in front on its own side; their depths are those of planes."""
    corners = np.array([[[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]]] * 2)
    depth = np.array([[1.0, 3.0, 1.0], [3.0, 1.0, 3.0]])
    own = seen(corners, depth, 100, 100, one_sided=np.zeros(2, bool))
    x, y = own.pixel % 100 + 0.5, own.pixel // 100 + 0.5
    assert len(own.pixel) == 100 * 101 // 2
    assert ((x + y) <= 100.0).all()
    near = np.stack([1.0 - x / 150.0, 1.0 / 3.0 + x / 150.0])  # 1 / depth is linear in the picture
    np.testing.assert_array_equal(own.triangle[x != 50.0], near.argmax(axis=0)[x != 50.0])
    np.testing.assert_allclose(own.depth, 1.0 / near.max(axis=0))
    assert not seen(corners, depth, 100, 100, one_sided=np.ones(2, bool)).pixel.size  # both face away


def test_regions_become_polygons_with_their_holes() -> None:
    y, x = np.mgrid[:80, :80]
    radius = np.hypot(x - 40.0, y - 40.0)
    loops = contours((radius < 30.0) & (radius > 10.0), 0.7)
    assert len(loops) == 2
    areas = sorted(0.5 * (x0 @ np.roll(y0, -1) - y0 @ np.roll(x0, -1)) for x0, y0 in (loop.T for loop in loops))
    np.testing.assert_allclose(areas, [-np.pi * 10.0**2, np.pi * 30.0**2], rtol=0.06)
    assert max(len(loop) for loop in loops) < 40
    assert not contours(np.zeros((5, 5), bool), 0.7)


def test_targets_and_forces_are_arrows() -> None:
    robot = robots.load("hyq", floating_base=True)
    q = np.tile(neutral(robot), (3, 1))
    forces = {"lf_foot": np.array([[0.0, 0.0, 100.0], [0.0, 0.0, 50.0], [0.0, 0.0, 0.0]])}
    bare = scene_of(robot, q, dt=0.1)
    scene = scene_of(robot, q, dt=0.1, targets=[1.0, 0.0, 0.5], forces=forces)
    first = bare.poses.shape[1]
    assert scene.poses.shape[1] == first + 4  # a shaft and a head each
    tops = [scene.placed(k)[0][scene.carrier >= first + 2].reshape(-1, 3) for k in range(3)]
    foot = evaluate(trace(robot, "frame_pose_lf_foot"), {"q": q})["frame_position"][0]
    lengths = [float(top[:, 2].max() - foot[2]) for top in tops]
    np.testing.assert_allclose(lengths, scene.size * np.array([0.45, 0.225, 0.0]), atol=1e-9)
    tip = scene.placed(0)[0][scene.carrier == first + 1].reshape(-1, 3)
    assert np.linalg.norm(tip - [1.0, 0.0, 0.5], axis=1).min() < 1e-9


def test_an_svg_moves_and_has_both_themes(tmp_path: Path) -> None:
    q = np.linspace([0.0, 0.0], [1.0, -0.5], 12)
    root = ElementTree.parse(draw(ARM, q, tmp_path / "motion.svg", dt=0.1)).getroot()
    groups = root.findall(f"{SVG}g")
    assert len(groups) == 12
    style = root.findtext(f"{SVG}style") or ""
    assert "animation:m 1.2s" in style
    assert "prefers-color-scheme:dark" in style
    delays = [group.attrib["style"] for group in groups]
    assert delays[:2] == ["animation-delay:-1.2s", "animation-delay:-1.1s"]
    points = [path.attrib["d"] for group in groups for path in group]
    starts = np.array([[int(x) for x in re.findall(r"-?\d+", own)[:2]] for own in points])
    assert ((starts >= 0) & (starts <= [10 * WIDTH, 10 * HEIGHT])).all()
    still = draw(ARM, q[0], theme="dark").data.decode()
    assert "animation" not in still
    assert "prefers-color-scheme" not in still
    assert "#0d1117" in still
    assert draw(ARM, q, dt=0.1).data == (tmp_path / "motion.svg").read_bytes()


def test_pixels_and_gifs(tmp_path: Path) -> None:
    motion = sweep("two_joint_arm", steps=3)
    assert motion.shape == (6, 2)
    assert (motion >= ARM.lower).all()
    assert (motion <= ARM.upper).all()
    with Image.open(draw(ARM, motion, tmp_path / "motion.gif", dt=0.05)) as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"]) == (6, (WIDTH, HEIGHT), 50)
        assert gif.convert("RGB").getpixel((2, 2)) == (255, 255, 255)  # no border on a white page
    with Image.open(draw(ARM, motion, tmp_path / "motion.png", theme="dark")) as png:
        assert png.size == (WIDTH, HEIGHT)
        assert png.getpixel((2, 2)) == (13, 17, 23)
    picture, other = pixels(ARM, [0.0, 0.0]), pixels(ARM, [1.5, 0.0])
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert 0.005 < (picture < 128).any(axis=2).mean() < 0.3
    assert (picture != other).any()


def test_a_notebook_shows_pictures(tmp_path: Path) -> None:
    pictures = {suffix: draw(ARM, np.zeros(2), tmp_path / f"a{suffix}") for suffix in (".svg", ".gif", ".png", ".html")}
    kinds = ("image/svg+xml", "image/gif", "image/png", "text/html")
    for kind, picture in zip(kinds, pictures.values(), strict=True):
        assert kind in picture._repr_mimebundle_()
    assert pictures[".html"]._repr_mimebundle_()["text/html"].count("<") == 2  # the page inside is escaped
    assert str(pictures[".png"]) == str(tmp_path / "a.png")
    unwritten = draw(ARM, np.zeros(2))
    assert unwritten._repr_mimebundle_()["image/svg+xml"].startswith("<svg")
    with pytest.raises(dynagate.Error, match="this picture has no file; expected draw"):
        os.fspath(unwritten)


def test_a_notebook_shows_robots_results_and_motions() -> None:
    robot = robots.load("two_joint_arm")
    shown = robot._repr_html_()
    assert shown.startswith("<svg")
    ElementTree.fromstring(shown[: shown.index("</svg>") + 6])
    assert "<td>shoulder</td>" in shown
    assert "<td>-3 to 3</td>" in shown
    assert "&lt;b&gt;" in replace(robot, name="<b>")._repr_html_()
    q = np.zeros((3, 2))
    results = dynagate.Results(tau=q, m=np.zeros((3, 2, 2)))
    assert "<td>m</td><td>(3, 2, 2)</td><td>float64</td>" in results._repr_html_()
    motions = dynagate.Rollout(robot, steps=4, dt=0.1, every=2, device="numpy")(q, q + 0.1, np.zeros((3, 4, 2)))
    shown = motions._repr_html_()
    assert "animation:m 0.6s" in shown
    assert "<td>q</td><td>(3, 3, 2)</td>" in shown
    picture = motions.draw(which=2)
    assert picture.data.count(b"<g ") == 3
    assert motions.draw(which=2, dt=0.01).data != picture.data


def test_long_motions_and_lost_ones() -> None:
    """Of a long motion, every k-th step is drawn. Motions that diverged are left out."""
    q = np.zeros((3, 1001, 2))
    q[:, :, 0] = np.linspace(0.0, 1.0, 1001)
    q[1, 500:] = np.nan
    scene = scene_of(ARM, q, dt=0.001, most=200)
    assert (scene.frames, round(scene.dt, 9)) == (167, 0.006)
    assert scene.poses.shape[1] == 2 * 3


@pytest.mark.parametrize(
    ("q", "file", "dt", "message"),
    [
        (np.zeros(3), "a.svg", 0.1, r"q has shape \(3,\); expected \(2,\), \(steps, 2\) or \(batch, steps, 2\)"),
        (np.full(2, np.nan), "a.svg", 0.1, "has no motion whose numbers are all finite; expected one or more"),
        (np.zeros((0, 2)), "a.svg", 0.1, "has no motion whose numbers are all finite"),
        (np.zeros(2, complex), "a.svg", 0.1, "q"),
        (np.zeros(2), "a.mp4", 0.1, r"a.mp4; expected a name that ends in .svg, .gif, .png, .html"),
        (np.zeros(2), "a.svg", 0.0, "dt=0.0; expected seconds between steps, more than 0"),
    ],
)
def test_what_cannot_be_drawn(q: Any, file: str, dt: float, message: str, tmp_path: Path) -> None:
    with pytest.raises(dynagate.Error, match=message):
        draw(ARM, q, tmp_path / file, dt=dt)
    assert not list(tmp_path.iterdir())


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"theme": "black"}, "theme='black'; expected one of auto, light, dark"),
    ({"targets": [1.0, 2.0]}, r"targets has shape \(2,\); expected \(3,\), \(targets, 3\) or \(1, targets, 3\)"),
    ({"targets": [1.0, 2.0, np.nan]}, "targets is not finite; expected finite numbers in m"),
    ({"forces": [1.0, 2.0, 3.0]}, "forces is a list; expected a dict from a link or frame to its force"),
    ({"forces": {"forarm": [0, 0, 1]}}, "forces has 'forarm', which is no link or frame .did you mean 'forearm'"),
    ({"forces": {"forearm": [0, 1]}}, r"forces\['forearm'\] has shape \(2,\); expected \(3,\) or \(1, 3\)"),
    ({"forces": {"forearm": [0, 0, np.inf]}}, r"forces\['forearm'\] is not finite; expected finite numbers in N"),
    (
        {"shapes": dynagate.Shapes(meshes="/nowhere")},
        "/nowhere is no folder; expected the one in which the robot's meshes lie",
    ),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options_that_cannot_be_drawn(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(dynagate.Error, match=message):
        draw(ARM, np.zeros(2), tmp_path / "a.svg", **options)
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


@pytest.mark.parametrize("name", ["axi.svg", "zynq.svg", "slot.svg"])
def test_plots_of_the_pages_are_what_their_script_draws(name: str) -> None:
    """With the same date, byte by byte."""
    docs = Path(__file__).parents[2] / "docs"
    kept = (docs / "pictures" / name).read_text()
    (date,) = set(re.findall(r"Drawn (\d{4}-\d\d-\d\d)", kept))
    assert runpy.run_path(str(docs / "draw_plots.py"))["PLOTS"][name](date) == kept


def test_without_pillow_only_pixels_are_refused(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "import dynagate; dynagate.draw('two_joint_arm', [0, 0], 'a.svg')\n"
        "try: dynagate.draw('two_joint_arm', [0, 0], 'a.png')\n"
        "except dynagate.Error as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a picture of pixels needs the module 'PIL'; pip install 'dynagate[view]' [DG-")
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
