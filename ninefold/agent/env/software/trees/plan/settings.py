"""Of the office."""

OPEN = 8
"""Hour at which work starts."""
HOURS = 9
"""Of a working day."""
SCALE = 2
"""Hours that a character of a chart stands for."""
