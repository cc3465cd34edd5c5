"""Export gateware as Verilog and netlists."""
