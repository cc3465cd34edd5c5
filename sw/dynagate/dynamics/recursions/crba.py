"""The joint-space mass matrix by the composite-rigid-body algorithm, and its inverse by factorization."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.naming import label
from dynagate.dynamics.factor import factorize, inverse_from_factor
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.spatial import Array, Inertia, Scalar, symmetric, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


def mass_matrix(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return the joint-space mass matrix M(q) by the composite-rigid-body algorithm, in body frames.

    The composite inertia of each link's subtree gives one column: the force I S is passed to the base, and each joint
    on the way takes its component. Rotor inertias are added to the diagonal.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints, rad or m.

    Returns:
        M (nv, nv), symmetric, kg m², kg m or kg.

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, §6.2.
    """
    joints, m = tree.transforms(q), zeros(tree.nv, tree.nv)

    def composite(link: TreeLink, inertia: Inertia, joint: JointTransform) -> tuple[Inertia, None]:
        for d in tree.dofs[link.number]:
            force = inertia @ tree.axis(d)
            for j in reversed(tree.ancestors[link.number]):
                for e in tree.dofs[j]:
                    m[d, e] = m[e, d] = tree.along(e, force)
                if tree.parents[j] >= 0:
                    force = joints[j].force_to_parent(force)
            m[d, d] = m[d, d] + tree.armature[d]
            for e in tree.chain[d]:
                label(m[d, e], f"m_{e}")
        return _inertia_in_parent(inertia, joint), None

    tree.up("crba", composite, joints, own=tree.inertias)
    return m


def _inertia_in_parent(inertia: Inertia, joint: JointTransform) -> Inertia:
    """Return a link's composite inertia in its parent's frame: the second moment becomes Σ + t uᵀ + u tᵀ with u = h + m
    t / 2.
    """
    mass, t = inertia.mass, joint.translation
    first = joint.to_parent(inertia.first)
    rotated = joint.symmetric_to_parent(inertia.second)
    u = first + t * (0.5 * mass)
    second = symmetric(lambda a, b: rotated[a, b] + (t[a] * u[b] + u[a] * t[b]))
    return Inertia(mass, first + t * mass, second)


def mass_matrix_inverse(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return M⁻¹ (nv, nv) in 1/(kg m²) by the factorization M = Lᵀ D L, in the robot's own coordinates."""
    mimic = tree.mimic
    m = mimic.symmetric(mass_matrix(tree, mimic.configuration(q)))
    return inverse_from_factor(mimic, factorize(mimic, m))
