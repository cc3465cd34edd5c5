"""From a robot and a function to code that computes it: `dynagate.compile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from dynagate.base.changed_options import changed_in_call, of_call
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import checking_first, explained
from dynagate.base.foreign_names import HARDWARE, spelled
from dynagate.base.nearest import nearest
from dynagate.base.progress import Progress, showing
from dynagate.dynamics import ROLLOUT, check_named, of_frame, requested
from dynagate.dynamics.recursions.poses import FrameOption
from dynagate.forces import Force
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.region import Region
from dynagate.host.devices.board import BoardExecutor
from dynagate.host.devices.functions import check_form
from dynagate.host.devices.options import FUNCTION, DeviceOptions, Kind
from dynagate.host.devices.sim import Sim
from dynagate.host.devices.sources import FunctionSource
from dynagate.host.function import Function, check_overflow
from dynagate.host.openers import OPENERS, ChosenDevice, chosen_device, devices_of, name_of
from dynagate.host.source import names_design
from dynagate.robot.checked import RobotOrName, robot_of

if TYPE_CHECKING:
    from dynagate.fixedpoint.assign import Policy


OF_DEVICE = (
    "dtype",
    "threads",
    "layout",
    "pack",
    "tier",
    "number",
    "stream",
    "warp",
    "policy",
    "region",
    "certificate",
)
"""Options of `compile` that are options of a device."""


@explained
@checking_first(check_named)
def compile(
    robot: RobotOrName,
    function: str | Sequence[str],
    *,
    device: Literal["cpu", "cuda", "numpy", "fixed"] | DeviceOptions = "cpu",
    dtype: npt.DTypeLike | None = None,
    threads: int = 1,
    layout: Literal["rows", "planes"] = "rows",
    pack: bool = False,
    tier: Literal["compiled", "interpreted", "auto"] = "compiled",
    number: int = 0,
    stream: int = 0,
    warp: bool = False,
    policy: Policy | None = None,
    region: Region | None = None,
    certificate: bool = False,
    form: str | None = None,
    frame: FrameOption | None = None,
    mass: Literal["body", "shared"] | None = None,
    prefix: bool = False,
    external_forces: bool = False,
    outputs: Sequence[str] | None = None,
    forces: str | Force | Sequence[Force | str] = (),
    dt: float | None = None,
    integrator: str | None = None,
    implicit_damping: bool = False,
    overflow: Literal["mask", "raise"] = "mask",
    progress: Progress | None = None,
) -> Function:
    """Compile a function of a robot, and return it to be called on numpy arrays.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        function: Name of the function, such as "forward_dynamics", or a list of names (`dynagate.FUNCTIONS` has all).
            The functions in a list are computed together, at one state in one call. Names of the same functions in
            Pinocchio and MuJoCo are accepted, such as "rnea".
        device: "cpu", C compiled for this processor; "cuda", a GPU; "numpy", float64, the reference; or "fixed", the
            integers that hardware computes.
        dtype: "float64" or "float32" ("cpu", "cuda"). Unless given, "float64" on "cpu" and "float32" on "cuda".
        threads: Threads that share a batch ("cpu").
        layout: "rows", arrays with the batch first in memory, or "planes", with the batch last ("cpu", "cuda").
        pack: Return vectors of the different entries, without those that are always zero (`Function.unpack`).
        tier: "compiled" for C ("cpu"); "interpreted" for an interpreter that is compiled once for all functions, ready
            when the function is traced and five times as slow; or "auto" for the interpreter until the C compiler,
            which works at the same time, is done. Their results have the same bits. Without a compiler, the last two
            compute in numpy with a warning.
        number: Number of the card ("cuda").
        stream: A cudaStream_t as a number, on which arrays on the card are ready and results will be ("cuda").
        warp: Compute forward dynamics of a serial chain with a warp for each sample, by form "jsiia", "cfa" or
            "cfa_refined" ("cuda").
        policy: Word length and binary points ("fixed"); 24 bits unless given.
        region: Operating region that formats or certificates are for; inside the limits of the file unless given.
        certificate: Add an output "certificate" to forward dynamics, a bound of the error of each q̈.
        form: Name of the algorithm; the function's first unless given. `dynagate info` lists them.
        frame: For the functions of a frame, such as "frame_jacobian": the name of a frame or link, or what
            `robot.frame` returns. For the gradients: the frames in which they express vectors, "base", "middle",
            "sparsest", "fewest", "accurate", the index of a link, or a map from the first link of each chain to the
            index of a link.
        mass: Frames in which the gradients take the mass matrix.
        prefix: Compute prefix products and sums in the gradients: fewer levels, more operations.
        external_forces: Take the forces on the links as a last input f_ext (links, 6), in N m and N.
        outputs: Names of the outputs to compute; all unless given. What only the others need is left out.
        forces: `dynagate.forces.Friction`, the only force that functions have, for Coulomb friction of the joints.
        dt: Seconds of a time step, for the functions that take one; 1e-3 unless given.
        integrator: "euler", "semi_implicit_euler", "rk2", "rk3" or "rk4", for the functions that take a time step.
        implicit_damping: Damp joints by the velocity after the step, for the functions that take a time step.
        overflow: "mask", so that results in fixed point have the flags `overflow`; or "raise", so that a batch with a
            sample that overflowed raises OverflowedError.
        progress: Function that receives a line of text before each slow stage. Unless given, a terminal or a
            notebook shows them.

    Returns:
        The function. Its inputs are `compiled.inputs`, in this order or by name.

    Raises:
        ArgumentError: There is no such function or device, or an option does not fit them. Nothing is computed then.
        ArgumentTypeError: An option has another name or type.
        RobotError: There is no such robot, or the algorithm does not know its joints.
        CompileError: There is no compiler, or it fails.

    Example:
        >>> forward = dynagate.compile("two_joint_arm", "forward_dynamics", device="numpy")
        >>> forward.inputs
        ('q', 'qd', 'tau')
        >>> forward(np.zeros((100, 2)), np.zeros((100, 2)), np.zeros((100, 2))).qdd.shape
        (100, 2)
    """
    call = locals()
    check_robot(robot)
    function, axes = of_frame(function, frame)
    row = requested(function)
    chosen = device_of(device, (FUNCTION,), changed_in_call(compile, call, OF_DEVICE))
    algorithm = of_call(AlgorithmOptions, call, frame=axes)
    check_form(algorithm.form, chosen.name, chosen.opener, [name for (_, name), each in OPENERS.items() if each.scans])
    check_overflow(overflow)
    with showing(progress) as say:
        compiled = Function(chosen.open(FunctionSource(robot_of(robot), row.name, algorithm), say), overflow=overflow)
    compiled._keep_maker(compile, (), call)
    return compiled


def check_robot(robot: object) -> None:
    """Refuse a design where a robot is expected.

    Args:
        robot: Argument of a call.

    Raises:
        ArgumentTypeError: The argument is a design.
    """
    if names_design(robot):
        text = f"{robot!r:.60}" if isinstance(robot, str | PathLike) else f"a {type(robot).__name__}"
        raise ArgumentTypeError(
            f"{text} is a design, which is compiled already; write dynagate.open(design)", code="DG-DEVICE-003"
        )


def device_of(device: object, kinds: Sequence[Kind], options: Mapping[str, Any], caller: str = "") -> ChosenDevice:
    """Return the device that computes something of a robot, with the device's options.

    Args:
        device: Name of the device, or an object with its options.
        kinds: Kinds of source, the preferred one first.
        options: Options by name, if the device is given by its name.
        caller: What the device should compute, for the error; empty for a function or rollout.

    Returns:
        The device with its options, for the first of the kinds that it opens.

    Raises:
        ArgumentError: There is no such device, it is for designs, or it does not take an option.
        ArgumentTypeError: `device` is neither a name nor an object with options.
    """
    known = devices_of(*kinds)
    if not isinstance(device, str | DeviceOptions):
        raise ArgumentTypeError(f"device={device!r:.60}; expected one of {', '.join(known)}", code="DG-DEVICE-004")
    name = name_of(device)
    if name in (Sim.name, BoardExecutor.name) or spelled(name) in HARDWARE:
        link = "link='sim'" if name == Sim.name else "link=..."
        function = "function" if FUNCTION in kinds else f"'{ROLLOUT}'"
        raise ArgumentError(
            f"device '{name}' runs designs; write dynagate.open(dynagate.build(robot, {function}), {link}), or choose "
            f"one of {', '.join(known)}",
            code="DG-DEVICE-005",
        )
    if name not in known:
        of_caller = f" of {caller}" if caller else nearest(name, known)
        raise ArgumentError(f"device '{name}'{of_caller}; expected one of {', '.join(known)}", code="DG-DEVICE-006")
    return chosen_device(next(kind for kind in kinds if (kind, name) in OPENERS), device, options)
