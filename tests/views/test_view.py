"""A robot in the browser: shapes are where Pinocchio has the links, files are opened only where they may be, and what
cannot be shown is said."""

from __future__ import annotations

import inspect
import json
import re
import struct
import sys
import urllib.request
from collections.abc import Iterator
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import dynagate
import numpy as np
import pinocchio
import pytest
import trimesh
from click.testing import CliRunner
from dynagate import Robot, RobotError, RobotWarning, ViewError
from dynagate.cli import main
from dynagate.host.rollouts import Trajectories
from dynagate.robot.visuals import GRAY, folder_of, mesh_bytes, visuals
from dynagate.views.scene import browser
from dynagate.views.scene.bodies import bodies_of

URDF = """<robot name="crane">
  <material name="amber"><color rgba="1 0.5 0 1"/></material>
  <link name="ground"><visual><origin xyz="0 0 0.1"/><geometry><box size="0.4 0.4 0.2"/></geometry></visual></link>
  <joint name="mast_joint" type="continuous"><parent link="ground"/><child link="mast"/>
    <origin xyz="0 0 0.2" rpy="0 0 0.3"/><axis xyz="0 0 1"/></joint>
  <link name="mast"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 0.5"/><geometry><cylinder radius="0.05" length="1"/></geometry>
    <material name="amber"/></visual></link>
  <joint name="jib_joint" type="revolute"><parent link="mast"/><child link="jib"/><origin xyz="0 0.1 1" rpy="0.4 0 0"/>
    <axis xyz="0.6 0.8 0"/><limit lower="-1" upper="1" velocity="1" effort="10"/></joint>
  <link name="jib"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0.3 0 0" rpy="0 1.2 0.5"/><geometry><mesh filename="MESH" scale="1 2 1"/></geometry></visual>
  </link>
  <joint name="hook_joint" type="fixed"><parent link="jib"/><child link="hook"/><origin xyz="0.6 0 -0.1"/></joint>
  <link name="hook"><visual><geometry><sphere radius="0.03"/></geometry></visual></link>
</robot>"""
Q = np.array([[0.0, 0.0], [0.7, -0.4], [3.0, 0.9]])


@pytest.fixture
def crane(tmp_path: Path) -> Path:
    """In a package, as ROS has them, with a mesh beside its folder."""
    package = tmp_path / "crane_description"
    for name in ("urdf", "meshes"):
        (package / name).mkdir(parents=True)
    (package / "package.xml").write_text("<package/>")
    trimesh.creation.box((0.6, 0.1, 0.1)).export(package / "meshes" / "jib.stl")
    path = package / "urdf" / "crane.urdf"
    path.write_text(URDF.replace("MESH", "package://crane_description/meshes/jib.stl"))
    return path


@pytest.fixture
def shown(crane: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[browser.View]:
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: True)
    with dynagate.view(crane, Q, port=18080) as each:
        yield each


@pytest.fixture
def arm_page() -> Iterator[browser.View]:
    with dynagate.view("two_joint_arm", np.zeros(2), port=18300, browser=False) as each:
        yield each


def test_shapes_are_where_pinocchio_has_the_links(shown: browser.View, crane: Path) -> None:
    model = pinocchio.buildModelFromUrdf(str(crane))
    data = model.createData()
    scene = shown._scene
    hook = np.array([0.6, 0.0, -0.1])
    for step, (turn, bend) in enumerate(Q):
        pinocchio.framesForwardKinematics(model, data, np.array([np.cos(turn), np.sin(turn), bend]))
        for carrier, name in enumerate(("mast", "jib")):
            place = data.oMf[model.getFrameId(name)]
            np.testing.assert_allclose(scene.poses[step, carrier, :, 3], place.translation, atol=1e-9)
            np.testing.assert_allclose(scene.poses[step, carrier, :, :3], place.rotation, atol=1e-9)
        corners = scene.placed(step)[0].reshape(-1, 3)
        ball = data.oMf[model.getFrameId("hook")].translation
        assert np.abs(np.linalg.norm(corners - ball, axis=1) - 0.03).min() < 1e-9
    parts = {name: scene.solid.corners[scene.carrier == k].reshape(-1, 3) for k, name in enumerate(("mast", "jib"))}
    jib = pinocchio.SE3(pinocchio.rpy.rpyToMatrix(0.0, 1.2, 0.5), np.array([0.3, 0.0, 0.0]))
    corner = jib.act(np.array([0.3, 0.1, 0.05]))  # of a box whose y is scaled by 2
    assert np.abs(parts["jib"] - corner).max(axis=1).min() < 1e-6
    assert np.abs(np.linalg.norm(parts["jib"] - hook, axis=1) - 0.03).min() < 1e-9
    low, high = parts["mast"].min(axis=0), parts["mast"].max(axis=0)
    np.testing.assert_allclose([low, high], [[-0.05, -0.05, 0.0], [0.05, 0.05, 1.0]], atol=1e-6)
    assert [each.color for each in visuals(crane)][1] == (255, 128, 0)
    assert (scene.solid.colors[scene.carrier == 0] == (255, 128, 0)).all()
    assert (scene.solid.colors[scene.carrier == 1] == GRAY).any()


def test_the_page_is_there_for_this_machine_until_it_is_closed(shown: browser.View) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", shown.url)
    assert shown.opened
    with urllib.request.urlopen(shown.url) as page:
        assert b"<html" in page.read().lower()
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    shown.q = Q[1]
    assert shown.q.shape == (1, 2)
    with urllib.request.urlopen(f"{shown.url}/motion?after=0") as answer:
        assert json.load(answer)["frames"] == 1
    for query in ("after=-1", "after=x", "after=" + 99 * "9", ""):
        with urllib.request.urlopen(f"{shown.url}/motion?{query}") as answer:
            assert (answer.status, answer.read()) == (204, b"")
    with pytest.raises(HTTPError, match="404"):
        urllib.request.urlopen(f"{shown.url}/../{SECRET}")
    with pytest.raises(ValueError, match=r"^q has shape \(3,\); expected \(2,\) or \(steps, 2\) \[DG-"):
        shown.q = np.zeros(3)
    with pytest.raises(ValueError, match=r"^q is not finite at step 1; expected finite numbers \[DG-"):
        shown.q = np.array([[0.0, 0.0], [np.inf, 0.0]])
    shown.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(shown.url)


OWN = {"own": ("127.0.0.1:PORT", "http://127.0.0.1:PORT"), "by name": ("localhost:PORT", "http://localhost:PORT")}
FORWARDED = {"by ssh": ("localhost:9999", "http://localhost:9999"), "by ssh, IPv6": ("[::1]:1", "http://[::1]:1")}
FOREIGN = {
    "another page": ("127.0.0.1:PORT", "http://evil.example"),
    "a page without an address": ("127.0.0.1:PORT", "null"),
    "another server of this machine": ("localhost:PORT", "http://localhost:3000"),
    "another name of this machine": ("localhost:PORT", "http://127.0.0.1:PORT"),
    "a name that leads here": ("evil.example:PORT", "http://evil.example:PORT"),
    "a name that begins well": ("127.0.0.1.evil.example:PORT", "http://127.0.0.1.evil.example:PORT"),
    "encrypted": ("localhost:PORT", "https://localhost:PORT"),
}


@pytest.mark.parametrize("path", ["/", "/motion?after=-1"])
@pytest.mark.parametrize("case", [*OWN, *FORWARDED, *FOREIGN])
def test_only_the_own_page_reads_the_scene(case: str, path: str, arm_page: browser.View) -> None:
    host, origin = ({**OWN, **FORWARDED, **FOREIGN}[case][k].replace("PORT", str(arm_page.port)) for k in range(2))
    request = urllib.request.Request(arm_page.url + path, headers={"Host": host, "Origin": origin})
    if case in FOREIGN:
        with pytest.raises(HTTPError, match="403") as refused:
            urllib.request.urlopen(request)
        assert len(refused.value.read()) < 100
        assert "Access-Control-Allow-Origin" not in refused.value.headers
    else:
        with urllib.request.urlopen(request) as answer:
            assert answer.status == (200 if path == "/" else 204)
            assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_a_foreign_page_begins_is_refused(site: str, arm_page: browser.View) -> None:
    """Also one without an origin, such as an image's or a frame's."""
    with pytest.raises(HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(arm_page.url, headers={"Sec-Fetch-Site": site}))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "127.0.0.1@evil"])
def test_the_page_is_not_there_under_another_name(host: str, arm_page: browser.View) -> None:
    for header in ({"Host": host}, {"Origin": f"http://{host}"}):
        with pytest.raises(HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(arm_page.url, headers=header))


HOSTILE_NAME = "</script><script>alert(1)</script><!--"


def test_a_name_is_text_in_the_page(crane: Path) -> None:
    crane.write_text(crane.read_text().replace('name="crane"', f'name="{escape(HOSTILE_NAME)}"'))
    text = dynagate.draw(crane, np.zeros(2), crane.with_suffix(".html")).data.decode()
    assert text.count("<script") == text.count("</script>") == 2
    scene = text[text.index('id="scene">') + 11 : text.index("</script>")]
    assert json.loads(scene)["title"] == Robot.from_urdf(crane).name
    for source in re.findall(r"(?:src|href|url|import)[=( ]\s*[\"']?(\S+)", text):
        assert not source.startswith(("http", "//"))


def test_a_port_that_is_in_use_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with dynagate.view("two_joint_arm", np.zeros(2), port=18200, browser=False) as first:
        with dynagate.view("two_joint_arm", np.zeros(2), port=first.port, browser=False) as second:
            assert second.port > first.port
        monkeypatch.setattr(browser, "PORTS_TRIED", 1)
        with pytest.raises(ViewError, match=rf"no view at 127.0.0.1:{first.port} \(.* in use\); expected another port"):
            dynagate.view("two_joint_arm", np.zeros(2), port=first.port, browser=False)


SMALL_BUT_LARGE = {
    "accessor": {"accessors": [{"bufferView": 0, "componentType": 5126, "count": 2_000_000_000, "type": "VEC3"}]},
    "sparse": {
        "accessors": [
            {
                "componentType": 5126,
                "count": 2_000_000_000,
                "type": "VEC3",
                "sparse": {
                    "count": 1,
                    "indices": {"bufferView": 0, "componentType": 5125},
                    "values": {"bufferView": 0},
                },
            }
        ]
    },
}


@pytest.mark.parametrize("case", SMALL_BUT_LARGE)
def test_a_small_mesh_that_needs_gigabytes(case: str, crane: Path) -> None:
    whole: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "buffers": [{"byteLength": 12}],
        "bufferViews": [{"buffer": 0, "byteLength": 12}],
        **SMALL_BUT_LARGE[case],
    }
    text = json.dumps(whole).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", 12, 0x004E4942) + bytes(12)
    (crane.parent / "large.glb").write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)
    crane.write_text(URDF.replace("MESH", "large.glb"))
    with pytest.warns(RobotWarning, match=r"mesh large.glb cannot be read as .glb \("):
        bodies = bodies_of(Robot.from_urdf(crane), crane, None)
    assert {body.link for body in bodies} == {-1, 0, 1}


SECRET = "outside.stl"
HOSTILE = {
    "../../outside.stl": r"mesh \S+ lies outside \S+crane_description; expected a file in there, or --meshes FOLDER",
    "package://crane_description/../outside.stl": r"mesh \S+ lies outside \S+crane_description; expected",
    "file://FOLDER/outside.stl": r"mesh \S+ lies outside \S+crane_description; expected",
    "FOLDER/outside.stl": r"mesh \S+ lies outside \S+crane_description; expected",
    "../meshes/link.stl": r"mesh \S+ lies outside \S+crane_description; expected",
    "https://example.org/jib.stl": r"mesh https://example.org/jib.stl is missing in \S+; expected the robot's package",
    "package://crane_description/meshes/none.stl": r"mesh \S+none.stl is missing in \S+; expected the robot's package",
    "../package.xml": r"mesh ../package.xml; expected a file that ends in .stl, .obj, .ply, .glb, .dae",
    "../meshes/broken.stl": r"mesh ../meshes/broken.stl cannot be read as .stl \(",
    "../meshes/broken.dae": r"mesh ../meshes/broken.dae cannot be read as .dae \(",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_meshes_are_read_from_the_robots_folder_alone(name: str, crane: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = crane.parent.parent.parent / SECRET
    trimesh.creation.box().export(outside)
    meshes = crane.parent.parent / "meshes"
    (meshes / "link.stl").symlink_to(outside)
    for kind in ("stl", "dae"):
        (meshes / f"broken.{kind}").write_bytes(b"no triangles in here")
    crane.write_text(URDF.replace("MESH", name.replace("FOLDER", str(outside.parent))))
    with pytest.warns(RobotWarning, match=HOSTILE[name]) as told:
        bodies = bodies_of(Robot.from_urdf(crane), crane, None)
    assert "; capsules are drawn for the links with missing meshes [DG-VIEW-" in str(told[0].message)
    assert {body.link for body in bodies} == {-1, 0, 1}
    if "outside" in HOSTILE[name]:  # and allowed where the caller says so
        content, kind = mesh_bytes(crane, visuals(crane)[2].file, outside.parent)
        assert (content, kind) == (outside.read_bytes(), "stl")


def test_the_folder_of_a_robot_is_its_package_or_its_own(crane: Path) -> None:
    assert folder_of(crane) == crane.parent.parent
    (crane.parent.parent / "package.xml").unlink()
    assert folder_of(crane) == crane.parent
    with pytest.raises(RobotError, match="lies outside"):
        mesh_bytes(crane, "../meshes/jib.stl", folder_of(crane))


def test_a_robot_with_meshes_without_trimesh(crane: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.warns(RobotWarning, match=r"needs the module 'trimesh'; pip install 'dynagate\[view\]'"):
        bodies = bodies_of(Robot.from_urdf(crane), crane, None)
    assert {body.link for body in bodies} == {-1, 0, 1}


def test_without_a_browser_the_address_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(url: str) -> bool:
        raise browser.webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(browser.webbrowser, "open", none)
    with pytest.warns(RobotWarning, match=r"no browser could be opened here; open http://127.0.0.1:\d+ by hand, "):
        page = dynagate.view("two_joint_arm", np.zeros(2), port=18090)
    with page:
        assert len(page._scene.solid.corners) > 1000
        assert not page.opened
    with pytest.raises(ValueError, match=r"^port=0; expected a number from 1 to 65535 \[DG-"):
        dynagate.view("two_joint_arm", np.zeros(2), port=0)
    with pytest.raises(
        RobotError, match=r"^/nowhere is no folder; expected the one in which the robot's meshes lie \[DG-"
    ):
        dynagate.view("two_joint_arm", np.zeros(2), shapes=dynagate.Shapes(meshes="/nowhere"))


def test_a_trajectory_is_shown_up_to_where_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    q = np.zeros((3, 5, 2))
    q[1, 2:] = np.nan
    motions = Trajectories(q, np.zeros_like(q), None, None, np.array([-1, 1, -1]))
    asked: dict[str, Any] = {}
    monkeypatch.setattr(browser, "view", lambda robot, q, **options: asked.update(robot=robot, q=q, **options))
    motions.view("two_joint_arm", which=1, dt=0.1, port=9000)
    assert (asked["robot"], asked["q"].shape, asked["dt"], asked["port"]) == ("two_joint_arm", (2, 2), 0.1, 9000)
    motions.view("two_joint_arm")
    assert asked["q"].shape == (5, 2)
    with pytest.raises(ValueError, match=r"^these trajectories come from no rollout of a robot; expected robot= \[DG-"):
        motions.view()
    with pytest.raises(ValueError, match=r"^which=3; expected a number from 0 to 2 \[DG-"):
        motions.view("two_joint_arm", which=3)


def test_the_command_shows_a_file_until_it_is_interrupted(crane: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: True)
    pages: list[bytes] = []

    def interrupted(self: browser.View) -> None:
        with urllib.request.urlopen(self.url) as page:
            pages.append(page.read())
        raise KeyboardInterrupt

    monkeypatch.setattr(browser.View, "wait", interrupted)
    ran = CliRunner().invoke(main, ["view", str(crane), "--turn", "--port", "18070"])
    assert ran.exit_code == 0, ran.output
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+, until Ctrl-C\n\n", ran.output)
    assert pages[0]
    ran = CliRunner().invoke(main, ["view", str(crane), "--turn", "--open"])
    assert ran.exit_code == 2
    assert "--turn with --output or --open; expected one" in ran.output


@pytest.mark.long  # the environment is compiled
def test_an_environment_for_people_shows_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("numba")
    import_module("examples.papers.position_based.environments")
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: True)
    with gymnasium.make("dynagate/Hopper-v0", render_mode="human") as environment:
        environment.reset(seed=1)
        walking = environment.unwrapped
        page = walking._view
        for _ in range(2):
            environment.step(environment.action_space.sample())
            assert np.array_equal(page.q[0], walking.q)
        assert walking._view is page
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(page.url)


def test_files_of_shapes_are_one_option() -> None:
    for call in (dynagate.draw, dynagate.view):
        assert len(inspect.signature(call).parameters) <= 9
        for former in ("urdf", "meshes"):
            with pytest.raises(TypeError, match=rf"'{former}' \(write shapes=dynagate.Shapes\({former}=...\)\)"):
                call("two_joint_arm", np.zeros(2), **{former: "x"})  # type: ignore[operator]
        with pytest.raises(TypeError, match="shapes='arm.urdf'; expected a Shapes"):
            call("two_joint_arm", np.zeros(2), shapes="arm.urdf")  # type: ignore[operator]


def test_a_notebook_shows_progress() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    lines = ["import time", "from dynagate.base.progress import showing", "with showing() as say:"]
    code = "\n".join([*lines, " say('tracing'); time.sleep(2.5)"])
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert "tracing" in "".join(output.get("text", "") for output in notebook.cells[0].outputs)
