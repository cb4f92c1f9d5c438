"""Visual reasoning: questions on pictures that want looking closer, with Python that crops, zooms and turns them."""

from ninefold.agent.env.visual.family import Visual

__all__ = ["Visual"]
