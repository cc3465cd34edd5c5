"""Views of a design: its page, its schedule, and waveforms with groups of signals."""
