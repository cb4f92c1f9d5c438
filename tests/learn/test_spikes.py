"""Gradient norms that stand out."""

from __future__ import annotations

from ninefold.learn.spikes import EARLIEST, WINDOW, spikes


def test_a_spike_stands_out_of_what_came_before_it() -> None:
    calm = [1.0, 1.1, 0.9] * 20
    assert spikes(calm) == []
    assert spikes([*calm, 4.5, 1.0, 3.5]) == [60]
    assert spikes([*calm, *[5.0] * (WINDOW + 5)])[-1] < 60 + WINDOW, "a new level is no spike for ever"
    assert spikes([1.0] * (EARLIEST - 1) + [100.0]) == []
    assert spikes([]) == []
