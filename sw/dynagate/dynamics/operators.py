"""Operators that scalars of all kinds share: powers, quotients and absolute values, by products and selections."""

from __future__ import annotations

from numbers import Real
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError


class Operators:
    """Operators of a scalar that has sums, products, reciprocals and `operation`.

    Costs, rewards and forces of users can write `x ** 2`, `x / 3` and `abs(x)`.
    """

    __slots__ = ()

    def __pow__(self, exponent: Any) -> Any:
        """Return a power by repeated products.

        Raises:
            ArgumentError: The exponent is not a whole number.
        """
        if not (isinstance(exponent, Real) and float(exponent).is_integer()):
            raise ArgumentError(
                f"power {shown(exponent)} of a traced value; expected a whole number, or dynagate.control.sqrt",
                code="DG-FUNCTION-038",
            )
        count = int(float(exponent))
        if count < 0:
            return 1.0 / self**-count
        power: Any = 1.0
        square: Any = self
        while count:
            if count % 2:
                power = square * power
            count //= 2
            if count:
                square = square * square
        return power

    def __truediv__(self, other: Any) -> Any:
        """Return the quotient by a number, or by a scalar that is positive."""
        if isinstance(other, Operators):
            return other.__rtruediv__(self)  # type: ignore[attr-defined]
        return self * (1.0 / other)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.operation("select", self, self, -self)  # type: ignore[attr-defined, operator]
