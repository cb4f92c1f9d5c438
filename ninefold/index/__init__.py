"""Search over documents."""

from ninefold.index.lexical import Document, Hit, Index

__all__ = ["Document", "Hit", "Index"]
