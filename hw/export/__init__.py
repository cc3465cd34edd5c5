"""From gateware to Verilog and netlists."""
