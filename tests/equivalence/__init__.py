"""Equivalence of netlists and models, for the tests of gateware."""
