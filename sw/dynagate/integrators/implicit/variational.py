"""A step of the variational integrator as functions that trace into graphs, over any scalar.

They are DRNEA in increment form and RIQN's update. `START` runs once a step, and `ITERATION` until the residual is
within the tolerance. If another search finds the update, only `RESIDUAL` runs. Momenta and residuals are multiplied by
dt, see `variational_body`. `share` is the part of a step's impulses that act at its start: 1, and one half in the first
step (the discrete Legendre transform). A joint or a link may rotate by `WIDEST_TURN` in a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dynagate.base.naming import label, scope
from dynagate.dynamics import Argument, FunctionRow, Tree
from dynagate.dynamics.configuration import advance
from dynagate.dynamics.factor import Factor, factorize, solve
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.forward_dynamics import forward_dynamics
from dynagate.dynamics.spatial import (
    Array,
    Scalar,
    SpatialForce,
    array,
    cos,
    cross,
    inertia_from_second_moment,
    select,
    sin,
    zeros,
)
from dynagate.dynamics.transforms import JointTransform
from dynagate.integrators.implicit.root_finders import converged
from dynagate.integrators.implicit.variational_body import (
    ANGLE,
    B_SLOPE,
    HALF_COSINE,
    HALF_SINE,
    WIDEST,
    B,
    combined,
    displaced,
    exponential,
    impulse,
    momenta,
    polynomial,
    turned_about_z,
    twist,
)

EXTRAPOLATION = (4.0, -6.0, 4.0, -1.0)
"""A cubic through the increments of the last four steps, the latest first, one step on: a guess (IG4) that takes no
dynamics."""

EXTRAPOLATED = 4
"""The number of this guess, after the paper's three."""

Rows = Array
"""(links, 6) scalars: forces or momenta [angular; linear] of the links in their own frames."""


def start(
    tree: Tree,
    q: Sequence[Scalar],
    last: Sequence[Scalar],
    second: Sequence[Scalar],
    third: Sequence[Scalar],
    fourth: Sequence[Scalar],
    momentum: Rows,
    tau: Sequence[Scalar],
    dt: Scalar,
    share: Scalar,
    *,
    guess: int,
    resisting: Array | None = None,
) -> tuple[Any, ...]:
    """Return the initial values of a step's iterations.

    Args:
        tree: The tree of links.
        q: Configuration (nq,).
        last: Increments of the last step, (nv,).
        second: Increments of the step before `last`.
        third: Increments of the step before `second`.
        fourth: Increments of the step before `third`.
        momentum: Momenta of the links, (links, 6).
        tau: Torques (nv,).
        dt: Time step in s.
        share: Part of a step's impulses that act at its start.
        guess: Number of the initial guess.
        resisting: Matrix (nv, nv) that velocity-dependent forces add to M.

    Returns:
        The initial guess of the increment, load (links, 6) and impulse (nv,) as in `prepare`; the factor (nv, nv) of M
        plus half a step of damping, with L below the diagonal and 1 / D on it; cosine and sine of each joint, (nv, 2).
    """
    slope = mass_matrix(tree, q)
    for d, damping in enumerate(tree.damping):
        slope[d, d] = slope[d, d] + (0.5 * damping) * dt
    factor = factorize(tree, slope if resisting is None else slope + resisting)
    packed = factor.lower.copy()
    for d, inverse in enumerate(factor.inverse_d):
        packed[d, d] = inverse
    load, impulse_of_joints = prepare(tree.unreduced, q, last, momentum, tau, dt, share)
    past = (last, second, third, fourth)
    increment = _guesses(tree, guess, q, past, tau, dt)
    return increment, load, impulse_of_joints, packed, turns(tree, q)


def turns(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return cosine and sine of each joint's angle, (nv, 2); (1, 0) for a joint without an angle."""
    result = array([(1.0, 0.0)] * tree.nv)
    for link, part, own in zip(tree.each_link, tree.dofs, tree.configurations(q), strict=True):
        if _turns(link):
            result[part.start] = cos(own[0]), sin(own[0])
    return result


def _guesses(tree: Tree, guess: int, q: Any, past: Sequence[Any], tau: Any, dt: Scalar) -> list[Scalar]:
    """Return the initial guess IG1, IG2 or IG3 of §3.3, or an extrapolation of the last increments."""
    last = past[0]
    if guess == 1:
        return [0.0 * x for x in last]
    if guess == 2:
        return list(last)
    if guess == EXTRAPOLATED:
        return [sum(c * x for c, x in zip(EXTRAPOLATION, row, strict=True)) for row in zip(*past, strict=True)]
    rate = 1.0 / dt
    qdd = forward_dynamics(tree, q, [rate * x for x in last], tau)
    return [x + dt * (dt * a) for x, a in zip(last, qdd, strict=True)]


def prepare(
    tree: Tree,
    q: Sequence[Scalar],
    last: Sequence[Scalar],
    momentum: Rows,
    tau: Sequence[Scalar],
    dt: Scalar,
    share: Scalar,
) -> tuple[Rows, list[Scalar]]:
    """Return load and impulse, which are constant while the increment is sought."""
    reach = share * (dt * dt)
    load = zeros(len(tree.links), 6)

    def falling(link: TreeLink, above: Array | None, joint: JointTransform) -> tuple[Array, None]:
        fall = joint.to_link(-link.base_acceleration if above is None else above)
        i, inertia = link.number, link.inertia
        force = SpatialForce(cross(inertia.first, fall), fall * inertia.mass)
        load[i, :3] = momentum[i, :3] + force.angular * reach
        load[i, 3:] = momentum[i, 3:] + force.linear * reach
        return fall, None

    tree.down("prepare", falling, tree.transforms(q))
    joint_impulse = []
    for d in range(tree.nv):
        rotor = tree.armature[d] * last[d] - tree.damping[d] * ((share - 0.5) * (dt * last[d]))
        joint_impulse.append(reach * tau[d] + rotor)
    return load, joint_impulse


def residual(
    tree: Tree,
    q: Sequence[Scalar],
    cosines: Array,
    increment: Sequence[Scalar],
    load: Rows,
    impulse_of_joints: Sequence[Scalar],
    dt: Scalar,
) -> tuple[list[Scalar], Rows, Scalar]:
    """Return the residual of a step.

    Returns:
        dt times the residual impulse (nv,); the momentum (links, 6) for the next step; and the sum over links and
        joints of (|e|² / WIDEST)⁸, where |e| is the sine of half the rotation. The sum is above 1 if a rotation is too
        large. A maximum would take as much time as a fifth of the residual.
    """
    tree = tree.unreduced
    joints = _transforms(tree, q, cosines)
    brought, momentum, widest = _momenta(tree, joints, increment)
    force: list[SpatialForce] = []
    for i, left in enumerate(brought):
        with scope("drnea", f"link{i}"):
            force.append(SpatialForce(left.angular - load[i, :3], left.linear - load[i, 3:]))

    def balance(
        link: TreeLink, total: SpatialForce, joint: JointTransform, own: Sequence[Scalar]
    ) -> tuple[SpatialForce, list[Scalar]]:
        f = []
        for d, (k, x) in enumerate(zip(tree.dofs[link.number], own, strict=True)):
            rotor = link.armature[d] * x + (0.5 * link.damping[d]) * (dt * x)
            f.append(label(link.along(d, total) + rotor - impulse_of_joints[k], "f"))
        return joint.force_to_parent(total), f

    return tree.vector(tree.up("drnea", balance, joints, tree.velocities(increment), own=force)), momentum, widest


def _momenta(
    tree: Tree, joints: Sequence[JointTransform], increment: Sequence[Scalar]
) -> tuple[list[SpatialForce], Rows, Scalar]:
    """Return the momenta of all links at the start of the step and at its end, (links, 6), and the measure of
    rotation.
    """
    end = zeros(len(tree.links), 6)

    def moving(link: TreeLink, above: Any, joint: JointTransform, own: Sequence[Scalar]) -> tuple[Any, Any]:
        e, _, shift = moved = _displacement(link, joint, own, above or ((0.0, 0.0, 0.0), 1.0, (0.0, 0.0, 0.0)))
        y = e[0] * e[0] + e[1] * e[1] + e[2] * e[2]
        turned = [_eighth_power(y * (1.0 / WIDEST))]
        turns = [x * x for x, direction in zip(own, link.directions, strict=True) if direction < 3]
        if turns:
            turned.append(_eighth_power(sum(turns[1:], turns[0]) * (0.25 / WIDEST)))
        angle = polynomial(ANGLE, y)
        square = y * (angle * angle)
        rotation, v = twist(e, shift, angle, polynomial(B, square))
        inertia = link.inertia
        inertia_about = tuple(inertia_from_second_moment(inertia.second).ravel())
        moment, push = impulse(inertia.mass, tuple(inertia.first), inertia_about, rotation, v)
        left_moment, left_push, right_moment, right_push = momenta(
            rotation, v, polynomial(B, square), polynomial(B_SLOPE, square), moment, push
        )
        end[link.number] = label(array([*right_moment, *right_push]), "momentum")
        return moved, (SpatialForce(array(left_moment), array(left_push)), turned)

    begin, turned = zip(*tree.down("drnea", moving, joints, tree.velocities(increment)), strict=True)
    return list(begin), end, sum(x for own in turned for x in own)


def momenta_of_past(tree: Tree, q: Sequence[Scalar], cosines: Array, last: Sequence[Scalar]) -> Rows:
    """Return the momenta (links, 6) at the end of the step that led to q by the increments `last`.

    They are the negative momenta at the start of the reverse step, since the discrete Lagrangian is symmetric.
    """
    tree = tree.unreduced
    back, _, _ = _momenta(tree, _transforms(tree, q, cosines), [-x for x in last])
    return array([[*-momentum.angular, *-momentum.linear] for momentum in back])


def _turns(link: TreeLink) -> bool:
    return link.directions == (2,)


def _transforms(tree: Tree, q: Any, cosines: Array) -> list[JointTransform]:
    """Return `Tree.transforms` for known cosines and sines."""
    return [
        link.pose(cosines[part.start] if _turns(link) else link.turn(own))
        for link, part, own in zip(tree.each_link, tree.dofs, tree.configurations(q), strict=True)
    ]


def _displacement(link: TreeLink, joint: JointTransform, own: Sequence[Scalar], above: Any) -> tuple[Any, Scalar, Any]:
    """Return the quaternion (e, w) of ΔR and Δp of a link from those of its parent (Eq. 19) and its joint's
    increment.
    """
    e, w, shift = above
    at = joint.translation
    if link.directions == (5,):
        slide = joint.to_parent(array([0.0, 0.0, own[0]]))
        shift = array(shift) + array(displaced(tuple(at + slide), e, w)) + slide
        return tuple(joint.to_link(array(e))), w, tuple(joint.to_link(shift))
    carried = tuple(joint.to_link(array(shift) + array(displaced(tuple(at), e, w))))
    e = tuple(joint.to_link(array(e)))
    if _turns(link):
        square = own[0] * own[0]
        half_sine = own[0] * polynomial(HALF_SINE, square)
        return (*turned_about_z(e, w, half_sine, polynomial(HALF_COSINE, square)), carried)
    motion = link.motion(own)
    return combined((e, w, carried), exponential(tuple(motion.angular), tuple(motion.linear)))


def _eighth_power(x: Scalar) -> Scalar:
    square = x * x
    fourth = square * square
    return fourth * fourth


def iteration(
    tree: Tree,
    q: Sequence[Scalar],
    cosines: Array,
    increment: Sequence[Scalar],
    load: Rows,
    impulse_of_joints: Sequence[Scalar],
    factor: Array,
    dt: Scalar,
    limit: Scalar,
    *,
    within: float | None = None,
) -> tuple[Any, ...]:
    """Compute one iteration of RIQN (Algorithm 3).

    Args:
        tree: The tree of links.
        q: Configuration (nq,).
        cosines: Cosine and sine of each joint, (nv, 2).
        increment: Increments (nv,).
        load: As in `prepare`, (links, 6).
        impulse_of_joints: As in `prepare`, (nv,).
        factor: Factor of M, (nv, nv).
        dt: Time step in s.
        limit: Squared limit of the residual, times dt².
        within: Bound of an entry of the residual, at least twice the root of the limit. With short words, squares
            of large entries would leave no bits for small ones.

    Returns:
        The next increment (nv,), which stays if the residual is within the limit; the squared norm of the residual
        relative to the limit; the momentum; and the measure of rotation of `residual`.
    """
    f, momentum, widest = residual(tree, q, cosines, increment, load, impulse_of_joints, dt)
    squared: Scalar = 0.0
    for x in f if within is None else [_clipped(x, within) for x in f]:
        squared = squared + x * x
    update = solve(tree, Factor(factor, [factor[d, d] for d in range(tree.nv)]), f)
    excess = squared * (1.0 / limit)
    active = select(excess - 1.0, 1.0, 0.0)
    following = [x - active * u for x, u in zip(increment, update, strict=True)]
    return following, excess, momentum, widest


def _clipped(x: Scalar, most: float) -> Scalar:
    return select(x - most, most, select(-most - x, -most, x))


def finish(
    tree: Tree,
    q: Sequence[Scalar],
    last: Sequence[Scalar],
    second: Sequence[Scalar],
    third: Sequence[Scalar],
    following: Sequence[Scalar],
    brought: Rows,
    excess: Scalar,
    turned: Scalar,
) -> tuple[Any, ...]:
    """Return the initial values of the next step, and whether this step converged (1 or 0).

    The values are q, the last four increments, the momentum and the share of impulses. If the step did not converge,
    the trajectory stays at its last state. excess: the squared norm of the residual relative to the limit.
    """
    good = select(turned - 1.0, 0.0, converged(excess))

    def if_good(values: Any) -> Array:
        flat = [select(good, x, 0.0) for x in np.ravel(values)]
        return array(flat).reshape(np.shape(values))

    increment = if_good(following)
    moved = advance(tree.robot, array(list(q)), increment)
    return moved, increment, if_good(last), if_good(second), if_good(third), if_good(brought), 1.0, good


Q, DT = Argument("q", "configuration"), Argument("dt", "scalar")
INCREMENT, NEXT = Argument("increment", "tangent"), Argument("next", "tangent", like="increment")
MOMENTUM, LOAD = (Argument(name, "wrenches", like="f_ext") for name in ("momentum", "load"))
IMPULSE, FACTOR = Argument("impulse", "cotangent", like="tau"), Argument("factor", "linear", like="minv")
TURNED, EXCESS = Argument("turned", "scalar"), Argument("excess", "scalar")
INCREMENTS = tuple(Argument(name, "tangent", like="increment") for name in ("last", "second", "third", "fourth"))
TURN = Argument("turn", "cosines")

START = FunctionRow(
    "variational_start",
    (Q, *INCREMENTS, MOMENTUM, Argument("tau", "cotangent"), DT, Argument("share", "scalar")),
    (INCREMENT, LOAD, IMPULSE, FACTOR, TURN),
    {f"guess_{k}": partial(start, guess=k) for k in (3, 1, 2, 4)},
    {},
)
RESIDUAL = FunctionRow(
    "variational_residual",
    (Q, TURN, INCREMENT, LOAD, IMPULSE, DT),
    (Argument("residual", "cotangent"), MOMENTUM, TURNED),
    {"increment": residual},
    {},
)
ITERATION = FunctionRow(
    "variational_iteration",
    (Q, TURN, INCREMENT, LOAD, IMPULSE, FACTOR, DT, Argument("limit", "scalar")),
    (NEXT, EXCESS, MOMENTUM, TURNED),
    {"riqn": iteration},
    {},
)
CARRIED = {
    "q_next": "q",
    **{f"{argument.name}_next": argument.name for argument in (*INCREMENTS, MOMENTUM)},
    "share_next": "share",
}
"""Output of `FINISH` -> the input of `START` that it is in the next step."""

FINISH = FunctionRow(
    "variational_finish",
    (Q, *INCREMENTS[:3], NEXT, Argument("brought", "wrenches", like="f_ext"), EXCESS, TURNED),
    (
        *(
            Argument(name, {"q": "configuration", "momentum": "wrenches", "share": "scalar"}.get(of, "tangent"))
            for name, of in CARRIED.items()
        ),
        Argument("good", "scalar"),
    ),
    {"stop": finish},
    {},
)
