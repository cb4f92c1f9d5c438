"""Microscaling number formats: one quantiser for training, generation and export."""
