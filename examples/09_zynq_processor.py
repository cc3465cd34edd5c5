"""A small processor for a Zynq board: one core, a program for each function. For owners of a PYNQ-Z2 or KV260.

The datapath of a large robot does not fit such a board; the programs of this core do. The core is simulated here with
its AXI streams (pip install 'dynagate[sim]'); docs/zynq.md leads to the board. It prints the cycles of two programs
and how many results equal the integer model bit for bit.
"""

import dynagate as dg
import numpy as np

COUNT, CLOCK, DSP = 16, 100e6, 220  # states, Hz, DSP blocks of a PYNQ-Z2's XC7Z020
FUNCTIONS = ("inverse_dynamics", "forward_dynamics")
programs = [dg.build("two_joint_arm", name, units=4) for name in FUNCTIONS]
print(f"the core: {programs[0].resources.dsp} of {DSP} DSP blocks")

with dg.open(programs[0], link="sim") as core:  # on the board: link="pynq:accelerator.bit"
    for name, program in zip(FUNCTIONS, programs, strict=True):
        core.load(program)  # another program, the same core
        states = program.region.sample(name, COUNT, seed=1)
        with dg.open(program, device="fixed") as integers:
            model, result = integers(**states), core(**states)
        same = sum(
            np.array_equal(*pair) for output in model for pair in zip(model[output], result[output], strict=True)
        )
        time = 1e6 * program.latency / CLOCK
        print(f"{name}: {program.latency} cycles, {time:.2f} µs at 100 MHz; {same} of {COUNT} states are equal")
