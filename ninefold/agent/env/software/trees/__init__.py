"""The repositories that tasks are made of, as they are when nothing is broken: text to the family, never imported by it.

Nothing here loops without a bound, so that no edit of it can run for ever.
"""
