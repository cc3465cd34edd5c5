"""Targets: boards, device families, and the tools that make bitstreams for them."""
