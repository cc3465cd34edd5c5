"""The gateware of one core."""
