"""The comparison: what each device takes for the same function of the same robot, measured in one run."""
