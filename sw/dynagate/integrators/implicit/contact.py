"""A step of a robot whose points meet rigid ground: forces that only press, and a round cone of dry friction.

Newton-Euler steps of velocities after Stewart & Trinkle (1996), semi-implicit. With the free velocity f, the points'
Jacobian J in axes of their planes (normal, tangent, tangent), W = J M⁻¹ Jᵀ + c and the impulses r,

    v = f + M⁻¹ Jᵀ r,    u = W r + b,    0 ≤ u_n ⟂ r_n ≥ 0,    |r_t| ≤ μ r_n, against u_t,

where b is the free velocity of the points, and in normal direction more by gap / dt of a point above its plane, so that
it arrives and does not pass. The conditions are r = P(r - u / ρ) with the projection P on half-line and disc, as in
`friction_cone`; sweeps of Gauss and Seidel over the points find r, each by the solution of its own conditions
(`contact_pair_solution`).

Restitution e is Newton's law on the normal velocity. A point that would touch in this step, and whose normal velocity
before the step is -c with c above a threshold, leaves with a velocity of e c: b is less by e c, and the gap does not
count.

A point below its plane is lifted without speed. Impulses s along the normals move the robot in this step, and stay out
of its velocity:

    m = v + M⁻¹ J_nᵀ s,    l = W_nn s + u_n - CORRECTED depth / dt,    0 ≤ l ⟂ s ≥ 0.

The robot moves by m dt, and its velocity after the step is v; `dynamics.steps.momentum` has both along the axes before
the step. The same sweeps find s.

A step is a graph that begins it, a loop of sweeps that ends for each sample by itself, and a graph that ends it, so
that it runs on every backend of `graph.loop.Loop`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynagate.base.arguments import is_number
from dynagate.base.naming import scope
from dynagate.dynamics.constraints.delassus import Delassus
from dynagate.dynamics.constraints.dynamics import ConstraintFactors, forward_dynamics
from dynagate.dynamics.factor import factorize, inwards, outwards
from dynagate.dynamics.parameters import Overrides
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.invertible import check_invertible
from dynagate.dynamics.recursions.poses import poses
from dynagate.dynamics.recursions.rnea import inverse_dynamics
from dynagate.dynamics.spatial import Array, Scalar, absolute, array, is_zero, largest, select, sqrt, symmetric, zeros
from dynagate.dynamics.steps.momentum import along_new_axes, displaced, rate_along_held_axes
from dynagate.dynamics.tree import Tree, tree_of
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import parameter_inputs, typical_sizes
from dynagate.integrators.adjoint import RESIDUAL, StepEquations
from dynagate.integrators.implicit.contact_pair_solution import block_inverses, pair_solution
from dynagate.integrators.implicit.contact_pairs import contact_rows, links_of
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.implicit.root_finders import sweeps
from dynagate.integrators.step import StepRecording, step_inputs
from dynagate.robot import Robot
from dynagate.robot.variable import GROUND_FRICTION

CORRECTED = 0.2
"""Share of a depth that a step recovers."""

FASTEST = 16.0
"""m/s: in integers, a gap larger than a step at this speed counts as that large, so that no bits go to far points."""

LEAST_STEEPNESS = 2.0**-6
"""In integers, the part of 1 / mass that ρ has at least: impulses stay small where a point cannot move."""

IMPULSE, LIFT = "impulse", "lift"
"""The fields of `Trajectories` that have the impulses r, and s."""


def contact_loop(
    robot: Robot, contact: RigidContact, options: StepOptions, *, every: int = 1, integers: bool = False
) -> Loop:
    """Return the loop of a rollout with contact.

    It takes q (nq,), qd (nv,), r (3 pairs,), the impulses in the step before in N s, and tau (nv,) of each step, N m or
    N, with the inputs of forces (nv,). The robot's variable parameters are inputs too. It keeps, of every this many
    steps, q_next, qd_next, swept, the impulses r, lifted (pairs,), the impulses s, counted, the sweeps of the step, and
    failed (), the number of steps until then that have not converged.

    The impulses of a pair are normal and tangents (`axes_of`), point after point, of a point plane after plane. A step
    has converged if its last sweep has moved no point by more than the tolerance, however many sweeps it took.

    Args:
        robot: the robot.
        contact: points, planes and their law.
        options: the step. Its forces act at the state before the step, and stops after it. Constraints hold in the
            velocities that contacts change too.
        every: the number of steps from one kept state to the next.
        integers: whether values stay small enough for integers, see FASTEST and LEAST_STEEPNESS.

    Raises:
        RobotError: M has no inverse.
        ContactError: a point is on no link of the robot.
        ForceError: a force has no meaning for the robot.
    """
    check_invertible(Tree(options.in_step(robot)))
    links = links_of(robot, contact)
    return Loop(
        f"contact{f'_every_{every}' if every > 1 else ''}",
        robot.name,
        (
            _begin(robot, contact, links, options, integers),
            sweeps(_sweep(robot, contact, integers), contact.tolerance, contact.sweeps),
            _end(robot, contact, options),
        ),
        {"q_next": "q", "qd_next": "qd", "swept": "r", "failed_next": "failed"},
        Count(),
        per_iteration=("tau", *step_inputs(robot, options)),
        kept=("q_next", "qd_next", "swept", "lifted", "counted", "failed_next"),
        every=every,
    )


class _Meeting(NamedTuple):
    """The points of a robot at a state, and what a step solves for them.

    free: (nv,) velocity without impulses, along the axes before the step. answer: (3 pairs, nv), M⁻¹ Jᵀ as rows.
    w: (3 pairs, 3 pairs), W. b: (3 pairs,) velocity of the points without impulses, with what they may close of a gap.
    recovery: (pairs,) m/s: minus the normal velocity that a step takes of a depth, and more by the velocity with which
    a pair bounces.
    """

    free: Array
    answer: Array
    w: Array
    b: Array
    recovery: Array


def _meeting(
    step: StepRecording,
    contact: RigidContact,
    links: dict[str, int],
    *,
    margin: Scalar = 0.0,
    largest: float | None = None,
) -> _Meeting:
    """Record a state to what a step solves. A gap of up to `margin` in m counts as no gap, and one above `largest` as
    that large.
    """
    robot = step.options.in_step(step.robot)
    q, qd, dt = step.q, step.qd, step.dt
    tree = Tree(robot, values=step.dynamics_parameters)
    tau = step.tau + step.pushed(q, qd) if step.forces.forces else step.tau
    respond = _held_response if step.options.constrained else _response
    qdd, answers = respond(tree, step, tau)
    with scope("solve"):
        free = qd + rate_along_held_axes(robot, qd, qdd) * dt
    where = poses(tree, list(tree.mimic.configuration(list(q))), "base")
    jacobian, gaps = contact_rows(tree, contact, links, where)
    jacobian = tree.mimic.columns(jacobian)
    answer, w = answers(jacobian)
    with scope("delassus"):
        for a in range(3 * contact.pairs):
            w[a, a] = w[a, a] + contact.compliance
        velocity, recovery = jacobian @ free, zeros(contact.pairs)
        varied = Overrides.of(step.robot, step.parameters).ground_restitution
        restitution = contact.restitution if varied is None else varied
        for c, gap in enumerate(gaps):
            open_gap, n = gap - margin, 3 * c
            leaving = _leaving(restitution, contact.bounce_speed, -(jacobian[n] @ qd), velocity[n] * dt + gap)
            recovery[c] = select(open_gap, 0.0, gap) * (CORRECTED / dt)
            counted = gap if largest is None else select(gap - largest, largest, gap)
            closing = select(open_gap, counted, 0.0) * (1.0 / dt)
            if not is_zero(leaving):
                closing = select(leaving, 0.0, closing) - leaving  # its slope at 0 is that of -leaving
                recovery[c] = recovery[c] + leaving
            velocity[n] = velocity[n] + closing
    return _Meeting(free, answer, w, velocity, recovery)


_Answers = Callable[[Array], tuple[Array, Array]]
"""A function of rows J (rows, nv). It returns the change of velocities by a unit impulse along each row, (rows, nv),
and J M⁻¹ Jᵀ."""


def _response(tree: Tree, step: StepRecording, tau: Array) -> tuple[Array, _Answers]:
    """Return the accelerations (nv,) of a robot without constraints, and the function of its response to impulses."""
    mimic, q = tree.mimic, list(step.q)
    joints = mimic.configuration(q)
    bias = mimic.torques(inverse_dynamics(tree, joints, list(mimic.rates(list(step.qd))), [0.0] * tree.nv))
    factor = factorize(mimic, mimic.symmetric(mass_matrix(tree, list(joints))))
    with scope("solve"):
        pushed = inwards(mimic, factor, [t - b for t, b in zip(tau, bias, strict=True)])
        qdd = array(outwards(mimic, factor, pushed))

    def answers(jacobian: Array) -> tuple[Array, Array]:
        response = Delassus(mimic, factor, jacobian)
        return response.answers(), response.matrix()

    return qdd, answers


def _held_response(tree: Tree, step: StepRecording, tau: Array) -> tuple[Array, _Answers]:
    """Return the accelerations (nv,) of a robot whose constraints hold, and the function of its response to
    impulses.
    """
    q, active = list(step.q), list(step.held["active"])
    qdd, _ = forward_dynamics(tree, q, list(step.qd), list(tau), active)
    factors = ConstraintFactors(tree, q, active)
    still = zeros(tree.source.constraint_rows)

    def answers(jacobian: Array) -> tuple[Array, Array]:
        answer = array([factors.solve(list(row), still, 3)[0] for row in jacobian])
        return answer, symmetric(lambda a, b: jacobian[a] @ answer[b], len(jacobian))

    return array(qdd), answers


def _leaving(restitution: Scalar, least: float, speed: Scalar, height: Scalar) -> Scalar:
    """Return the velocity with which a pair leaves, m/s; 0 if it does not bounce.

    least: m/s, the speed up to which it does not. speed: m/s, with which it closes before the step. height: m, gap
    after the step without impulses.
    """
    if is_zero(restitution):
        return 0.0
    return select(height, 0.0, select(speed - least, restitution * speed, 0.0))


def _begin(robot: Robot, contact: RigidContact, links: dict[str, int], options: StepOptions, integers: bool) -> Graph:
    """Record q, qd, tau, inputs of forces and variable parameters to what the sweeps take."""
    step = StepRecording(robot, options, "begin_contact")
    largest = FASTEST * options.dt if integers and options.dt is not None else None
    meeting = _meeting(step, contact, links, largest=largest)
    least = LEAST_STEEPNESS / _mass(robot) if integers else 0.0
    inverse = array([[1.0 / x for x in row] for row in _steepness(meeting.w) + least])
    solved = {"inverse": inverse, "stiff": block_inverses(meeting.w, least)}
    return step.graph({**meeting._asdict(), **solved, "s": zeros(contact.pairs), "count": zeros()})


def _mass(robot: Robot) -> float:
    """Return the mass of a robot in kg."""
    return sum(link.mass for link in robot.links)


def _steepness(w: Array) -> Array:
    """Return ρ (pairs, 2) in 1/kg: the entry of W for the normal, the largest eigenvalue for the tangents."""
    result = zeros(len(w) // 3, 2)
    for c in range(len(result)):
        n, t = 3 * c, 3 * c + 1
        mean, half = (w[t, t] + w[t + 1, t + 1]) * 0.5, (w[t, t] - w[t + 1, t + 1]) * 0.5
        result[c, 0] = w[n, n]
        result[c, 1] = mean + sqrt(half * half + w[t, t + 1] * w[t, t + 1])
    return result


def _sweep(robot: Robot, contact: RigidContact, integers: bool) -> Graph:
    """Record a sweep: the conditions of one pair after the other, with the impulses of the others as they are.

    The output moved is the largest velocity, m/s, by which the new impulses of a pair change the pair's own.
    """
    rows = 3 * contact.pairs
    recording = Recording("sweep", robot.name)
    w = recording.input("w", (rows, rows), symmetric=True)
    b, r = recording.input("b", (rows,)), recording.input("r", (rows,)).copy()
    varied = tuple(variable.name for variable in robot.variables if variable.kind == GROUND_FRICTION)
    alone = replace(robot, variable=varied)
    values = parameter_inputs(recording, alone, {"place": np.ones(())})
    friction = Overrides.of(alone, values).ground_friction if varied else contact.friction
    recovery, s = recording.input("recovery", (contact.pairs,)), recording.input("s", (contact.pairs,)).copy()
    inverse = recording.input("inverse", (contact.pairs, 2))
    stiff = recording.input("stiff", (contact.pairs, 3, 3))
    count = recording.input("count", ())
    sizes = {"largest": FASTEST * _mass(robot), "tolerance": contact.tolerance} if integers else {}
    moved: Scalar = 0.0
    for c in range(contact.pairs):
        own, before = slice(3 * c, 3 * c + 3), s[c]
        block = w[own, own]
        new = pair_solution(block, stiff[c], inverse[c], r[own], w[own] @ r + b[own], friction, **sizes)
        changes = block @ (new - r[own])
        r[own] = new
        lift = s[c] - _lifting(w, b, recovery, r, s, c) * inverse[c, 0]
        s[c] = select(lift, lift, 0.0)
        moved = largest(map(absolute, (*changes, (s[c] - before) * block[0, 0])), moved)
    return recording.graph({"swept": r, "lifted": s, "moved": moved, "counted": count[()] + 1.0})


def _lifting(w: Array, b: Array, recovery: Array, r: Array, s: Array, pair: int) -> Scalar:
    """Return l of a pair, m/s. The normal velocity of a pair that is pressed is 0, without the rest of the sweeps."""
    n = 3 * pair
    leaving = select(r[n], 0.0, w[n] @ r + b[n])
    return w[n, ::3] @ s + (leaving + recovery[pair])


def _in_disc(x: Scalar, y: Scalar, radius: Scalar, margin: float = 0.0) -> tuple[Scalar, Scalar]:
    """Return the point of a disc that is nearest to (x, y). A point up to `margin` outside the disc is returned
    unchanged."""
    square, border = x * x + y * y, radius + margin
    length = sqrt(select(square, square, 1.0))  # not of 0, where its slope is infinite
    part = select(square - border * border, radius * (1.0 / length), 1.0)
    return part * x, part * y


def contact_equations(robot: Robot, contact: RigidContact, options: StepOptions) -> StepEquations:
    """Return what r and s of a step solve, and how q and q̇ follow from them: r = P(r - u / ρ) and s = P(s - l / ρ) for
    any ρ > 0.

    The derivative of P holds which pairs are open, stick, slide and are lifted, as they are at the solution. A state on
    the border has the derivative of one side: a pair without a load is open, one whose friction is just enough sticks,
    and one that is pressed at a depth of exactly 0 is below its plane.

    Sweeps end with velocities that are right to `contact.tolerance`. A load, a lift or a gap that moves its point by no
    more than that counts as none, and so does a slip that is no faster.
    """
    step = StepRecording(robot, options, "contact_step", far=options.dt is not None)
    pairs, mass = contact.pairs, _mass(robot)
    r, s = step.recording.input(IMPULSE, (3 * pairs,)), step.recording.input(LIFT, (pairs,))
    links = links_of(robot, contact)
    meeting = _meeting(step, contact, links, margin=step.dt * contact.tolerance)
    loads = r.copy()
    for n in range(0, 3 * pairs, 3):
        loads[n] = select(r[n] * meeting.w[n, n] - contact.tolerance, r[n], 0.0)
    friction = Overrides.of(robot, step.parameters).ground_friction
    friction = contact.friction if friction is None else friction
    u = meeting.w @ r + meeting.b
    left, left_lift = zeros(3 * pairs), zeros(pairs)
    for c in range(pairs):
        n = 3 * c
        held = zeros(3)
        held[0], x, y = (r[n + k] - u[n + k] * mass for k in range(3))
        if not is_number(friction) or friction:
            held[1:] = _in_disc(x, y, r[n] * friction, contact.tolerance * mass)
        for k in range(3):
            left[n + k] = r[n + k] - select(loads[n], held[k], 0.0)
        lifting = _lifting(meeting.w, meeting.b, meeting.recovery, loads, s, c) * mass
        lifts = select(s[c] * meeting.w[n, n] - contact.tolerance, 1.0, 0.0)
        is_lifted = select(loads[n], select(lifting - s[c], 0.0, 1.0), lifts)
        left_lift[c] = select(is_lifted, lifting, s[c])
    q_next, qd_next = _moved(robot, options, step.dt, step.q, step.qd, meeting.free, meeting.answer, r, s)
    outputs = {RESIDUAL: np.concatenate([left, left_lift]), "q_next": q_next, "qd_next": qd_next}
    return StepEquations(step.graph(outputs), (IMPULSE, LIFT))


def _moved(
    robot: Robot, options: StepOptions, dt: Scalar, q: Array, qd: Array, free: Array, answer: Array, r: Array, s: Array
) -> tuple[Array, Array]:
    """Return q and q̇ after a step with the impulses r and s."""
    velocity = free + r @ answer
    displacement = (velocity + s @ answer[::3]) * dt
    q, qd = displaced(robot, q, displacement), along_new_axes(robot, qd, velocity, displacement, dt)
    for force in options.forces:
        q, qd = force.after_step(robot, q, qd)
    return q, qd


def _end(robot: Robot, contact: RigidContact, options: StepOptions) -> Graph:
    rows = 3 * contact.pairs
    recording, sizes = Recording("end_contact", robot.name), typical_sizes(tree_of(robot))
    quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), sizes["q"], unit_vectors=quaternions)
    qd, free = (recording.input(name, (robot.nv,), sizes["qd"]) for name in ("qd", "free"))
    answer = recording.input("answer", (rows, robot.nv))
    swept, lifted = recording.input("swept", (rows,)), recording.input("lifted", (contact.pairs,))
    dt = options.dt if options.dt is not None else recording.input("dt", (), sizes["dt"])[()]
    q_next, qd_next = _moved(robot, options, dt, q, qd, free, answer, swept, lifted)
    moved, failed = (recording.input(name, ())[()] for name in ("moved", "failed"))
    converged = select(moved - contact.tolerance, 0.0, select(moved + 1.0, 1.0, 0.0))  # 0 also if it is no number
    outputs = {"q_next": q_next, "qd_next": qd_next, "failed_next": array(failed + (1.0 - converged)).reshape(())}
    return recording.graph(outputs)
