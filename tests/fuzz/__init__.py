"""The fuzzer: robots, functions, options, loops and call orders drawn from a seed, on every executor."""
