"""Tasks of a checkout of tau2-bench: its tools and databases, run in an interpreter of its own."""

from ninefold.agent.env.tau2.family import Tau2

__all__ = ["Tau2"]
