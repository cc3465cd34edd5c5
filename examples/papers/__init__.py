"""What the integrators of the papers are compared with, their figures, and learning on them."""
