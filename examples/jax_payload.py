"""Identifies what a robot carries: gradient descent on a link's inertial parameters, through inverse dynamics.

    python examples/jax_payload.py [two_joint_arm | PATH]

A two-joint arm swings with 0.8 kg bolted to its forearm, another robot to its last link. From states and torques the
ten inertial parameters of the forearm follow by Newton's method on the squared torque error: JAX differentiates
through the compiled C, twice.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

from dynagate import robots
from dynagate.dynamics.parameters import parameters_of
from dynagate.jax import function

robot = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else "two_joint_arm"
arm = robots.load(robot)
forearm = arm.links[-1]
loaded = forearm.joined(0.8, (0.0, 0.0, 0.25), ((0.002, 0, 0), (0, 0.002, 0), (0, 0, 0.001)))
truth = jnp.array(parameters_of(loaded))
inverse_dynamics = function(arm, "inverse_dynamics", variable=(forearm.name,))

states = np.random.default_rng(1).normal(size=(3, 200, arm.nv))
measured = inverse_dynamics(*states, jnp.tile(truth, (200, 1))).tau


def error(parameters: jax.Array) -> jax.Array:
    """Mean square of the torque error, (N m)²."""
    torque = inverse_dynamics(*states, jnp.broadcast_to(parameters, (200, 10))).tau
    return jnp.mean((torque - measured) ** 2)


guess = jnp.array(parameters_of(forearm))
first = float(error(guess))
# some parameters do not move the torques of a planar arm: least squares leaves them alone
step = jnp.linalg.lstsq(jax.hessian(error)(guess), jax.grad(error)(guess), rcond=1e-9)[0]
estimate = guess - step
last = float(error(estimate))
moment = forearm.mass * forearm.com[2], float(estimate[3]), float(truth[3])
if __name__ == "__main__":
    print(f"mean square error of the torque: {first:.3g} (N m)² with the empty forearm, {last:.3g} after one step")
    print("first moment of the forearm: {:.4f} kg m empty, {:.4f} estimated, {:.4f} true".format(*moment))
