"""Hardware: scheduling and binding in plain Python, arithmetic units and datapath in Amaranth."""
