"""Solve constrained dynamics as one dense linear system, with nothing of dynagate's dynamics.

The system is [M, -Jᵀ; J, C] [q̈; λ] = [τ - h; -(J̇ q̇ + d J q̇ + k e)], with the compliances on the diagonal of C. The
mass matrix, the bias and the motion of frames come from `tests.fuzz.reference`. Derivatives are complex steps of the
residual, through the same system. Leading axes are the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from dynagate import Robot
from dynagate.robot import Constraint

from tests.fuzz.reference import Array, Reference, skew, times, transposed

Placed = tuple[str, Array, Array]
"""The link that carries a frame ("" for the base), and the frame's rotation (3, 3) and translation (3,) there."""


class OfRobot(Reference):
    """The reference dynamics of a `Robot`."""

    def __init__(self, robot: Robot) -> None:
        links = [_recipe_of(robot, index) for index in range(len(robot.links))]
        super().__init__({"links": links, "gravity": list(robot.gravity)}, [link["name"] for link in links])
        self.inertias = {link.name: np.array(link.inertia) for link in robot.links}
        self.frames = {link.name: np.array(link.joint.rotation) for link in robot.links}


def _recipe_of(robot: Robot, index: int) -> dict[str, Any]:
    link = robot.links[index]
    joint = link.joint
    recipe: dict[str, Any] = {"name": link.name, "joint": joint.type, "at": joint.translation, "axis": joint.axis}
    recipe |= {"mass": link.mass, "com": link.com, "damping": joint.damping, "armature": joint.armature}
    if link.parent >= 0:
        recipe["parent"] = robot.links[link.parent].name
    if joint.mimic:
        leader = next(other.name for other in robot.links if other.joint.name == joint.mimic.joint)
        recipe["mimic"] = {"link": leader, "multiplier": joint.mimic.multiplier, "offset": joint.mimic.offset}
    return recipe


def kkt_of(robot: Robot) -> Kkt:
    """Return the linear system of a robot and its constraints."""
    named = [*(robot.frame(link.name) for link in robot.links), *robot.frames]
    frames = {
        frame.name: (
            robot.links[frame.link].name if frame.link >= 0 else "",
            np.array(frame.rotation),
            np.array(frame.translation),
        )
        for frame in named
    }
    joints = {link.joint.name: link.name for link in robot.links}
    return Kkt(OfRobot(robot), frames, joints, robot.constraints)


class Solution(NamedTuple):
    """x (batch, nv) and force (batch, rows) of the system, and its condition number (batch,)."""

    x: Array
    force: Array
    condition: Array


class Kkt:
    """The linear system of constraints on a reference. frames: poses by name. joints: joint name -> link name."""

    def __init__(
        self,
        reference: Reference,
        frames: Mapping[str, Placed],
        joints: Mapping[str, str],
        constraints: Sequence[Constraint],
    ) -> None:
        self.reference, self.constraints = reference, constraints
        self._frames, self._joints = frames, joints
        self.compliance = np.concatenate([_compliances(own) for own in constraints])
        self._damping, self._stiffness = (
            self.by_rows([getattr(own, name) for own in constraints]) for name in ("damping", "stiffness")
        )

    def by_rows(self, numbers: Any) -> Array:
        """Repeat numbers (..., constraints) for each row of the constraint."""
        return np.repeat(np.asarray(numbers, float), [_rows(own) for own in self.constraints], axis=-1)

    # Terms

    def jacobian(self, q: Array) -> Array:
        """J (..., rows, nv)."""
        zero = np.zeros((*q.shape[:-1], self.reference.nv))
        return self._terms(q, zero, zero)[0]

    def held(self, q: Array, v: Array, a: Array) -> Array:
        """J a + J̇ v + d J v + k e (..., rows)."""
        jacobian, acceleration, opening = self._terms(q, v, a)
        return acceleration + self._damping * times(jacobian, v) + self._stiffness * opening

    def _terms(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """J, J a + J̇ v, and how far loops are open."""
        found = self.reference.bodies(q, v, a)
        rates = v @ self.reference.coupling.T
        parts = [
            self._of_joints(own, q, v, a) if own.kind == "joints" else self._of_frames(own, found, rates)
            for own in self.constraints
        ]
        jacobians, accelerations, openings = zip(*parts, strict=True)
        return np.concatenate(jacobians, -2), np.concatenate(accelerations, -1), np.concatenate(openings, -1)

    def _frame(self, name: str, found: Mapping[str, Any], rates: Array) -> dict[str, Array]:
        link, turn, at = self._frames[name]
        some = next(iter(found.values()))
        if not link:
            nothing = {key: np.zeros_like(some[key]) for key in ("turning", "moving", "w", "dw", "acceleration")}
            zero = np.zeros_like(some["w"])
            return {**nothing, "turn": turn + zero[..., None], "place": at + zero, "velocity": zero}
        body = found[link]
        w, dw, r = body["w"], body["dw"], times(body["turn"], at + np.zeros_like(body["place"]))
        moving = body["moving"] - skew(r) @ body["turning"]
        return {
            "turn": body["turn"] @ turn,
            "place": body["place"] + r,
            "turning": body["turning"],
            "moving": moving,
            "w": w,
            "dw": dw,
            "velocity": times(moving, rates),
            "acceleration": body["acceleration"] + times(skew(dw), r) + times(skew(w), times(skew(w), r)),
        }

    def _of_frames(self, own: Constraint, found: Mapping[str, Any], rates: Array) -> tuple[Array, Array, Array]:
        held = self._frame(own.frame, found, rates)
        other = self._frame(own.to, found, rates) if own.to else {key: np.zeros_like(x) for key, x in held.items()}
        apart = {key: held[key] - other[key] for key in held}
        turning, moving = apart["turning"] @ self.reference.coupling, apart["moving"] @ self.reference.coupling
        if own.kind == "point":
            return moving, apart["acceleration"], apart["place"]
        if own.kind == "fixed":
            swung = 0.5 * sum(times(skew(other["turn"][..., k]), held["turn"][..., k]) for k in range(3))
            jacobian = np.concatenate([turning, moving], -2)
            both = np.concatenate([apart["dw"], apart["acceleration"]], -1)
            return jacobian, both, np.concatenate([swung, apart["place"]], -1)
        if own.kind == "plane":
            normal = np.array(own.normal, float) / np.linalg.norm(own.normal)
            return (normal @ moving)[..., None, :], (apart["acceleration"] @ normal)[..., None], 0.0 * rates[..., :1]
        if own.kind == "hinge":
            axes = transposed(held["turn"])[..., :2, :]
            swinging = times(transposed(skew(held["w"]) @ held["turn"])[..., :2, :], apart["w"])
            across = times(axes, times(skew(other["turn"][..., 2]), held["turn"][..., 2]))
            jacobian = np.concatenate([axes @ turning, moving], -2)
            both = np.concatenate([times(axes, apart["dw"]) + swinging, apart["acceleration"]], -1)
            return jacobian, both, np.concatenate([across, apart["place"]], -1)
        along, speed = apart["place"] / own.length, apart["velocity"]
        length = np.sum(apart["place"] ** 2, -1, keepdims=True)
        acceleration = np.sum(along * apart["acceleration"] + speed * speed / own.length, -1, keepdims=True)
        return (along[..., None, :] @ moving), acceleration, 0.5 * (length / own.length - own.length)

    def _of_joints(self, own: Constraint, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        first, row = self._joint(own.frame, q)
        polynomial = np.polynomial.Polynomial(own.polynomial)
        if not own.to:
            jacobian = row + 0.0 * q[..., :1]
            return jacobian[..., None, :], times(jacobian[..., None, :], a), first - own.polynomial[0]
        second, other = self._joint(own.to, q)
        jacobian = row - polynomial.deriv()(second) * other
        curved = polynomial.deriv(2)(second) * (v @ other)[..., None] ** 2
        opened = first - polynomial(second)
        return jacobian[..., None, :], times(jacobian[..., None, :], a) - curved, opened

    def _joint(self, name: str, q: Array) -> tuple[Array, Array]:
        """A joint's position (..., 1), and its velocity's row of the coupling (nv,)."""
        link = next(link for link in self.reference.moving if link["name"] == self._joints[name])
        return self.reference.coordinate(link, q), self.reference.coupling[self.reference.columns[link["name"]].start]

    # Solutions

    def system(self, q: Array, active: Array) -> Array:
        """The matrix of the system (batch, nv + rows, nv + rows). Inactive rows say that the force is 0."""
        on = self.by_rows(active)
        masked = self.jacobian(q) * on[..., None]
        corner = np.zeros((*on.shape, on.shape[-1]))
        index = np.arange(on.shape[-1])
        corner[..., index, index] = np.where(on > 0.0, self.compliance, 1.0)
        upper = np.concatenate([self.reference.mass(q), -transposed(masked)], -1)
        return np.concatenate([upper, np.concatenate([masked, corner], -1)], -2)

    def condition(self, q: Array, active: Array) -> Array:
        """The condition number (batch,) of the system without its inactive rows."""
        matrix, on = self.system(q, active), self.by_rows(active) > 0.0
        kept = [np.concatenate([np.ones(self.reference.nv, bool), row]) for row in on]
        return np.array([np.linalg.cond(m[np.ix_(rows, rows)]) for m, rows in zip(matrix, kept, strict=True)])

    def eliminated(self, q: Array, active: Array) -> Array:
        """The condition number (batch,) of J M⁻¹ Jᵀ + C, its rows scaled to a diagonal of 1."""
        masked = self.jacobian(q) * self.by_rows(active)[..., None]
        matrix = masked @ np.linalg.solve(self.reference.mass(q), transposed(masked))
        index = np.arange(matrix.shape[-1])
        matrix[..., index, index] += np.where(self.by_rows(active) > 0.0, self.compliance, 1.0)
        scale = 1.0 / np.sqrt(matrix[..., index, index])
        return np.linalg.cond(matrix * scale[..., None] * scale[..., None, :])

    def forward(self, q: Array, v: Array, tau: Array, active: Array, pushed: Array | None = None) -> Solution:
        """q̈ and λ."""
        load = tau - self.reference.inverse(q, v, np.zeros_like(v), pushed)
        return self._solved(q, active, load, -self.held(q, v, np.zeros_like(v)))

    def impact(self, q: Array, v: Array, active: Array, restitution: Array) -> Solution:
        """q̇⁺ and the impulses."""
        caught = -times(self.jacobian(q), v) * (1.0 + self.by_rows(restitution))
        change = self._solved(q, active, np.zeros_like(v), caught)
        return change._replace(x=v + change.x)

    def _solved(self, q: Array, active: Array, load: Array, rows: Array) -> Solution:
        right = np.concatenate([load, rows * self.by_rows(active)], -1)
        found = np.linalg.solve(self.system(q, active), right[..., None])[..., 0]
        return Solution(*np.split(found, [self.reference.nv], -1), self.condition(q, active))

    def forward_slopes(self, q: Array, v: Array, tau: Array, active: Array) -> dict[str, Array]:
        """Derivatives of q̈ and λ by q (along velocities), q̇ and τ, by name."""
        at, on, nv = self.forward(q, v, tau, active), self.by_rows(active)[..., None, :], self.reference.nv
        qdd, force, torque = at.x[..., None, :], at.force[..., None, :], tau[..., None, :]

        def left(q: Array, v: Array) -> tuple[Array]:
            pushed = times(transposed(self.jacobian(q)), force)
            first = self.reference.inverse(q, v, qdd + 0.0 * v) - torque - pushed
            return (np.concatenate([first, on * self.held(q, v, qdd + 0.0 * v)], -1),)

        (slopes,) = self.reference.slopes(left, q, v)
        system = self.system(q, active)
        by_tau = np.eye(system.shape[-1])[:, :nv] + np.zeros((len(q), 1, 1))
        moved = np.linalg.solve(system, np.concatenate([-slopes, by_tau], -1))
        parts = zip(("q", "qd", "tau"), np.split(moved, 3, axis=-1), strict=True)
        return {f"d{y}_d{x}": part[..., rows, :] for x, part in parts for y, rows in _outputs(nv, "qdd force")}

    def impact_slopes(self, q: Array, v: Array, active: Array, restitution: Array) -> dict[str, Array]:
        """Derivatives of q̇⁺ and the impulses by q (along velocities) and q̇, by name."""
        at, on, nv = self.impact(q, v, active, restitution), self.by_rows(active)[..., None, :], self.reference.nv
        part = self.by_rows(restitution)[..., None, :]
        after, impulse = at.x[..., None, :], at.force[..., None, :]

        def left(q: Array, v: Array) -> tuple[Array]:
            jacobian = self.jacobian(q)
            first = times(self.reference.mass(q), after - v) - times(transposed(jacobian), impulse)
            return (np.concatenate([first, on * (times(jacobian, after + 0.0 * v) + part * times(jacobian, v))], -1),)

        (slopes,) = self.reference.slopes(left, q, v)
        moved = np.linalg.solve(self.system(q, active), -slopes)
        parts = zip(("q", "qd"), np.split(moved, 2, axis=-1), strict=True)
        return {f"d{y}_d{x}": part[..., rows, :] for x, part in parts for y, rows in _outputs(nv, "qd_after impulse")}


def _outputs(nv: int, names: str) -> list[tuple[str, slice]]:
    return list(zip(names.split(), (slice(0, nv), slice(nv, None)), strict=True))


ROWS = {"point": (0, 3), "fixed": (3, 3), "plane": (0, 1), "hinge": (2, 3), "distance": (0, 1), "joints": (1, 0)}
"""Kind of a constraint -> how many rows hold turning, and how many hold moving."""


def _rows(own: Constraint) -> int:
    return sum(ROWS[own.kind])


def _compliances(own: Constraint) -> list[float]:
    turning, moving = ROWS[own.kind]
    of_turning = own.compliance if own.moment_compliance is None else own.moment_compliance
    return [of_turning] * turning + [own.compliance] * moving
