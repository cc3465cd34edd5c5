"""The operations in C and CUDA."""

from __future__ import annotations

from dynagate.graph.ops import table

EXPRESSIONS = table(
    "native.expressions",
    {
        "input": "",
        "const": "{0}",
        "add": "{0} + {1}",
        "sub": "{0} - {1}",
        "add_const": "{0} + {1}",
        "neg": "-{0}",
        "mul": "{0} * {1}",
        "mul_const": "{0} * {1}",
        "shift": "{0} * {1}",
        "sin": "sin({0})",
        "cos": "cos({0})",
        "reciprocal": "1 / {0}",
    },
)
"""C expressions, {0} and {1} the operands. A constant is the last operand; that of a shift is 2**constant."""
