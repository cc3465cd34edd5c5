"""Dynamics with constraints: contacts and closed loops, their rows, and the forces that satisfy them."""
