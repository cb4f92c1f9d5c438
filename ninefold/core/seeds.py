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


_SHARES: tuple[tuple[Split, float], ...] = (("heldout", 0.1), ("dev", 0.1), ("corpus", 0.2), ("train", 0.6))


def split_of(key: str) -> Split:
    """The split that a content key falls into by its hash, so that equal content never lies in two splits."""
    place = seed_of("split", key) / 2**63
    for split, share in _SHARES:
        place -= share
        if place < 0:
            return split
    return "train"
