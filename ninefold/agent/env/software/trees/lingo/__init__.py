"""A small language of whole numbers: `x = 2; y = x * (3 + 4)`."""
