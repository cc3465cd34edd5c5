"""A design to look at: its page, its schedule, and waveforms with groups of signals."""
