"""The scripted engine keeps the engine's contract."""

from __future__ import annotations

import numpy as np
import pytest

from ninefold.core.errors import EngineError
from ninefold.core.protocols import Request
from ninefold.engine.scripted import ScriptedEngine
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.weights import Weights


def test_answers_in_order_and_within_the_limit() -> None:
    engine = ScriptedEngine(lambda request: np.arange(request.seed, request.seed + 5, dtype=np.int32))
    ids = np.array([1, 2], np.int32)
    requests = [Request(id=str(n), session=str(n), ids=ids, max_new=3 + n, seed=n) for n in range(4)]
    engine.submit(requests)
    with pytest.raises(EngineError, match="in flight"):
        engine.load(Weights.of(K3(preset("tiny"))), 1)
    first, second, third = engine.poll()[0], engine.poll()[0], engine.poll()[0]
    assert (first.ids.tolist(), first.finish) == ([0, 1, 2], "length")
    assert (second.ids.tolist(), second.finish) == ([1, 2, 3, 4], "length")
    assert (third.ids.tolist(), third.finish) == ([2, 3, 4, 5, 6], "stop")
    assert third.logprobs.tolist() == [0.0] * 5
    paused = engine.pause()
    assert [(c.request, c.finish, len(c.ids)) for c in paused] == [("3", "paused", 0)]
    assert engine.in_flight == 0
    assert engine.poll() == []
    engine.load(Weights.of(K3(preset("tiny"))), 2)
    assert engine.policy_version == 2
