"""Methods that step a robot through time, one file a method."""
