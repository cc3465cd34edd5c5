"""Boards, families and the flows that make bitstreams for them."""
