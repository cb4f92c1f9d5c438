"""Questions on a picture, which nothing but the picture answers."""

from ninefold.agent.env.picture.family import PictureFamily as Picture

__all__ = ["Picture"]
