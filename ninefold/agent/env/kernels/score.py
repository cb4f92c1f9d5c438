"""What a right kernel earns for its speed."""

from __future__ import annotations

from math import log

EXPERT = 0.5
"""At the expert's speed (report, kernels: 0.5 at the expert's speed, towards 1 at the roofline)."""
PASSED = 0.9
"""Share of the bound below which a time is no time: the bound itself is measured, to a few per cent."""


def score(*, ratio: float, expert: float, bound: float) -> float:
    """In (0, 1]: `ratio` is the candidate's time over the expert's, `expert` and `bound` are seconds of a call.

    The report gives the two ends. Between them ours is linear in the logarithm of the speed, so that equal factors earn
    alike on every operation: 0.5 + 0.5 ln(1/ratio) / ln(expert/bound). Below the expert it is 0.5/ratio, half the reward for
    half the speed, which is smooth, never 0, and hurries nobody who is still far away. [ours]
    """
    if ratio >= 1:
        return EXPERT / ratio
    room = max(expert / bound, 1 / ratio)
    return min(1.0, EXPERT + (1 - EXPERT) * log(1 / ratio) / log(room))
