"""Joint limits as a force: a spring and a damper beyond each limit."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, select, zeros
from dynagate.forces.checks import check_numbers
from dynagate.forces.force import Force, ForceContext


@explained
@dataclass(frozen=True)
class Limits(Force):
    """Hold joints in their limits by springs: k d (1 + c ḋ) at a depth d beyond a limit, and never a pull.

    The force starts at 0 with a slope, so a step meets no jump. An explicit step needs k dt² well below the inertia of
    the joint. Joints without limits have no spring.

    Args:
        stiffness: k, N m/rad or N/m, above 0.
        dissipation: c, s/rad or s/m, 0 or more.

    Raises:
        ForceError: A number is out of range or not finite.

    Reference:
        Hunt & Crossley, "Coefficient of restitution interpreted as damping in vibroimpact", 1975.
    """

    stiffness: float
    dissipation: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self, "limits", stiffness=ABOVE_ZERO, dissipation=AT_LEAST_ZERO)

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the springs."""
        result = zeros(now.robot.nv)
        for joint, iq, iv in now.robot.moving():
            for limit, sign in zip(now.robot.reach(joint), (-1.0, 1.0), strict=True):
                if limit is not None:
                    q, rate = now.q[iq.start], now.qd[iv.start]
                    result[iv.start] = result[iv.start] - self._push((q - limit) * sign, rate * sign) * sign
        return result

    def _push(self, depth: Scalar, rate: Scalar) -> Scalar:
        """Return the force back into the range, from the depth beyond a limit and its rate."""
        harder = rate * self.dissipation + 1.0
        inward = select(harder, harder, 0.0)
        return select(depth, depth * self.stiffness, 0.0) * inward
