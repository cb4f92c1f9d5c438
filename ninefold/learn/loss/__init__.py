"""Losses over per-token streams. Each gives a sum and its token count, so that any split of a batch gives one gradient."""
