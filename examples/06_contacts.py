"""A box slides on rigid ground with dry friction. For everyone who simulates contact.

Points of links meet planes; each step solves for impulses that push, never pull, and stay in Coulomb's cone. It prints
the sliding distance next to v² / (2 μ g), and the ground's force next to the weight.
"""

import tempfile
from pathlib import Path

import dynagate as dg
import numpy as np
from dynagate import RigidContact
from dynagate.forces import Plane, corners

URDF = """<robot name="box"><link name="box"><inertial><mass value="2"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><box size="0.3 0.2 0.1"/></geometry></visual></link></robot>"""
MASS, FRICTION, GRAVITY, DT = 2.0, 0.4, 9.81, 1e-3  # kg, 1, m/s², s

file = Path(tempfile.mkdtemp()) / "box.urdf"
file.write_text(URDF)
box = dg.Robot.from_file(file, floating_base=True)
ground = RigidContact(corners("box", (0.3, 0.2, 0.1)), (Plane(),), friction=FRICTION)
simulate = dg.Rollout(box, steps=400, dt=DT, contacts=ground)

start = np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0])  # m, and the quaternion x, y, z, w
thrown = np.array([0.6, 0.8, 0.0, 0.0, 0.0, 0.0])  # m/s, then rad/s
motion = simulate(start, thrown, np.zeros((400, 6)))

distance = np.linalg.norm(motion.q[-1, :2])
expected = 1.0**2 / (2.0 * FRICTION * GRAVITY)
force = motion.impulse[-1, :, 0].sum() / DT
print(f"the box slid {1e3 * distance:.1f} mm; v² / (2 μ g) is {1e3 * expected:.1f} mm")
print(f"the ground carries {force:.2f} N; the weight is {MASS * GRAVITY:.2f} N")
