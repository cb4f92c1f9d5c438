"""Research: several searches over an index, then a short note in which every fact is cited."""

from ninefold.agent.env.research.family import Research

__all__ = ["Research"]
