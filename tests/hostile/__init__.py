"""Hostile cases that a seed draws: files, options and arguments that a stranger may send.

Each kind runs in a process of its own. A case ends in an error of the package or in a right result, within
`CPU_SECONDS`, and never ends the process.
"""
