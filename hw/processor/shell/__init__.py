"""The gateware of cores behind AXI4-Stream and AXI4-Lite."""
