"""The gradient of a batch of motions, shared by several processes or machines through JAX's own runtime.

`python examples/jax_processes.py` starts two processes on this machine. On each machine K of N, run

    python examples/jax_processes.py --coordinator HOST:PORT --processes N --process K

where HOST is machine 0. It prints the gradient by a gain that all processes share, and the largest difference from the
gradient that one process computes without the others.
"""

import argparse
import socket
import subprocess
import sys

import jax
import numpy as np
from dynagate.jax import rollout
from jax.sharding import AxisType, NamedSharding, PartitionSpec

ROBOTS, STEPS = 64, 20


def work(coordinator: str, processes: int, process: int) -> None:
    """Compute with the rows of this process. Each process sees the devices of all processes."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, processes, process)
    mesh = jax.make_mesh((jax.device_count(),), ("robots",), (AxisType.Auto,))
    rows, whole = PartitionSpec("robots"), PartitionSpec()
    simulate = rollout("two_joint_arm", STEPS, 0.01)

    def cost(gain: jax.Array, start: jax.Array, torques: jax.Array) -> jax.Array:
        return (simulate(start, 0 * start, gain * torques).q[:, -1] ** 2).mean()

    def mean_cost(gain: jax.Array, start: jax.Array, torques: jax.Array) -> jax.Array:
        return jax.lax.psum(cost(gain, start, torques), "robots") / jax.device_count()

    random = np.random.default_rng(0)
    arrays = random.uniform(-0.5, 0.5, (ROBOTS, 2)), random.uniform(-1.0, 1.0, (ROBOTS, STEPS, 2))
    parts = [np.split(x, processes)[process] for x in arrays]
    split = [jax.make_array_from_process_local_data(NamedSharding(mesh, rows), x) for x in parts]
    gain = np.array([0.5, 2.0])
    shared = jax.shard_map(mean_cost, mesh=mesh, in_specs=(whole, rows, rows), out_specs=whole)
    expected = np.asarray(jax.grad(cost)(gain, *arrays))  # on this process only
    for name, function in (("shard_map and psum", shared), ("jit of split arrays", cost)):
        gradient = np.asarray(jax.jit(jax.grad(function))(gain, *split).addressable_data(0))
        print(f"process {process}, {name}: {gradient}, difference {abs(gradient - expected).max():.1e}", flush=True)


def main() -> int:
    """Run this process, or two processes on this machine if no coordinator is given."""
    parser = argparse.ArgumentParser(description="Share a gradient between processes.")
    parser.add_argument("--coordinator", help="Connect to process 0 at HOST:PORT.")
    parser.add_argument("--processes", type=int, default=2, help="Start this number of processes (default 2).")
    parser.add_argument("--process", type=int, default=0, help="Compute the part with this number, from 0 (default 0).")
    options = parser.parse_args()
    if options.coordinator:
        work(options.coordinator, options.processes, options.process)
        return 0
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    size = ["--coordinator", address, "--processes", str(options.processes)]
    commands = [[sys.executable, __file__, *size, "--process", str(k)] for k in range(options.processes)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    for process in started:  # a pipe for each process: Gloo writes parts of lines to stdout too
        print(process.communicate()[0], end="", flush=True)
    return max(abs(process.returncode) for process in started)


if __name__ == "__main__":
    sys.exit(main())
