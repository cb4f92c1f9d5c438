"""Seeds and splits: fixed for ever, and told apart by every name."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.seeds import rng_of, seed_of, split_of
from ninefold.core.types import SPLITS

NAMES = st.lists(st.text(st.characters(exclude_characters="\x1f", exclude_categories=["Cs"])) | st.integers(), max_size=4)


def test_seeds_are_those_of_every_machine() -> None:
    """Literals: were they to change, runs and splits of older versions could not be made again."""
    assert seed_of() == 8238016292129134938
    assert seed_of("task", "coding", 3) == 1251895436706325777
    assert rng_of("style", 7).getrandbits(32) == 2620468133
    assert [split_of(f"key {n}") for n in range(6)] == ["heldout", "train", "dev", "corpus", "train", "dev"]


@given(NAMES, NAMES)
def test_names_and_their_order_make_the_seed(a: list[object], b: list[object]) -> None:
    same = list(map(str, a)) == list(map(str, b)) or {str(a), str(b)} <= {"[]", "['']"}
    assert (seed_of(*a) == seed_of(*b)) == same
    assert 0 <= seed_of(*a) < 2**63


def test_shares_of_the_splits() -> None:
    counts = Counter(split_of(str(n)) for n in range(20_000))
    assert counts.keys() == set(SPLITS)
    for split, share in {"heldout": 0.1, "dev": 0.1, "corpus": 0.2, "train": 0.6}.items():
        assert abs(counts[split] / 20_000 - share) < 0.02
