"""Mend a program: a file with a bug, a public test that fails, hidden tests that decide."""

from ninefold.agent.env.repair.family import Repair

__all__ = ["Repair"]
