"""One step of a robot through time by an explicit integrator."""
