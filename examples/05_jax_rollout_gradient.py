"""The gradient of a whole motion in JAX. For everyone who learns through a simulator: pip install 'dynagate[jax]'.

BFGS finds torques that bring an arm to a goal at rest. One call computes all 50 steps, and one more their
gradient. It prints a directional derivative next to finite differences, and the loss before and after.
"""

import dynagate as dg
import jax
import jax.numpy as jnp
from dynagate.jax import rollout
from jax.scipy.optimize import minimize

jax.config.update("jax_enable_x64", True)
robot = dg.robots.load("two_joint_arm")
simulate = rollout(robot, 50, 0.01)  # number of steps, and seconds per step
start, goal = jnp.array([0.2, -0.4]), jnp.array([0.6, 0.3])  # rad
hold = jnp.asarray(dg.compile(robot, "gravity_torque")(start).gravity_torque)


def loss(torques: jax.Array) -> jax.Array:
    """Return the squared distance from the goal and the squared speed at the end, plus a little for the torques."""
    motion = simulate(start, jnp.zeros(2), hold + torques)
    return ((motion.q[-1] - goal) ** 2).sum() + 0.01 * (motion.qd[-1] ** 2).sum() + 1e-6 * (torques**2).sum()


slope = jax.grad(lambda flat: loss(flat.reshape(50, 2)))
along = jax.random.normal(jax.random.key(0), (50, 2))
numeric = (loss(1e-5 * along) - loss(-1e-5 * along)) / 2e-5
exact = slope(jnp.zeros(100)) @ along.ravel()
print(f"slope along a random direction: {exact:.6f}, by finite differences {numeric:.6f}")

found = minimize(lambda flat: loss(flat.reshape(50, 2)), jnp.zeros(100), method="BFGS", options={"maxiter": 100})
torques = found.x.reshape(50, 2)
print(f"loss {loss(jnp.zeros((50, 2))):.3f} -> {found.fun:.6f} in {found.nit} iterations")
