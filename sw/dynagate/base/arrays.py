"""Type aliases for numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of any number type."""

Floats = npt.NDArray[np.float64]
"""An array of float64."""
