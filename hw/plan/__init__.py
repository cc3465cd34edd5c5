"""Schedules: what each operation costs, when it starts, and which unit and register it takes."""
