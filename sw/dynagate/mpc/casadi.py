"""A robot function as an external function of CasADi, with exact derivatives of every order.

It is a CasADi callback around compiled C code, which IPOPT and CasADi's other solvers call like any function. CasADi
requests reverse derivatives by weights and forward derivatives by rates. Both are products of the operator, and
operators themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynagate.base.explained import explained
from dynagate.base.extras import brought_by
from dynagate.forces.options import AlgorithmOptions
from dynagate.operators.compute import CPU, CompiledCompute
from dynagate.operators.creation import operator
from dynagate.operators.operator import Operator
from dynagate.robot import RobotError
from dynagate.robot.checked import RobotOrName

with brought_by("mpc", __name__):
    import casadi


class CasadiFunction(casadi.Callback):
    """An operator as a CasADi function. Inputs and outputs are column vectors; matrices are flattened by rows.

    CasADi does not keep Python objects alive: keep a reference to the function as long as objects that use it exist.
    """

    def __init__(self, source: Operator) -> None:
        casadi.Callback.__init__(self)
        compute = source.compute
        assert isinstance(compute, CompiledCompute)
        self.operator, self._kernel = source, compute.kernel(np.float64)
        self._derivatives: dict[str, Any] = {}  # CasADi needs these objects alive
        self._inputs, self._outputs = self._kernel.new_inputs(1), self._kernel.new_outputs(1)
        call = self._kernel.bound(self._inputs, self._kernel.written(self._outputs), 1)
        assert call is not None
        self._call = call
        self._columns = [array.reshape(-1) for array in self._inputs.values()]
        self.construct(f"{source.graph.robot}_{source.graph.name}", {"enable_fd": False})

    def get_n_in(self) -> int:
        return len(self.operator.graph.inputs)

    def get_n_out(self) -> int:
        return len(self.operator.graph.outputs)

    def get_name_in(self, k: int) -> str:
        return self.operator.graph.inputs[k].name

    def get_name_out(self, k: int) -> str:
        return self.operator.graph.outputs[k].name

    def get_sparsity_in(self, k: int) -> casadi.Sparsity:
        return casadi.Sparsity.dense(len(self.operator.graph.inputs[k].nodes), 1)

    def get_sparsity_out(self, k: int) -> casadi.Sparsity:
        return casadi.Sparsity.dense(len(self.operator.graph.outputs[k].nodes), 1)

    def eval(self, arguments: Sequence[casadi.DM]) -> list[casadi.DM]:
        for column, argument in zip(self._columns, arguments, strict=True):
            column[:] = argument.full()[:, 0]
        self._call()
        return [casadi.DM(array.reshape(-1)) for array in self._outputs.values()]

    def has_forward(self, count: int) -> bool:
        return count == 1

    def has_reverse(self, count: int) -> bool:
        return count == 1

    def get_forward(self, count: int, name: str, i_names: Sequence[str], o_names: Sequence[str], options: Any) -> Any:
        """Return the function from rates of all inputs to rates of all outputs.

        It combines the product with the derivative by nonlinear inputs, and the operator's value on rates of the other
        inputs.
        """
        source = self.operator
        n = source.nonlinear
        arguments = [casadi.MX.sym(name, self.sparsity_in(k)) for k, name in enumerate(self.name_in())]
        rates = [casadi.MX.sym(f"fwd_{name}", self.sparsity_in(k)) for k, name in enumerate(self.name_in())]
        results = self._derivative("jvp", source.jvp).call([*arguments, *rates[:n]])
        if source.linear:
            linear = self.call([*arguments[:n], *rates[n:]])
            results = [a + b for a, b in zip(results, linear, strict=True)]
        values = [casadi.MX(*self.size_out(k)) for k in range(self.n_out())]
        return self._kept(name, [*arguments, *values, *rates], results, i_names, o_names, options)

    def get_reverse(self, count: int, name: str, i_names: Sequence[str], o_names: Sequence[str], options: Any) -> Any:
        """Return the function from weights of all outputs to weights of all inputs."""
        source = self.operator
        n = source.nonlinear
        arguments = [casadi.MX.sym(name, self.sparsity_in(k)) for k, name in enumerate(self.name_in())]
        weights = [casadi.MX.sym(f"adj_{name}", self.sparsity_out(k)) for k, name in enumerate(self.name_out())]
        results = self._derivative("vjp", source.vjp).call([*arguments, *weights])
        if source.linear:
            results += self._derivative("transposed", source.transposed).call([*arguments[:n], *weights])
        values = [casadi.MX(*self.size_out(k)) for k in range(self.n_out())]
        return self._kept(name, [*arguments, *values, *weights], results, i_names, o_names, options)

    def _derivative(self, kind: str, source: Operator) -> CasadiFunction:
        if kind not in self._derivatives:
            self._derivatives[kind] = CasadiFunction(source)
        return self._derivatives[kind]

    def _kept(self, name: str, arguments: Any, results: Any, i_names: Any, o_names: Any, options: Any) -> Any:
        symbols = [x if x.is_symbolic() else casadi.MX.sym(f"value{k}", x.sparsity()) for k, x in enumerate(arguments)]
        self._derivatives[name] = casadi.Function(name, symbols, results, i_names, o_names, options)
        return self._derivatives[name]


@explained
def casadi_function(robot: RobotOrName, function: str, **options: Any) -> CasadiFunction:
    """Return a robot function for CasADi, computed in C in float64, with exact derivatives of every order.

    Call it with columns in the order of the function's inputs. It returns a column for each output, a matrix by rows.
    Keep a reference to it as long as solvers that use it exist.

    Args:
        robot: A robot, the name of one that ships, or the path of a URDF file.
        function: Name of a function of `dynagate.FUNCTIONS`, or "step".
        options: Options of the algorithm (`dynagate.AlgorithmOptions`); for "step" also dt and integrator.

    Raises:
        ArgumentError: The function or an option is unknown, or an input is symmetric.
        RobotError: The robot has quaternions.
    """
    source = operator(robot, function, backend=CPU, algorithm=AlgorithmOptions(**options))
    if source.robot.nq != source.robot.nv:
        raise RobotError(
            f"robot '{source.robot.name}' has quaternions; expected joints of one degree of freedom", code="DG-MPC-005"
        )
    return CasadiFunction(source)
