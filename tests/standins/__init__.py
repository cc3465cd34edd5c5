"""What stands in for boards: the Verilated accelerator behind the calls that a link makes of its system."""
