"""Dry friction of rigid contacts: equal in all directions, and solved where points share their forces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot
from dynagate.forces import Plane, Point
from dynagate.forces.contact import corners
from dynagate.robot.parts import Joint, Link
from dynagate.robot.vectors import matrix3, vector3

from examples.papers.position_based.complementarity import StewartTrinkle
from examples.papers.position_based.friction_cone import impulses

pytestmark = pytest.mark.long  # Numba compiles for half a minute

SIZE = 0.2


def cube(folder: Path) -> Robot:
    inertia = SIZE**2 / 6.0
    path = folder / "cube.urdf"
    path.write_text(
        "<robot name='cube'><link name='box'><inertial><mass value='1'/>"
        f"<inertia ixx='{inertia}' iyy='{inertia}' izz='{inertia}' ixy='0' ixz='0' iyz='0'/></inertial></link></robot>"
    )
    return Robot.from_urdf(path, floating_base=True)


def block() -> Robot:
    """1 kg that slides along x, y and z and does not turn."""
    none, one = matrix3(np.zeros((3, 3))), matrix3(np.eye(3))
    axes = [vector3(row) for row in np.eye(3)]
    joints = [Joint(name, "prismatic", one, vector3(np.zeros(3)), axis) for name, axis in zip("xyz", axes, strict=True)]
    return Robot(
        "block",
        tuple(
            Link(f"link{k}", k - 1, joint, float(k == 2), vector3(np.zeros(3)), none) for k, joint in enumerate(joints)
        ),
    )


@pytest.mark.parametrize("degrees", [0.0, 22.5, 45.0, 100.0])
def test_a_block_slides_as_far_in_all_directions(degrees: float) -> None:
    """v²/(2 μ g), less v dt/2 of steps whose velocity comes first, and straight on."""
    way = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    slide = StewartTrinkle(block(), 0.001, [Point("link2", (0.0, 0.0, 0.0))], mu=0.3).run(np.zeros(3), [*way, 0.0], 500)
    assert slide.solved.all()
    np.testing.assert_allclose(slide.q[-1, :2], (1.0 / (2.0 * 0.3 * 9.81) - 0.0005) * way, atol=1e-5)


@pytest.mark.parametrize(("mu", "dt"), [(0.2, 0.005), (0.2, 0.001), (0.5, 0.002), (0.0, 0.002)])
def test_a_cube_slides_into_a_wall(mu: float, dt: float, tmp_path: Path) -> None:
    """Eight corners touch ground and wall at once. The cube stays outside of both and loses energy alone."""
    planes = [Plane(), Plane((-1.0, 0.0, 0.0), -0.5)]
    slide = StewartTrinkle(cube(tmp_path), dt, corners("box", (SIZE,) * 3), planes=planes, mu=mu).run(
        [0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0, 0.0, 0.0], round(0.6 / dt)
    )
    assert slide.solved.all()
    assert slide.contacts.max() == 8
    assert slide.q[:, 0].max() < 0.4 + 3.0 * dt
    assert slide.energy.max() <= slide.energy[0] + 1e-9


def test_thrown_cubes_come_to_rest_in_a_corner(tmp_path: Path) -> None:
    random, robot = np.random.default_rng(0), cube(tmp_path)
    planes = [Plane(), Plane((-1.0, 0.0, 0.0), -0.5), Plane((0.0, 1.0, 0.0), -0.3)]
    for mu in (0.1, 0.5, 1.0, 0.2, 2.0):
        turned = random.normal(size=4)
        start = np.concatenate([[0.0, 0.0, 0.3], turned / np.linalg.norm(turned)])
        simulator = StewartTrinkle(robot, 0.005, corners("box", (SIZE,) * 3), planes=planes, mu=mu)
        slide = simulator.run(start, random.normal(size=6) * 3.0, 400)
        assert slide.solved.all()
        assert np.isfinite(slide.q).all()
        assert slide.energy[-1] < slide.energy[0]


def test_impulses_that_do_not_exist_are_not_made_up() -> None:
    assert impulses(np.eye(3), np.array([np.nan, 0.0, 0.0]), 0.5, np.zeros(3)) == -1


def test_impulses_meet_the_conditions() -> None:
    """Of contacts that are coupled at random: not drawn together, the impulse in the cone, friction against motion."""
    random, mu = np.random.default_rng(3), 0.4
    for _ in range(50):
        rows = random.normal(size=(6, 9))
        w, b, r = rows @ rows.T, rows @ random.normal(size=9), np.zeros(6)
        assert impulses(w, b, mu, r) > 0
        u = w @ r + b
        for c in range(0, 6, 3):
            slip, drag = u[c + 1 : c + 3], r[c + 1 : c + 3]
            assert u[c] > -1e-4
            assert r[c] >= -1e-9
            assert abs(u[c] * r[c]) < 1e-4 * (1.0 + abs(r[c]))
            assert np.linalg.norm(drag) <= mu * r[c] + 1e-7
            if np.linalg.norm(slip) > 1e-3:
                np.testing.assert_allclose(drag, -mu * r[c] * slip / np.linalg.norm(slip), atol=1e-4 * (1.0 + r[c]))
