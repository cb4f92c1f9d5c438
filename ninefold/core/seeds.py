"""Seeds and splits from names: stable over processes, machines and Python versions."""

from __future__ import annotations

import hashlib
import random

from ninefold.core.types import Split


def seed_of(*names: object) -> int:
    """63-bit seed that depends on every name and their order."""
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def rng_of(*names: object) -> random.Random:
    """A generator seeded by names."""
    return random.Random(seed_of(*names))


def split_of(key: str, *, heldout: float = 0.1, dev: float = 0.1) -> Split:
    """The split that a content key falls into by its hash, so that equal content never lies in two splits."""
    place = seed_of("split", key) / 2**63
    return "heldout" if place < heldout else "dev" if place < heldout + dev else "train"
