"""From a robot to a pipelined datapath in Verilog, simulated. For hardware engineers: pip install 'dynagate[sim]'.

It prints what the design takes, its error against float64, and how many results of the simulated Verilog equal the
integer model bit for bit. The Verilog lies in the folder that it prints.
"""

import dynagate as dg
import numpy as np

COUNT, CLOCK = 256, 100e6  # states, Hz
robot = dg.robots.load("two_joint_arm")  # or dg.Robot.from_file("my_robot.urdf")
design = dg.build(robot, "forward_dynamics", ii=8)  # a result every 8 cycles, words of 24 bits
takes = design.resources
print(f"{takes.dsp} DSP blocks, latency {design.latency} cycles, interval {design.interval} cycles")
print(f"at {CLOCK / 1e6:.0f} MHz: {1e-6 * CLOCK / design.interval:.1f} million results a second")

states = design.region.sample("forward_dynamics", COUNT, seed=1)  # within the operating region of the number formats
with dg.open(design, link="sim") as simulation, dg.open(design, device="fixed") as integers:
    verilog, model = simulation(**states).qdd, integers(**states).qdd
exact = dg.compile(robot, "forward_dynamics")(**states).qdd

print(f"error relative to the largest result: {np.abs(verilog - exact).max() / np.abs(exact).max():.1e}")
print(f"{(verilog == model).all(axis=1).sum()} of {COUNT} states equal the integers bit for bit")
print(f"Verilog: {design.folder / 'datapath.v'}")
