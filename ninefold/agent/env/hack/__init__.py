"""Attacks on families: the catalogue of public reward hacks, and an agent that makes wrong solutions out of right ones."""

from ninefold.agent.env.hack.suite import Attempt, Report, attack

__all__ = ["Attempt", "Report", "attack"]
