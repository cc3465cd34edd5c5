"""Compile graphs and loops to schedules and program words for a core of one shape."""
