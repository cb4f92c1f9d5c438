"""Rows grow through `append` alone, and every stream of theirs stays aligned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.types import Row, Segment, append


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    n = draw(st.integers(0, 5))
    ids = np.array(draw(st.lists(st.integers(0, 999), min_size=n, max_size=n)), np.int32)
    mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_) if draw(st.booleans()) else None
    if draw(st.booleans()):
        return Segment(ids=ids, source="rendered", message=draw(st.integers(0, 3)), mask=mask)
    return Segment(
        ids=ids, source="sampled", message=draw(st.integers(0, 3)), mask=mask, logprobs=np.full(n, -0.5, np.float32),
        policy_version=draw(st.integers(0, 9)), finish_reason=draw(st.sampled_from([None, "stop", "paused"])),
    )  # fmt: skip


@given(st.lists(segments(), max_size=6), st.integers(0, 6))
def test_append_keeps_what_stood_there_and_drops_only_what_says_nothing(parts: list[Segment], at: int) -> None:
    first = append(Row(), *parts[:at])
    row = append(first, *parts[at:])
    assert row.segments[: len(first.segments)] == first.segments
    assert row.ids[: len(first)].tolist() == first.ids.tolist()
    assert list(row.segments) == [part for part in parts if len(part.ids) or part.finish_reason]
    for part in parts:
        first = append(first, part)
    assert append(Row(), *parts).ids.tolist() == row.ids.tolist() == [i for part in parts for i in part.ids.tolist()]


@given(st.lists(segments(), max_size=6))
def test_streams_are_aligned_with_the_ids(parts: list[Segment]) -> None:
    row = append(Row(), *parts)
    of = [part for part in parts for _ in part.ids]
    assert len(row) == len(row.ids) == len(of)
    assert row.sampled_mask.tolist() == [part.source == "sampled" for part in of]
    assert row.versions.tolist() == [-1 if part.policy_version is None else part.policy_version for part in of]
    assert row.logprobs.tolist() == [-0.5 if part.source == "sampled" else 0.0 for part in of]
    assert row.loss_mask.tolist() == [bool(m) for part in parts for m in part.loss_mask]
    assert all(part.mask is None or part.loss_mask is part.mask for part in parts)


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "sampled"},
        {"source": "rendered", "policy_version": 3},
        {"source": "sampled", "policy_version": 3, "logprobs": np.zeros(1, np.float32)},
        {"source": "rendered", "mask": np.zeros(3, np.bool_)},
        {"source": "rendered", "expert_ids": np.zeros((3, 1, 2), np.uint16)},
    ],
)
def test_streams_of_another_length_or_origin_are_our_own_fault(fields: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        Segment(ids=np.arange(2, dtype=np.int32), message=0, **fields)  # type: ignore[arg-type]
