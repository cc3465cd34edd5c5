"""A joint behind a real motor: delay, back-EMF and a spring under one controller. For everyone who moves hardware.

A PD law with gains for ideal torques holds the two-joint arm at a target. The script runs the same law through several
actuators. It prints, for each, the largest overshoot, the error at the end and the largest torque. Then it prints the
gradient of the final error with respect to the spring's initial deflection, next to a difference.
"""

import dynagate as dg
import numpy as np
from dynagate.forces import Damping, DCMotor, Delay, Lag, SeriesElastic

robot, steps, dt = dg.robots.load("two_joint_arm"), 1000, 1e-3
motor = DCMotor(constant=0.1, resistance=0.5, voltage=24.0, current=12.0, inductance=1e-3, ratio=20.0)
spring = SeriesElastic(stiffness=2000.0, inertia=0.2, damping=2.0, play=0.002)
chains = {
    "ideal": [],
    "delay of 10 ms": [Delay(10)],
    "lag of 20 ms": [Lag(0.02)],
    "DC motor": [motor],
    "spring with play": [spring],
    "all": [Delay(4), motor, spring],
}
target = np.array([0.3, -0.2])
hold = {"joint_target": target, "joint_stiffness": [40.0, 15.0], "joint_damping": [4.0, 1.0]}
start, still = (np.zeros(2), np.zeros(2)), np.zeros((steps, 2))
for name, chain in chains.items():
    rollout = dg.Rollout(robot, steps, dt, forces=[Damping(0.1), *chain], feedback=dg.JointPD())
    motion = rollout(*start, still, **hold)
    beyond = ((motion.q - target) * np.sign(target)).max()
    off, most = np.abs(motion.q[-1] - target).max(), np.abs(motion.tau).max()
    print(f"{name}: overshoot {beyond:+.3f} rad, {off:.3f} rad off at the end, torque up to {most:.1f} N m")

weights = np.zeros((2, steps + 1, 2))
weights[0, -1] = motion.q[-1] - target
by = rollout.vjp(motion, still, *weights, **hold)["deflection"]
ends = [rollout(*start, still, **hold, deflection=[d, 0.0]).q[-1] - target for d in (1e-6, -1e-6)]
slope = 0.5 * (ends[0] @ ends[0] - ends[1] @ ends[1]) / 2e-6
print(f"gradient with respect to the deflection {by[0]:.6f}, by differences {slope:.6f}")
