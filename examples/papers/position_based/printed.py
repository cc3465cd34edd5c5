"""The force along a plane as Equation 12 of Pan & Manocha (2019) is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dynagate.forces.contact import Contact, ContactError


@dataclass(frozen=True)
class PrintedContact(Contact):
    """|x|^beta in place of |x|^(beta - 1): drag in place of friction. beta > 0. Raises ContactError: the model is
    "pbd", which has no such force."""

    least_beta: ClassVar[tuple[float, bool]] = (0.0, False)

    def __post_init__(self) -> None:
        if self.model == "pbd":
            raise ContactError("the printed exponent is of the force along the plane, which model 'pbd' has not")
        super().__post_init__()

    @property
    def sliding(self) -> float:
        return self.beta
