"""An independent dynamics of a recipe: Kane's equations in plain numpy, in base axes, of complex numbers too.

Nothing of dynagate is imported. Each link adds Jᵀ (forces of inertia) of its center of mass and of its turning; M is
the sum of m JᵀJ and JᵀIJ. Derivatives are complex steps through all of it. Leading axes are the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.fuzz.robots import GRAVITY, SINGLE, Recipe, completed, inertia, rotation, unit

Array = np.ndarray
TINY = 1e-30
"""The complex step."""
TABLEAUS: dict[str, tuple[Sequence[Sequence[float]], Sequence[float]]] = {
    "rk2": (((), (1 / 2,)), (0.0, 1.0)),
    "rk3": (((), (1 / 2,), (-1.0, 2.0)), (1 / 6, 2 / 3, 1 / 6)),
    "rk4": (((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}


def skew(a: Array) -> Array:
    """The matrix of a × over the last axis."""
    zero = np.zeros_like(a[..., 0])
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def times(matrix: Array, vector: Array) -> Array:
    return (matrix @ vector[..., None])[..., 0]


def transposed(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def turn_of(quaternion: Array) -> Array:
    """The rotation matrix of (x, y, z, w)."""
    v, w = quaternion[..., :3], quaternion[..., 3, None, None]
    return (2.0 * w * w - 1.0) * np.eye(3) + 2.0 * v[..., :, None] * v[..., None, :] + 2.0 * w * skew(v)


def product(a: Array, b: Array) -> Array:
    """Of quaternions."""
    u, s, v, t = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    return np.concatenate([s * v + t * u + times(skew(u), v), s * t - np.sum(u * v, -1, keepdims=True)], axis=-1)


def series(squared: Array, first: int) -> Array:
    """Σ (-x²)^k / (2k + first)!: cos x, sin x / x, (1 - cos x) / x² and (x - sin x) / x³ for first = 0 to 3."""
    term, total = np.full_like(squared, 1.0 / math.factorial(first)), np.zeros_like(squared)
    for k in range(1, 60):
        total = total + term
        term = term * -squared / ((2 * k + first) * (2 * k + first - 1))
    return total


class Reference:
    """order: the links with moving joints, by name, in the order of their coordinates in q and v. friction: of the
    joints, as the option `friction`; speed: as `friction_speed`.

    turned: the largest turn of a quaternion so far, rad. cubic: c of a force -c v³ on each coordinate."""

    def __init__(self, recipe: Recipe, order: Sequence[str], friction: bool | float = 0.0, speed: float = 0.01) -> None:
        self.links = completed(recipe)
        self.gravity = np.array(recipe.get("gravity", GRAVITY), float)
        by_name = {link["name"]: link for link in self.links}
        self.moving = [by_name[name] for name in order]
        self.inertias = {link["name"]: inertia(link) for link in self.links}
        self.frames = {link["name"]: rotation(link["turn"]) for link in self.links}
        self.turned = 0.0
        self.cubic = 0.0
        self._place(friction, speed)

    def _place(self, friction: bool | float, speed: float) -> None:
        """Where each joint has its numbers in q, in v and in the velocities of all joints as if none were coupled."""
        self.nq = self.nv = self.free = 0
        self.at: dict[str, tuple[int, int]] = {}
        self.columns: dict[str, slice] = {}
        rows, self.speed = [], speed
        damping, armature, dry = [], [], []
        for link in self.moving:
            size = {"spherical": 3, "floating": 6}.get(link["joint"], 1)
            self.columns[link["name"]] = slice(self.free, self.free + size)
            self.free += size
            if "mimic" not in link:
                self.at[link["name"]] = self.nq, self.nv
                self.nq, self.nv = self.nq + size + (size > 1), self.nv + size
            own = friction if not isinstance(friction, bool) else (link["friction"] if friction else 0.0)
            others = "mimic" in link or link["joint"] == "floating"
            dry += [0.0 if others and not isinstance(friction, bool) else own] * size
            damping += [link["damping"]] * size
            armature += [link["armature"]] * size
        self.damping, self.armature, self.dry = np.array(damping), np.array(armature), np.array(dry)
        for link in self.moving:
            size = self.columns[link["name"]].stop - self.columns[link["name"]].start
            mimic = link.get("mimic")
            row = np.zeros((size, self.nv))
            begin = self.at[mimic["link"] if mimic else link["name"]][1]
            row[:, begin : begin + size] = np.eye(size) * (mimic["multiplier"] if mimic else 1.0)
            rows.append(row)
        self.coupling = np.concatenate(rows)

    def coordinate(self, link: Recipe, q: Array) -> Array:
        """The numbers of a link's joint, (..., size)."""
        mimic = link.get("mimic")
        if mimic:
            return mimic["multiplier"] * q[..., [self.at[mimic["link"]][0]]] + mimic.get("offset", 0.0)
        begin = self.at[link["name"]][0]
        return q[..., begin : begin + {"spherical": 4, "floating": 7}.get(link["joint"], 1)]

    def _joint(self, link: Recipe, q: Array) -> tuple[Array, Array, Array, Array]:
        """Rotation and place of the link on its parent, and its turning and moving by its velocities (3, size), in its
        own axes."""
        frame, at, axis = self.frames[link["name"]], np.array(link["at"], float), unit(link["axis"])[:, None]
        none = np.zeros((3, 1))
        if link["joint"] == "fixed":
            return frame, at, none[:, :0], none[:, :0]
        x = self.coordinate(link, q)
        if link["joint"] == "prismatic":
            return frame, at + x * (frame @ axis)[:, 0], none, axis
        if link["joint"] in SINGLE:
            k = skew(axis[:, 0])
            turn = np.eye(3) + np.sin(x)[..., None] * k + (1.0 - np.cos(x))[..., None] * (k @ k)
            return frame @ turn, at, axis, none
        if link["joint"] == "spherical":
            return frame @ turn_of(x), at, np.eye(3), np.zeros((3, 3))
        both = np.eye(6)
        return frame @ turn_of(x[..., 3:]), at + x[..., :3] @ frame.T, both[3:], both[:3]

    def bodies(self, q: Array, v: Array, a: Array) -> dict[str, dict[str, Array]]:
        """By link: rotation and place in the base; Jacobians of its turning and of its origin (3, free); angular
        velocity; angular acceleration and acceleration of the origin, of links that move."""
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], a.shape[:-1])
        zero, wide = np.zeros((*batch, 3)), np.zeros((*batch, 3, self.free))
        base = {"turn": np.broadcast_to(np.eye(3), (*batch, 3, 3)), "place": zero, "turning": wide, "moving": wide}
        base |= {"w": zero, "dw": zero, "acceleration": zero}
        found: dict[str, dict[str, Array]] = {}
        rates, slopes = v @ self.coupling.T, a @ self.coupling.T
        for link in self.links:
            above = found.get(link.get("parent", ""), base)
            turn, place, turning, moving = self._joint(link, q)
            own = self.columns.get(link["name"], slice(0, 0))
            r = times(above["turn"], np.broadcast_to(place, (*batch, 3)))
            here = above["turn"] @ turn
            s, m = here @ turning, here @ moving
            spin, slide = times(s, rates[..., own]), times(m, rates[..., own])
            w = above["w"] + spin
            jw = above["turning"] + _into(s, own, self.free)
            jo = above["moving"] - skew(r) @ above["turning"] + _into(m, own, self.free)
            moved = times(skew(above["w"]), r) + slide
            dw = above["dw"] + times(s, slopes[..., own]) + times(skew(w), spin)
            acceleration = (
                above["acceleration"]
                + times(skew(above["dw"]), r)
                + times(skew(above["w"]), moved)
                + times(m, slopes[..., own])
                + times(skew(w), slide)
            )
            found[link["name"]] = {
                "turn": here,
                "place": above["place"] + r,
                "turning": jw,
                "moving": jo,
                "w": w,
                "dw": dw,
                "acceleration": acceleration,
            }
        return found

    def moves(self, link: Recipe) -> bool:
        """Whether the link is not bolted to the base."""
        above = [each for each in self.links if each["name"] == link.get("parent")]
        return link["joint"] != "fixed" or any(self.moves(each) for each in above)

    def inverse(self, q: Array, v: Array, a: Array, pushed: Array | None = None) -> Array:
        """τ (..., nv). pushed: (..., moving links, 6), [moment; force] at link origins in link axes."""
        found = self.bodies(q, v, a)
        total: Any = 0.0
        for link in self.links:
            body = found[link["name"]]
            c = times(body["turn"], np.array(link["com"], float))
            w, dw = body["w"], body["dw"]
            felt = body["acceleration"] + times(skew(dw), c) + times(skew(w), times(skew(w), c)) - self.gravity
            turned = body["turn"] @ self.inertias[link["name"]] @ transposed(body["turn"])
            moment = times(turned, dw) + times(skew(w), times(turned, w))
            columns = body["moving"] - skew(c) @ body["turning"]
            total = total + times(transposed(columns), link["mass"] * felt) + times(transposed(body["turning"]), moment)
        if pushed is not None:
            for k, link in enumerate(self.moving):
                body = found[link["name"]]
                moment, force = (times(body["turn"], pushed[..., k, part]) for part in (slice(0, 3), slice(3, 6)))
                total = total - times(transposed(body["turning"]), moment) - times(transposed(body["moving"]), force)
        rates, slopes = v @ self.coupling.T, a @ self.coupling.T
        lost = self.dry * rates / np.sqrt(rates * rates + self.speed**2)
        return (total + self.armature * slopes + self.damping * rates + lost) @ self.coupling

    def inverse_by_parameters(self, name: str, q: Array, v: Array, a: Array) -> Array:
        """∂τ/∂p (..., nv, 10) by the numbers of a link: [m, m c, I about the origin xx xy yy xz yz zz], in its axes."""
        body, columns = self.bodies(q, v, a)[name], []
        spin = skew(body["dw"]) + skew(body["w"]) @ skew(body["w"])
        felt = body["acceleration"] - self.gravity
        for number in np.eye(10):
            first = times(body["turn"], number[1:4] + np.zeros_like(felt))
            own = np.zeros((3, 3))
            own[np.tril_indices(3)] = number[4:]
            own = body["turn"] @ (own + np.tril(own, -1).T) @ transposed(body["turn"])
            force = number[0] * felt + times(spin, first)
            moment = times(skew(first), felt) + times(own, body["dw"]) + times(skew(body["w"]), times(own, body["w"]))
            columns.append(times(transposed(body["moving"]), force) + times(transposed(body["turning"]), moment))
        return transposed(self.coupling) @ np.stack(columns, axis=-1)

    def mass(self, q: Array) -> Array:
        """M (..., nv, nv)."""
        zero = np.zeros((*q.shape[:-1], self.nv))
        found = self.bodies(q, zero, zero)
        total: Any = np.diag(self.armature)
        for link in self.links:
            body = found[link["name"]]
            turned = body["turn"] @ self.inertias[link["name"]] @ transposed(body["turn"])
            columns = body["moving"] - skew(times(body["turn"], np.array(link["com"], float))) @ body["turning"]
            total = total + link["mass"] * transposed(columns) @ columns
            total = total + transposed(body["turning"]) @ turned @ body["turning"]
        return self.coupling.T @ total @ self.coupling

    def forward(self, q: Array, v: Array, tau: Array, pushed: Array | None = None) -> Array:
        """q̈ (..., nv)."""
        bias = self.inverse(q, v, np.zeros(self.nv), pushed)
        return np.linalg.solve(self.mass(q), (tau - self.cubic * v**3 - bias)[..., None])[..., 0]

    def move(self, q: Array, u: Array) -> Array:
        """q followed along the velocity u for a second."""
        batch = np.broadcast_shapes(q.shape[:-1], u.shape[:-1])
        result = np.array(np.broadcast_to(q, (*batch, self.nq)), np.result_type(q, u, float))
        for link in self.moving:
            if "mimic" in link:
                continue
            iq, iv = self.at[link["name"]]
            if link["joint"] in SINGLE:
                result[..., iq] += u[..., iv]
                continue
            if link["joint"] == "floating":
                w = u[..., iv + 3 : iv + 6]
                squared, k = np.sum(w * w, -1)[..., None, None], skew(w)
                screw = np.eye(3) + series(squared, 2) * k + series(squared, 3) * (k @ k)
                step = times(turn_of(q[..., iq + 3 : iq + 7]), times(screw, u[..., iv : iv + 3]))
                result[..., iq : iq + 3] = q[..., iq : iq + 3] + step
                iq, iv = iq + 3, iv + 3
            w = u[..., iv : iv + 3]
            self.turned = max(self.turned, float(np.linalg.norm(w.real, axis=-1).max(initial=0.0)))
            quarter = np.sum(w * w, -1, keepdims=True) / 4.0
            half = np.concatenate([w * series(quarter, 1) / 2.0, series(quarter, 0)], axis=-1)
            result[..., iq : iq + 4] = product(q[..., iq : iq + 4], half)
        return result

    def along(self, q: Array, slopes: Array) -> Array:
        """The velocity (..., nv) with which q moves whose numbers have these slopes."""
        result = np.zeros((*slopes.shape[:-1], self.nv))
        for link in self.moving:
            if "mimic" in link:
                continue
            iq, iv = self.at[link["name"]]
            if link["joint"] in SINGLE:
                result[..., iv] = slopes[..., iq]
                continue
            if link["joint"] == "floating":
                turn = turn_of(q[..., iq + 3 : iq + 7])
                result[..., iv : iv + 3] = times(transposed(turn), slopes[..., iq : iq + 3])
                iq, iv = iq + 3, iv + 3
            inverse = q[..., iq : iq + 4] * np.array([-1.0, -1.0, -1.0, 1.0])
            result[..., iv : iv + 3] = 2.0 * product(inverse, slopes[..., iq : iq + 4])[..., :3]
        return result

    def neutral(self) -> Array:
        q = np.zeros(self.nq)
        for link in self.moving:
            if "mimic" not in link and link["joint"] not in SINGLE:
                q[self.at[link["name"]][0] + {"spherical": 3, "floating": 6}[link["joint"]]] = 1.0
        return q

    def bracket(self, u: Array, v: Array) -> Array:
        """[u, v] of the joints' groups."""
        result = np.zeros(np.broadcast_shapes(u.shape, v.shape), np.result_type(u, v))
        for link in self.moving:
            if "mimic" in link or link["joint"] in SINGLE:
                continue
            i = self.at[link["name"]][1]
            if link["joint"] == "floating":
                move, turn = slice(i, i + 3), slice(i + 3, i + 6)
                result[..., move] = times(skew(u[..., turn]), v[..., move]) - times(skew(v[..., turn]), u[..., move])
                i += 3
            turn = slice(i, i + 3)
            result[..., turn] = times(skew(u[..., turn]), v[..., turn])
        return result

    def step(
        self,
        q: Array,
        v: Array,
        tau: Array,
        dt: float,
        integrator: str,
        stops: bool = False,
        pushed: Array | None = None,
    ) -> tuple[Array, Array]:
        """q and v after dt seconds, in which tau and pushed stay as they are. Runge-Kutta on the group, by Munthe-Kaas
        with two brackets."""
        if integrator in ("euler", "semi_implicit_euler"):
            return self._first_order(q, v, tau, dt, integrator, stops, pushed)
        nodes, weights = TABLEAUS[integrator]
        rates: list[Array] = []
        slopes: list[Array] = []
        for row in nodes:
            u, w = 0.0 * v, v
            for weight, rate, slope in zip(row, rates, slopes, strict=True):
                u, w = u + dt * weight * rate, w + dt * weight * slope
            first = self.bracket(u, w)
            rates.append(w + first / 2.0 + self.bracket(u, first) / 12.0)
            slopes.append(self.forward(self.move(q, u), w, tau, pushed))
        moved = self.move(q, dt * sum(w * x for w, x in zip(weights, rates, strict=True)))
        fast = v + dt * sum(w * x for w, x in zip(weights, slopes, strict=True))
        return self._stopped(moved, fast) if stops else (moved, fast)

    def _first_order(
        self, q: Array, v: Array, tau: Array, dt: float, integrator: str, stops: bool, pushed: Array | None
    ) -> tuple[Array, Array]:
        """Euler's steps. Floating joints move by their momentum along the axes before the step."""
        rates = self.forward(q, v, tau, pushed)
        fast = v + dt * rates
        moved = self.move(q, (v if integrator == "euler" else fast) * dt)
        for link in self.moving:
            if link["joint"] == "floating":
                self._fly(link, q, v, rates, dt, moved, fast, explicit=integrator == "euler")
        return self._stopped(moved, fast) if stops else (moved, fast)

    def pushed_step(
        self, q: Array, v: Array, tau: Array, dt: float, push: Array, lift: Array
    ) -> tuple[Array, Array, Array]:
        """Return q and v after a semi-implicit step with impulses, and the velocity along the axes before the step.

        push: (..., nv), N s or N m s, generalized impulses. lift: the same, of impulses that move the robot and stay
        out of its velocity.
        """
        both = np.linalg.solve(self.mass(q), np.stack([push, lift], axis=-1))
        rates, lifted = self.forward(q, v, tau) + both[..., 0] / dt, both[..., 1]
        held = v + dt * rates
        moved, fast = self.move(q, (held + lifted) * dt), held.copy()
        for link in self.moving:
            if link["joint"] == "floating":
                at = slice(self.at[link["name"]][1], self.at[link["name"]][1] + 6)
                held[..., at] = self._fly(link, q, v, rates, dt, moved, fast, lifted=lifted[..., at])
        return moved, fast, held

    def _fly(
        self,
        link: Recipe,
        q: Array,
        v: Array,
        rates: Array,
        dt: float,
        moved: Array,
        fast: Array,
        explicit: bool = False,
        lifted: Array | None = None,
    ) -> Array:
        """Write q and v of a floating joint after a step to `moved` and `fast`. Return the velocity (..., 6) that moves
        the joint, along the axes before the step, without `lifted`, which is added to it."""
        iq, iv = self.at[link["name"]]
        place, at = slice(iq, iq + 3), slice(iv, iv + 6)
        speed, w, a, dw = (x[..., i : i + 3] for x in (v, rates) for i in (iv, iv + 3))
        c, turning = np.zeros(3), None
        if self._alone(link):
            block = self.mass(q)[..., at, at] - np.diag(self.armature[self.columns[link["name"]]])
            mass = block[..., :1, 0]
            c = np.stack([block[..., 5, 1], block[..., 3, 2], block[..., 4, 0]], axis=-1) / mass
            turning = block[..., 3:, 3:] + mass[..., None] * skew(c) @ skew(c)
        center = speed + times(skew(w), c)
        pushed = center + dt * (a + times(skew(w), speed) + times(skew(dw), c) + times(skew(w), times(skew(w), c)))
        middle, after = w + dt * dw, w + dt * dw
        if turning is not None:
            gyration = times(skew(w), times(turning, w))
            momentum = times(turning, after) + dt * gyration
            middle = middle + 0.5 * dt * np.linalg.solve(turning, gyration[..., None])[..., 0]
        line, turn = (center, w) if explicit else (pushed, middle)
        held = np.concatenate([line - times(skew(turn), c), turn], axis=-1)
        if lifted is not None:
            line, turn = line + lifted[..., :3] + times(skew(lifted[..., 3:]), c), turn + lifted[..., 3:]
        turn = dt * turn
        squared, k = np.sum(turn * turn, -1)[..., None, None], skew(turn)
        by = np.eye(3) + series(squared, 1) * k + series(squared, 2) * (k @ k)
        base = turn_of(q[..., iq + 3 : iq + 7])
        moved[..., place] = q[..., place] + times(base, c + dt * line - times(by, c))
        half = np.concatenate([series(squared[..., 0] / 4, 1) * turn / 2, series(squared[..., 0] / 4, 0)], axis=-1)
        moved[..., iq + 3 : iq + 7] = product(q[..., iq + 3 : iq + 7], half)
        if turning is not None:
            after = np.linalg.solve(turning, times(transposed(by), momentum)[..., None])[..., 0]
        fast[..., iv : iv + 3] = times(transposed(by), pushed) - times(skew(after), c)
        fast[..., iv + 3 : iv + 6] = after
        return held

    def _alone(self, link: Recipe) -> bool:
        """Whether a link hangs on the base and carries no link that moves against it."""
        parents = {each["name"]: each.get("parent") for each in self.links}

        def above(name: str | None) -> bool:
            return name is not None and (name == link["name"] or above(parents.get(name)))

        by_name = {each["name"]: each for each in self.links}
        parent = by_name.get(link.get("parent", ""))
        others = (each for each in self.moving if each is not link)
        return not (parent and self.moves(parent)) and not any(above(each["name"]) for each in others)

    def _stopped(self, q: Array, v: Array) -> tuple[Array, Array]:
        q, v = q.copy(), v.copy()
        for name, (iq, iv) in self.at.items():
            low, high = self.reach(name)
            for limit, sign in ((low, -1.0), (high, 1.0)):
                beyond = (q[..., iq].real - limit) * sign > 0.0
                q[..., iq], v[..., iv] = np.where(beyond, limit, q[..., iq]), np.where(beyond, 0.0, v[..., iv])
        return q, v

    def reach(self, name: str) -> tuple[float, float]:
        """Where a joint ends, or one that mimics it; infinite where none does."""
        low, high = -math.inf, math.inf
        for link in self.moving:
            mimic = link.get("mimic", {"link": link["name"], "multiplier": 1.0})
            if mimic["link"] == name and link["joint"] in ("revolute", "prismatic"):
                ends = [(link[end] - mimic.get("offset", 0.0)) / mimic["multiplier"] for end in ("lower", "upper")]
                low, high = max(low, min(ends)), min(high, max(ends))
        return low, high

    def slopes(self, function: Callable[..., Sequence[Array]], *at: Array) -> list[Array]:
        """Derivatives of a function's results by all of q (along velocities), v, ..., side by side: (..., size,
        columns) each. at: q (..., nq) and vectors (..., nv)."""
        columns = len(at) * self.nv
        ways = 1j * TINY * np.eye(columns).reshape(columns, len(at), self.nv)
        q = self.move(at[0][..., None, :], ways[:, 0])
        others = [x[..., None, :] + ways[:, k + 1] for k, x in enumerate(at[1:])]
        return [np.swapaxes(result.imag / TINY, -1, -2) for result in function(q, *others)]

    def linear(
        self, q: Array, v: Array, tau: Array, dt: float, integrator: str, stops: bool = False
    ) -> tuple[Array, Array]:
        """∂x⁺/∂x (..., 2 nv, 2 nv) and ∂x⁺/∂τ (..., 2 nv, nv) of a step."""
        moved, _ = self.step(q, v, tau, dt, integrator, stops)
        by_q, by_v = self.slopes(lambda q, v, tau: self.step(q, v, tau, dt, integrator, stops), q, v, tau)
        along = np.swapaxes(self.along(moved[..., None, :], np.swapaxes(by_q, -1, -2)), -1, -2)
        whole = np.concatenate([along, by_v], axis=-2)
        return whole[..., : 2 * self.nv], whole[..., 2 * self.nv :]


def _into(columns: Array, place: slice, width: int) -> Array:
    result = np.zeros((*columns.shape[:-1], width), columns.dtype)
    result[..., place] = columns
    return result
