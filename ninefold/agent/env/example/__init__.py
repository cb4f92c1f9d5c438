"""Put things where they belong: an example of a family, which `ninefold task new` copies."""

from .family import Example

FAMILY = Example()
