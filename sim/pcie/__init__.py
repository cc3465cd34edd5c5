"""A model of a PCIe card: its link, registers and DMA engine, and their benches."""
