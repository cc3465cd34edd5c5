"""Tests, with the robots, states and tolerances that they share."""
