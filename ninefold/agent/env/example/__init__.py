"""Put things where they belong."""

from .family import Example

FAMILY = Example()
