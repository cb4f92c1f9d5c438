"""Which rows a request may continue, and that continuing with nothing new is the same as starting over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.protocols import Request
from ninefold.core.types import IntArray
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.rows import RowTable
from ninefold.engine.speculative import SpeculativeConfig, SpeculativeEngine
from tests.engine.test_native import STOP, ask, make, prompt, run
from tests.model.test_draft import spread_draft

FEW_IDS = st.lists(st.integers(0, 1), min_size=1, max_size=5)


@given(FEW_IDS, FEW_IDS)
def test_a_row_is_continued_by_exactly_what_begins_with_it(held: list[int], asked: list[int]) -> None:
    table = RowTable(2, 8)
    row = table.take("s")
    assert row is not None
    table.start(row, Request(id="r", session="s", ids=np.array(held, np.int32), max_new=1, seed=0))
    assert table.holds(row, np.array(asked, np.int32)) == (asked[: len(held)] == held)


def sliced(engine: NativeEngine, request: Request, slices: list[int], *, forget: bool) -> tuple[IntArray, np.ndarray]:
    """The request's tokens and log-probabilities, asked for in slices of one session."""
    ids, logprobs = request.ids, list[np.ndarray]()
    for n in slices:
        done = run(engine, [replace(request, ids=ids, max_new=n)])[request.id]
        ids = np.concatenate([ids, done.ids])
        logprobs.append(done.logprobs)
        if forget:
            engine.release(request.session)
    return ids[len(request.ids) :], np.concatenate(logprobs)


@pytest.mark.parametrize("length", [1, 2, 30])
@pytest.mark.parametrize("drafted", [False, True])
def test_slices_of_a_session_equal_slices_computed_anew(drafted: bool, length: int) -> None:
    model = make()
    request, slices = ask(0, prompt(length, 3)), [1, 4, 1, 6]
    config = SpeculativeConfig(rows=2, capacity=64, prompts=2)

    def engine() -> NativeEngine:
        if drafted:
            return SpeculativeEngine(model, spread_draft(model), stop_ids=(), config=config)
        return NativeEngine(model, stop_ids=(), config=NativeConfig(rows=2, capacity=64, prompts=2))

    ids, logprobs = sliced(engine(), request, slices, forget=False)
    again, wanted = sliced(engine(), request, slices, forget=True)
    assert ids.tolist() == again.tolist()
    np.testing.assert_allclose(logprobs, wanted, atol=1e-5)
    if not drafted:
        whole = run(engine(), [replace(request, max_new=sum(slices))])[request.id]
        assert np.array_equal(ids, whole.ids)
        assert np.array_equal(logprobs, whole.logprobs), "no token was taken in a second time"


@pytest.mark.parametrize("drafted", [False, True])
def test_a_pause_before_the_first_token_is_no_loss(drafted: bool) -> None:
    model = make()
    config = SpeculativeConfig(rows=4, capacity=64, prompts=2)
    requests = [ask(n, prompt(7, n), max_new=9) for n in range(3)]

    def engine() -> NativeEngine:
        if drafted:
            return SpeculativeEngine(model, spread_draft(model), stop_ids=(STOP,), config=config)
        return NativeEngine(model, stop_ids=(STOP,), config=config)

    wanted = run(engine(), requests)
    paused = engine()
    paused.submit(requests)
    first = {c.request: c for c in paused.pause()}
    assert all(c.finish == "paused" and not len(c.ids) for c in first.values())
    done = run(paused, requests)
    assert all(done[r.id].ids.tolist() == wanted[r.id].ids.tolist() for r in requests)
