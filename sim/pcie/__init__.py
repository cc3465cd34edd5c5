"""A model of the PCIe card: its link, registers and DMA, and the benches of both."""
