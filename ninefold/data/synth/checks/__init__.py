"""Verifiers that travel with synthesised tasks: each is one file that needs nothing but Python."""
