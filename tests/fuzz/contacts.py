"""Rollouts with rigid contact: the laws recomputed from the impulses that they return, and gradients at special states.

A case: {"kind": "contacts", "robot", "points": [{"link", "at", "radius"}], "planes": [{"normal"}], "coulomb",
"compliance", "depth", "states": [{"q", "qd", "push"}], "steps", "dt", "device", "gradients"}. "coulomb" is the friction
of the contacts. "compliance" is a multiple of 1 / mass. "depth", m, places each plane: the lowest point of the first
state is this far below it.

The mass matrix, the Jacobians and the step come from `tests.fuzz.reference`.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import dynagate
import numpy as np
from dynagate import Robot, RobotError, Rollout
from dynagate.integrators import Plane, Point, RigidContact
from dynagate.integrators.implicit.contact_pairs import axes_of

from tests.fuzz import rollouts
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Array, Reference, skew, times
from tests.fuzz.robots import draw_robot, number, robot_of

Case = dict[str, Any]
TOLERANCE = 1e-11
"""m/s, with which sweeps end."""
LAW = 1e-7
"""Largest violation of a law, of the largest velocity of a point without impulses or 1 m/s."""
STEP = 1e-5
"""rad, m, rad/s or m/s, of a one-sided difference."""
CORRECTED = 0.2
"""Share of a depth that a step recovers."""
SETTLED = 1e-9
"""m/s: loads, gaps and slips that move a point by less are 0, as sweeps may leave them."""


def draw(random: np.random.Generator) -> Case:
    recipe = draw_robot(random, 3, ("light", "ball", "ball", "arm"))
    for link in recipe["links"]:
        link.pop("mimic", None)
        link.pop("friction", None)
    moving = [link["name"] for link in recipe["links"] if link["joint"] != "fixed"]
    light = all(link.get("mass", 1.0) < 0.1 for link in recipe["links"])
    size = 0.03 if light else 0.2
    points = []
    for _ in range(int(random.integers(1, 4))):
        point: Case = {"link": str(random.choice(moving)), "at": [number(random, -size, size) for _ in range(3)]}
        points.append({**point, **({"radius": number(random, 0.1, 0.5) * size} if random.random() < 0.4 else {})})
    normals = [[0.0, 0.0, 1.0]] + [[number(random, -1, 1), number(random, -1, 1), 0.5]] * int(
        len(points) == 1 and random.random() < 0.5
    )
    states = [rollouts.draw_state(random, recipe, 1.0) for _ in range(2)]
    kind = str(random.choice(["rest", "straight", "pushed", "moves", "moves", "moves"]))
    if kind != "moves":
        states[0]["qd"] = {}
    if kind == "straight":
        states[0]["q"] = {}
    if kind in ("rest", "straight"):
        states[0]["push"] = {}
    return {
        "kind": "contacts",
        "robot": recipe,
        "points": points,
        "planes": [{"normal": normal} for normal in normals],
        "coulomb": float(random.choice([0.0, 0.3, 0.3, 1.0])),
        "compliance": float(random.choice([0.01, 0.1])),
        "depth": float(random.choice([-1.0, -1e-3, 0.0, 1e-4, 3e-3])) * size,
        "states": states,
        "steps": int(random.integers(1, 4)),
        "dt": 1e-3,
        "device": str(random.choice(["numpy", "cpu"])),
        "gradients": bool(random.random() < 0.6),
    }


class Scene(NamedTuple):
    """A robot with points and planes. compliance: 1/kg."""

    reference: Reference
    points: list[Case]
    planes: list[Plane]
    friction: float
    compliance: float

    def meeting(self, q: Array) -> tuple[Array, Array]:
        """Return the Jacobian (3 pairs, nv) along the axes of the planes and the gaps (pairs,) at q (nq,)."""
        zero = np.zeros(self.reference.nv)
        bodies, rows, gaps = self.reference.bodies(q, zero, zero), [], []
        for point in self.points:
            body, radius = bodies[point["link"]], point.get("radius", 0.0)
            arm = times(body["turn"], np.array(point["at"], float))
            for plane in self.planes:
                axes = axes_of(plane)
                to_contact = arm - axes[0] * radius
                rows.append(axes @ (body["moving"] - skew(to_contact) @ body["turning"]) @ self.reference.coupling)
                gaps.append(axes[0] @ (body["place"] + arm) - plane.offset - radius)
        return np.concatenate(rows), np.array(gaps)


def scene_of(case: Case, reference: Reference, q: Array) -> Scene:
    """The scene whose planes are the case's depth above the lowest point at q (nq,)."""
    mass = sum(link["mass"] for link in reference.links)
    planes = []
    for plane in case.get("planes") or [{}]:
        normal = np.array(plane.get("normal", [0.0, 0.0, 1.0]), float)
        planes.append(Plane(tuple(normal / np.linalg.norm(normal)), 0.0))
    moving = {link["name"] for link in reference.moving}
    points = [{"at": [0.0, 0.0, 0.0], **point} for point in case["points"] if point.get("link") in moving]
    if not points:
        raise RobotError("no point is on a link that moves")
    scene = Scene(reference, points, planes, float(case.get("coulomb", 0.0)), case.get("compliance", 0.1) / mass)
    gaps = scene.meeting(q)[1].reshape(len(points), len(planes)).min(axis=0)
    at = [Plane(p.normal, float(gap) + case.get("depth", 0.0)) for p, gap in zip(planes, gaps, strict=True)]
    return scene._replace(planes=at)


def rollout_of(case: Case, robot: Robot, scene: Scene) -> Rollout:
    contact = RigidContact(
        tuple(Point(p["link"], tuple(p["at"]), p.get("radius", 0.0)) for p in scene.points),
        tuple(scene.planes),
        friction=scene.friction,
        compliance=scene.compliance,
        tolerance=TOLERANCE,
        sweeps=2000,
    )
    return Rollout(
        robot, steps=case.get("steps", 1), dt=case.get("dt", 1e-3), contacts=contact, device=case.get("device", "numpy")
    )


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = robot_of(case["robot"], Path(folder))
        reference = rollouts.reference_of(case, robot)
        q, qd, push = rollouts.states_of(case, reference)
        if not np.linalg.cond(reference.mass(q)).max() < rollouts.LARGEST_CONDITION:
            raise RobotError("expected a robot that floats can tell")
        tau = reference.inverse(q, qd, push)[:, None] * np.ones((case.get("steps", 1), 1))
        scene = scene_of(case, reference, q[0])
        rollout = rollout_of(case, robot, scene)
        out = rollout(q, qd, tau)
        assert out.impulse is not None
        assert out.lift is not None
        for i in range(len(q)):
            for k in np.flatnonzero(out.converged[i]):
                state, after = (out.q[i, k], out.qd[i, k]), (out.q[i, k + 1], out.qd[i, k + 1])
                _laws(scene, case.get("dt", 1e-3), state, tau[i, k], after, out.impulse[i, k], out.lift[i, k], findings)
        if case.get("gradients") and out.converged.all():
            _slopes(rollout, scene, case.get("dt", 1e-3), q[0], qd[0], tau[0], findings)


def _laws(
    scene: Scene,
    dt: float,
    state: tuple[Array, Array],
    tau: Array,
    after: tuple[Array, Array],
    impulse: Array,
    lift: Array,
    findings: Findings,
) -> None:
    """Compare one step: the motion by its impulses, Signorini's and Coulomb's laws, and the lift of depths."""
    (q, v), r, reference = state, impulse.reshape(-1), scene.reference
    jacobian, gaps = scene.meeting(q)
    moved, fast, held = reference.pushed_step(q, v, tau, dt, jacobian.T @ r, jacobian[::3].T @ lift)
    findings.near("q", after[0], moved, 1e-8, rollouts.SMALLEST)
    findings.near("qd", after[1], fast, 1e-8, rollouts.SMALLEST)
    w = jacobian @ np.linalg.solve(reference.mass(q), jacobian.T) + scene.compliance * np.eye(len(r))
    u = (jacobian @ held + scene.compliance * r).reshape(-1, 3)
    scale = max(1.0, np.abs(u).max(), np.abs(w @ r).max())
    steep = np.diag(w).reshape(-1, 3)
    normal, steepest = impulse[:, 0], steep[:, 1:].sum(axis=1)
    closing = u[:, 0] + np.maximum(gaps, 0.0) / dt
    radius, wish = scene.friction * normal, impulse[:, 1:] - u[:, 1:] / steepest[:, None]
    length = np.linalg.norm(wish, axis=1)
    disc = wish * (np.minimum(length, radius) / np.where(length > 0.0, length, 1.0))[:, None]
    leaving = np.where(normal > 0.0, 0.0, closing)
    lifting = w[::3, ::3] @ lift + leaving + CORRECTED / dt * np.minimum(gaps, 0.0)
    zero = np.zeros(len(gaps))
    findings.near("signorini", np.minimum(normal * steep[:, 0], closing) / scale, zero, LAW, 1.0)
    findings.near("coulomb", (impulse[:, 1:] - disc) * steepest[:, None] / scale, 0.0 * disc, LAW, 1.0)
    over = np.maximum(np.linalg.norm(impulse[:, 1:], axis=1) - radius, 0.0)
    findings.near("cone", over * steepest / scale, zero, 1e-12, 1.0)
    scale = max(scale, np.abs(gaps).max() * CORRECTED / dt)
    findings.near("lift", np.minimum(lift * steep[:, 0], lifting) / scale, zero, LAW, 1.0)


def _sets(scene: Scene, dt: float, out: Any, tau: Array, row: int) -> Array:
    """Return whether each point of a trajectory's steps has a load, slips, is above its plane and is lifted."""
    sets = []
    for k in range(len(tau)):
        impulse, lift, (q, v) = out.impulse[row, k], out.lift[row, k], (out.q[row, k], out.qd[row, k])
        r, reference = impulse.reshape(-1), scene.reference
        jacobian, gaps = scene.meeting(q)
        held = reference.pushed_step(q, v, tau[k], dt, jacobian.T @ r, jacobian[::3].T @ lift)[2]
        u = (jacobian @ held + scene.compliance * r).reshape(-1, 3)
        steep = np.einsum("ij,ji->i", jacobian[::3], np.linalg.solve(reference.mass(q), jacobian[::3].T))
        speeds = [impulse[:, 0] * steep, np.linalg.norm(u[:, 1:], axis=1), gaps / dt, lift * steep]
        sets.append([speed > SETTLED for speed in speeds])
    return np.array(sets)


def _slopes(rollout: Rollout, scene: Scene, dt: float, q: Array, qd: Array, tau: Array, findings: Findings) -> None:
    """Compare the gradient of a motion's end with one-sided differences: where both sides agree, and along the ways in
    which every point stays in its set, as docs/contacts.md states it for states at a kink. Elsewhere it is finite."""
    robot, random = rollout.robot, np.random.default_rng(0)
    nv, steps = robot.nv, len(tau)
    costs = random.normal(size=(2, steps + 1, nv))
    costs[:, :-1] = 0.0
    out = rollout(q[None], qd[None], tau[None])
    got = rollout.vjp(out, tau[None], *costs[:, None])
    slope = np.concatenate([got["q0"][0], got["qd0"][0]])
    findings.compared += 1
    if not np.isfinite(slope).all():
        findings.wrong("vjp", f"has numbers that are not finite: {slope}")
        return
    ways = np.concatenate([np.eye(2 * nv), random.normal(size=(4, 2 * nv)) / np.sqrt(2 * nv)])
    mine, count = _sets(scene, dt, out, tau, 0), len(ways)
    sides, stays = [], []
    for step in (STEP, -STEP, 2.0 * STEP, -2.0 * STEP):
        moved = step * ways
        start = dynagate.integrate(robot, np.tile(q, (count, 1)), moved[:, :nv])
        ends = rollout(start, qd + moved[:, nv:], np.tile(tau, (count, 1, 1)))
        if not ends.converged.all():
            return
        change = dynagate.difference(robot, np.tile(out.q[0, -1], (count, 1)), ends.q[:, -1])
        sides.append((change @ costs[0, -1] + (ends.qd[:, -1] - out.qd[0, -1]) @ costs[1, -1]) / step)
        stays.append([np.array_equal(_sets(scene, dt, ends, tau, row), mine) for row in range(count)])
    size, along = max(1.0, np.abs(slope).max()), ways @ slope
    smooth = np.ptp(sides, axis=0) < 1e-4 * size
    right = 2.0 * np.mean(sides[:2], axis=0) - np.mean(sides[2:], axis=0)
    findings.near("vjp", along[smooth] / size, right[smooth] / size, 3e-4, 1.0)
    for side in range(2):
        same = np.array(stays[side]) & np.array(stays[side + 2])
        right = 2.0 * sides[side] - sides[side + 2]
        findings.near(f"vjp of side {side}", along[same] / size, right[same] / size, 1e-3, 1.0)
