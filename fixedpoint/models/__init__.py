"""Integer models: the exact integers of the hardware, computed in numpy and C."""
