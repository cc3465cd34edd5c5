"""Integrators whose steps solve equations: residuals, root finders and their adjoint."""
