"""Parameters of a robot from measurements: what data excite, estimates with errors, and payloads while they move."""

from __future__ import annotations

from dynagate.identification.combinations import BaseParameters, base_parameters
from dynagate.identification.estimate import Identification, identify
from dynagate.identification.excited import Excitation, excitation
from dynagate.identification.payload import Payload, PayloadEstimator

__all__ = [
    "BaseParameters",
    "Excitation",
    "Identification",
    "Payload",
    "PayloadEstimator",
    "base_parameters",
    "excitation",
    "identify",
]
