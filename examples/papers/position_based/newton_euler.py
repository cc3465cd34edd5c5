"""The integrators that position-based steps are compared with: Newton-Euler forward dynamics under explicit schemes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import Error
from dynagate.dynamics.steps.explicit import TABLEAUX
from dynagate.integrators.limits import warn_beyond_limits
from dynagate.robot import Robot

from examples.papers.compiled import compiled
from examples.papers.position_based.inertia import add_inertia, eliminate, paired
from examples.papers.position_based.inputs import check_positive, check_single
from examples.papers.position_based.joints import Joints, joints_of
from examples.papers.position_based.kinematics import move, place
from examples.papers.position_based.links import Floats, Links, links_of
from examples.papers.position_based.state import fill, potential


@compiled
def velocities(links: Links, twist: Floats, qd: Floats, speed: Floats) -> None:
    """Fills in every link's velocity (links, 6) as a twist of the world."""
    d = 0
    for i in range(len(links.parent)):
        for r in range(6):
            speed[i, r] = speed[links.parent[i], r] if links.parent[i] >= 0 else 0.0
        while d < len(qd) and links.link_of[d] == i:
            for r in range(6):
                speed[i, r] += twist[d, r] * qd[d]
            d += 1


@compiled
def rate_of(speed: Floats, pose: Floats, rate: Floats) -> None:
    """Fills in dT/dt (links, 3, 4) from twists and poses."""
    for i in range(len(speed)):
        s = speed[i]
        for c in range(4):
            x, y, z = pose[i, 0, c], pose[i, 1, c], pose[i, 2, c]
            rate[i, 0, c] = s[1] * z - s[2] * y
            rate[i, 1, c] = s[2] * x - s[0] * z
            rate[i, 2, c] = s[0] * y - s[1] * x
        for r in range(3):
            rate[i, r, 3] += s[3 + r]


@compiled
def mechanical_energy(links: Links, q: Floats, qd: Floats) -> float:
    """Kinetic and potential energy in J; 0 of the potential is where all centers of mass are at the world's origin."""
    pose, twist = np.empty((len(links.parent), 3, 4)), np.empty((len(qd), 6))
    speed, rate = np.empty((len(links.parent), 6)), np.empty((len(links.parent), 3, 4))
    place(links, q, pose, twist)
    velocities(links, twist, qd, speed)
    rate_of(speed, pose, rate)
    return 0.5 * paired(links, rate, rate) + potential(links, pose, np.zeros_like(pose))


@compiled
def _cross_motion(v: Floats, m: Floats, out: Floats) -> None:
    """Adds v × m of two twists."""
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        out[a] += v[b] * m[c] - v[c] * m[b]
        out[3 + a] += v[b] * m[3 + c] - v[c] * m[3 + b] + v[3 + b] * m[c] - v[3 + c] * m[b]


@compiled
def _cross_force(v: Floats, f: Floats, out: Floats) -> None:
    """Adds v ×* f of a twist and a force (moment, force)."""
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        out[a] += v[b] * f[c] - v[c] * f[b] + v[3 + b] * f[3 + c] - v[3 + c] * f[3 + b]
        out[3 + a] += v[b] * f[3 + c] - v[c] * f[3 + b]


@compiled
def bias(links: Links, twist: Floats, inertia: Floats, qd: Floats) -> Floats:
    """C q̇ + g (nv,): inverse dynamics without accelerations. inertia (links, 6, 6): each link's, in the world."""
    nb, n = len(links.parent), len(qd)
    speed, turning, force = np.empty((nb, 6)), np.zeros((nb, 6)), np.zeros((nb, 6))
    velocities(links, twist, qd, speed)
    d = 0
    for i in range(nb):
        parent = links.parent[i]
        joint = np.zeros(6)
        while d < n and links.link_of[d] == i:
            joint += twist[d] * qd[d]
            d += 1
        if parent >= 0:
            fill(turning[i], turning[parent])
            _cross_motion(speed[parent], joint, turning[i])
        else:
            for a in range(3):
                turning[i, 3 + a] = -links.gravity[a]
        momentum = inertia[i] @ speed[i]
        force[i] += inertia[i] @ turning[i]
        _cross_force(speed[i], momentum, force[i])
    result = np.empty(n)
    for i in range(nb - 1, -1, -1):
        if links.parent[i] >= 0:
            force[links.parent[i]] += force[i]
    for d in range(n):
        result[d] = np.dot(twist[d], force[links.link_of[d]])
    return result


@compiled
def accelerations(links: Links, joints: Joints, q: Floats, qd: Floats, tau: Floats) -> Floats:
    """q̈ (nv,) of forward dynamics: M q̈ = τ - damping q̇ - bias, by articulated bodies."""
    pose, twist = np.empty((len(links.parent), 3, 4)), np.empty((len(qd), 6))
    place(links, q, pose, twist)
    inertia = np.zeros((len(links.parent), 6, 6))
    add_inertia(links, pose, pose, 1.0, inertia)
    force = bias(links, twist, inertia, qd) - tau + joints.damping * qd
    step = np.empty(len(qd))
    eliminate(links, twist, inertia, joints.armature, force, step)
    return step


@compiled
def body_acceleration(links: Links, qd: Floats, qdd: Floats) -> Floats:
    """q̈ with that of floating joints' origins along the link's axes, which do not turn as `move` goes: v̇ + ω × v."""
    result = qdd.copy()
    for i in range(len(links.parent)):
        if links.kind[i] == 3:
            f = links.first_v[i]
            for a in range(3):
                b, c = (a + 1) % 3, (a + 2) % 3
                result[f + a] += qd[f + 3 + b] * qd[f + c] - qd[f + 3 + c] * qd[f + b]
    return result


@compiled
def _march(
    links: Links,
    joints: Joints,
    nodes: Floats,
    weights: Floats,
    dt: float,
    tau: Floats,
    q: Floats,
    energy: Floats,
    qd: Floats,
) -> int:
    """Steps until the end, or until the motion is no longer finite; returns the steps done. nodes (stages, stages),
    weights (stages,): a tableau, or none for semi-implicit Euler, Equation 3."""
    stages, n = len(weights), len(qd)
    moves, slopes, place = np.empty((stages, n)), np.empty((stages, n)), np.empty_like(q[0])
    for k in range(len(q) - 1):
        if stages == 0:
            qd += dt * accelerations(links, joints, q[k], qd, tau[k])
            move(links, q[k], dt * qd, q[k + 1])
        for s in range(stages):
            displacement, velocity = np.zeros(n), qd.copy()
            for r in range(s):
                displacement += dt * nodes[s, r] * moves[r]
                velocity += dt * nodes[s, r] * slopes[r]
            move(links, q[k], displacement, place)
            moves[s] = velocity
            slopes[s] = accelerations(links, joints, place, velocity, tau[k])
        if stages:
            move(links, q[k], dt * (weights @ moves), q[k + 1])
            qd += dt * (weights @ slopes)
        energy[k + 1] = mechanical_energy(links, q[k + 1], qd)
        if not np.isfinite(energy[k + 1]) or np.max(np.abs(qd)) > 1e6:
            return k
    return len(q) - 1


SCHEMES = {"euler": "euler", "semi-implicit": "semi_implicit_euler", "rk2": "rk2", "rk3": "rk3", "rk4": "rk4"}
"""Names here -> those of `dynamics.steps.explicit`."""


def _tableau(scheme: str) -> tuple[Floats, Floats]:
    """Nodes (stages, stages) and weights (stages,); none for what has no tableau."""
    tableau = TABLEAUX.get(SCHEMES[scheme])
    if tableau is None:
        return np.zeros((0, 0)), np.zeros(0)
    nodes = np.zeros((len(tableau.weights), len(tableau.weights)))
    for s, row in enumerate(tableau.nodes):
        nodes[s + 1, : len(row)] = row
    return nodes, np.array(tableau.weights)


class SchemeError(Error, ValueError):
    """An explicit scheme that does not exist. The text lists those that do."""


class Motion(NamedTuple):
    """q (steps + 1, nq), energy (steps + 1,) in J, both NaN after the last finite one; steps: how many are finite."""

    q: Floats
    energy: Floats
    steps: int


class NewtonEuler:
    """Steps by forward dynamics: "euler", "semi-implicit", "rk2" (midpoint), "rk3" or "rk4" (Kutta). With quaternions
    those are of order 2. Raises SchemeError: another name; PositionBasedError: dt."""

    def __init__(self, robot: Robot, dt: float, scheme: str = "semi-implicit") -> None:
        if scheme not in SCHEMES:
            raise SchemeError(f"scheme '{scheme}'; expected one of {', '.join(SCHEMES)}")
        check_positive("dt", dt)
        self.robot, self.dt, self.scheme = robot, dt, scheme
        self.links, self.joints = links_of(robot), joints_of(robot, None)

    def run(self, q0: npt.ArrayLike, qd0: npt.ArrayLike | None, steps: int, tau: npt.ArrayLike | None = None) -> Motion:
        """q0 (nq,), qd0 (nv,) or None for rest, tau (nv,) or (steps, nv).

        Warns of joints that pass their limits. Raises PositionBasedError: shapes, numbers that are not finite.
        """
        inputs = check_single(self.robot, q0, qd0, steps, tau=tau)
        q = np.full((steps + 1, self.robot.nq), np.nan)
        energy = np.full(steps + 1, np.nan)
        qd = inputs.qd0.copy()
        q[0] = inputs.q0
        energy[0] = mechanical_energy(self.links, q[0], qd)
        done = _march(self.links, self.joints, *_tableau(self.scheme), self.dt, inputs.tau, q, energy, qd)
        q[done + 1 :], energy[done + 1 :] = np.nan, np.nan
        warn_beyond_limits(self.robot, q)
        return Motion(q, energy, done)
