"""Build a site: a brief, an empty folder, and a browser that uses what was built."""

from ninefold.agent.env.web.family import Web

__all__ = ["Web"]
