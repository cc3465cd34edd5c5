"""Robots whose frames are held, by contacts or by each other: rows of constraints, and forces that satisfy them."""
