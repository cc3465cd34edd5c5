"""Calls of the public functions, right and wrong ones. `test_typed_calls.py` runs a type checker on this file."""

import dynagate
import numpy as np

q, qd, tau = np.zeros((3, 2))

forward = dynagate.compile("two_joint_arm", "forward_dynamics", dtype="float32", threads=2)
together = dynagate.compile("two_joint_arm", ["mass_matrix", "bias_torque"], device="numpy")
results: dynagate.Results = forward(q, qd, tau=tau)
design = dynagate.build("two_joint_arm", "forward_dynamics", ii=8, word=20)
latency: int = design.latency
blocks: int = design.resources.dsp
with dynagate.open(design, link="sim", pauses=(0.1, 0.1)) as device:
    device(q, qd, tau)

dynagate.compile("two_joint_arm", "forward_dynamics", thread=2)  # error: Unexpected keyword argument "thread"
dynagate.compile("two_joint_arm", "forward_dynamics", threads="2")  # error: Argument "threads" to "compile"
dynagate.compile("two_joint_arm", "forward_dynamics", device="tpu")  # error: Argument "device" to "compile"
dynagate.compile("two_joint_arm")  # error: Missing positional argument "function"
dynagate.open(design, dtype="float32")  # error: Unexpected keyword argument "dtype"
dynagate.open(design, link=3)  # error: Argument "link" to "open"
dynagate.build("two_joint_arm", "forward_dynamics", unit=4)  # error: Unexpected keyword argument "unit"
dynagate.build("two_joint_arm", "forward_dynamics", ii="8")  # error: Argument "ii" to "build"
dynagate.Rollout("two_joint_arm", steps=5, dt=0.01, devise="cpu")  # error: Unexpected keyword argument "devise"
dynagate.Rollout("two_joint_arm", steps="5", dt=0.01)  # error: Argument "steps" to "Rollout"
