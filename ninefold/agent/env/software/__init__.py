"""Mend and extend repositories: an issue, public tests that fail, hidden tests that decide."""

from ninefold.agent.env.software.family import Software

__all__ = ["Software"]
