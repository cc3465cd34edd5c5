"""Masses, inertias and friction of an arm from noisy torques. For everyone who calibrates a robot.

A machine differs from its URDF by up to 30 %, and has friction and rotors. 20 s of a motion with 0.3 N m of noise
identify it. It prints the condition of the motion, the errors of torques on another motion before and after, and the
armature of a joint with its confidence.
"""

import dynagate as dg
import numpy as np

random = np.random.default_rng(0)
file = dg.robots.load("iiwa14")
machine = file.with_armature(0.1).with_damping(0.5).with_friction(0.4)
parameters = machine.dynamic_parameters
parameters[:, :10] *= random.uniform(0.8, 1.3, (7, 1))
machine = machine.with_dynamic_parameters(parameters)


def motion(samples):
    """Return positions, velocities and accelerations (samples, 7) of a sum of waves."""
    time = np.linspace(0.0, 20.0, samples)[:, None]
    q, qd, qdd = np.zeros((3, samples, 7))
    for k in range(1, 6):
        w, phase, size = 0.2 * np.pi * k, random.uniform(0.0, 6.0, 7), random.uniform(0.2, 0.6, 7) / k
        q += size * np.sin(w * time + phase)
        qd += w * size * np.cos(w * time + phase)
        qdd -= w * w * size * np.sin(w * time + phase)
    return q, qd, qdd


measured, unseen = motion(1000), motion(200)
torques = dg.compile(machine, "inverse_dynamics")
found = dg.identify(file, *measured, torques(*measured).tau + random.normal(0.0, 0.3, (1000, 7)))
print(found.excitation)
for name, robot in (("file", file), ("identified", found.robot)):
    error = dg.compile(robot, "inverse_dynamics")(*unseen).tau - torques(*unseen).tau
    print(f"{name}: error of torques on an unseen motion up to {np.abs(error).max():.3f} N m")
armature, deviation = found.parameters[3, 10], found.standard_errors[3, 10]
print(f"armature of joint 4: {armature:.3f} ± {1.96 * deviation:.3f} kg m²")
