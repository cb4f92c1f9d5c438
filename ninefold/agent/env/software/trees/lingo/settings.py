"""Of the language."""

MODULUS = 1000
"""Every value is kept below it, by remainder."""
DEEPEST = 4
"""Most parentheses that may be open at once."""
WIDTH = 24
"""Characters of a line of output."""
