"""Names of options, methods and values in other packages, and their names here, for error messages.

Names of functions and results in other packages are in `dynamics.functions.aliases`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from dynagate.base.errors import Error

_STEPS = ("knots", "steps")
_KNOTS = ("knots", "steps", "samples")

OPTIONS: dict[str, tuple[str, ...]] = {
    "axes": ("frame",),
    "backend": ("device=",),
    "batchsize": ("samples",),
    "bits": ("word",),
    "body": ("frame",),
    "bodyname": ("frame",),
    "clock": ("budget",),
    "controls": ("tau",),
    "damping": ("dissipation",),
    "delta": ("dt",),
    "deltat": ("dt",),
    "device": ("backend",),
    "eps": ("tolerance",),
    "framename": ("frame",),
    "frames": ("frame",),
    "gpu": ("cuda", "device='cuda'", "backend='cuda'"),
    "h": ("dt",),
    "horizon": _STEPS,
    "initiationinterval": ("ii",),
    "interval": ("ii",),
    "lambda": ("temperature",),
    "length": _STEPS,
    "link": ("frame",),
    "linkname": ("frame",),
    "maxiter": ("iterations",),
    "maxiterations": ("iterations",),
    "maxiters": ("iterations",),
    "mu": ("friction",),
    "ncores": ("threads",),
    "niter": ("iterations",),
    "niterations": ("iterations",),
    "nknots": _STEPS,
    "nsamples": ("samples",),
    "nsteps": _STEPS,
    "nthreads": ("threads",),
    "numsamples": ("samples",),
    "numsteps": _STEPS,
    "numthreads": ("threads",),
    "numworkers": ("threads",),
    "outdir": ("folder",),
    "output": ("outputs", "folder"),
    "outputdir": ("folder",),
    "path": ("folder",),
    "precision": ("dtype", "word"),
    "q": ("q0",),
    "qd": ("qd0",),
    "qdes": ("goal",),
    "qdot": ("qd", "qd0"),
    "qdot0": ("qd0",),
    "qgoal": ("goal",),
    "qinit": ("q0",),
    "qpos": ("q", "q0"),
    "qref": ("goal",),
    "qstart": ("q0",),
    "qvel": ("qd", "qd0"),
    "sigma": ("spread",),
    "simulator": ("sim",),
    "simulation": ("sim",),
    "site": ("frame",),
    "solver": ("integrator",),
    "steps": ("knots",),
    "knots": ("steps",),
    "targetq": ("goal",),
    "target": ("goal",),
    "timestep": ("dt",),
    "tol": ("tolerance",),
    "tolerances": ("tolerance",),
    "torque": ("tau",),
    "torques": ("tau",),
    "type": ("dtype",),
    "u": ("tau",),
    "us": ("tau",),
    "v": ("qd", "qd0"),
    "v0": ("qd0",),
    "velocity": ("qd", "qd0"),
    "verilator": ("sim",),
    "width": ("word",),
    "wordlength": ("word",),
    "workers": ("threads",),
    "xgoal": ("goal",),
}
"""Options, inputs and devices of other packages, in lower case without punctuation -> names here. An error suggests the
first name that the call accepts.
"""

_BUILD = "for hardware write dynagate.build(robot, function, ii=8)"
_ROLLOUT = "for a motion write dynagate.Rollout(robot, steps=..., dt=...)"
_OPEN = "it belongs to dynagate.open(design, ...)"

_VARIABLE = {"variable": "write robot.with_variable('forearm.mass'), and pass that robot"}
OF_OTHER_CALLS: dict[str, dict[str, str]] = {
    "compile": {
        **dict.fromkeys(("target", "fpga", "board", "hardware", "ii", "interval", "word", "axi", "units"), _BUILD),
        **dict.fromkeys(("steps", "horizon", "nsteps", "numsteps", "length"), _ROLLOUT),
        "jit": "every function is compiled",
        **_VARIABLE,
    },
    **dict.fromkeys(("trace", "function", "AlgorithmOptions"), _VARIABLE),
    "Contact": {"damping": "dynagate.forces.CompliantContact has the option dissipation"},
    "build": {**dict.fromkeys(("device", "target", "link", "simulate", "backend"), _OPEN), **_VARIABLE},
}
"""Options that belong to another call: name of the call -> option, spelled as in OPTIONS -> what to write."""

HARDWARE = frozenset({"fpga", "hardware", "verilog", "rtl", "hdl", "asic", "zynq", "pynq", "xilinx", "board", "sim"})
"""Words that users pass as a device for hardware, which needs a design."""


def spelled(name: object) -> str:
    """Return a name in lower case, without signs other than letters and digits."""
    return "".join(letter for letter in str(name).lower() if letter.isalnum())


def written(name: object, known: Iterable[str]) -> str:
    """Return what to write for an option or device with another name in other packages, or ""."""
    names = list(known)
    for text in OPTIONS.get(spelled(name), ()):
        if text.split("=")[0] in names:
            return text.rstrip("=")
    return ""


def answering(kind: type, answers: Mapping[str, str]) -> None:
    """Make a missing attribute of a class's objects raise an error that states what to write.

    Args:
        kind: The class, which must not have `__getattr__`.
        answers: Attributes, spelled as in OPTIONS -> what to write.
    """

    def missing(own: Any, name: str) -> Any:
        answer = "" if name.startswith("_") else answers.get(spelled(name), "")
        if answer and not hasattr(kind, name):
            raise AttributeError(f"{kind.__name__} has no attribute '{name}'; write {answer}")
        return object.__getattribute__(own, name)  # raises the error of Python, or of a property

    kind.__getattr__ = missing  # type: ignore[attr-defined]


def uncallable(kind: type, failure: type[Error], answer: str) -> None:
    """Make calls of objects of a class raise an error with what to write.

    Args:
        kind: The class.
        failure: Returns the error with a text.
        answer: What to write.
    """

    def called(self: Any, *arguments: Any, **named: Any) -> NoReturn:
        """Raise an error that has what to write, whatever the arguments: this object is not called."""
        raise failure(f"a {kind.__name__} is not called; write {answer}", code="DG-ARG-038")

    kind.__call__ = called  # type: ignore[method-assign]


CALLED = (
    *("compute", "eval", "evaluate", "forward", "integrate", "optimise", "optimize", "plan", "rollout", "run"),
    *("simulate", "solve", "step"),
)
"""Names of methods in other packages for which an object here is called directly."""
