"""Find the one document that answers, in an index of real documentation."""

from ninefold.agent.env.search.family import Search

__all__ = ["Search"]
