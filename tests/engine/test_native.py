"""The native engine: exact log-probs over sessions, weights and pauses; seeds; sampling; rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from ninefold.core.errors import EngineError
from ninefold.core.layout import DocLayout
from ninefold.core.protocols import Completion, Request
from ninefold.core.types import IntArray
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.weights import Weights
from tests.model.test_k3 import spread

STOP = 7


def make(seed: int = 0, *, quantized: bool = False) -> K3:
    model = spread(K3(preset("tiny"), seed=seed), 0.05)
    model.quantize(quantized)
    return model


def prompt(length: int, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(8, 256, length).astype(np.int32)


def ask(n: int, ids: IntArray, **fields: object) -> Request:
    return replace(Request(id=f"r{n}", session=f"s{n}", ids=ids, max_new=12, seed=n), **fields)


def run(engine: NativeEngine, requests: Sequence[Request]) -> dict[str, Completion]:
    engine.submit(requests)
    done: dict[str, Completion] = {}
    while engine.in_flight:
        done |= {c.request: c for c in engine.poll()}
    return done


def recomputed(model: K3, ids: IntArray, new: int) -> np.ndarray:
    """The trainer's log-probabilities of the last `new` tokens."""
    with torch.no_grad():
        final = model(torch.from_numpy(ids).long(), DocLayout.of([len(ids)])).final_TD
        logp = torch.log_softmax(model.logits(final), -1)
    return logp[-new - 1 : -1].gather(1, torch.from_numpy(ids[-new:]).long()[:, None]).squeeze(1).numpy()


def check(model: K3, request: Request, completion: Completion) -> None:
    """The engine says what the trainer says; without quantisation either says what float64 says."""
    ids, new = np.concatenate([request.ids, completion.ids]), len(completion.ids)
    wanted = recomputed(model, ids, new)
    apart = np.abs(wanted - completion.logprobs)
    # Where an input of the experts lies on a rounding boundary of MXFP8, packed and stepped forms may round it apart.
    assert np.quantile(apart, 0.75) < 1e-5
    if model.quantized:
        assert apart.max() < 2e-2
        return
    exact = recomputed(copy.deepcopy(model).double(), ids, new)
    for logprobs in (wanted, completion.logprobs):
        assert np.abs(logprobs - exact).max() < 1e-5


@pytest.mark.parametrize("quantized", [False, True])
def test_logprobs_over_many_turns_are_the_trainers(quantized: bool) -> None:
    model = make(quantized=quantized)
    engine = NativeEngine(model, stop_ids=[STOP], config=NativeConfig(rows=16, capacity=128, prompts=3))
    shared = [prompt(n, n) for n in (1, 5, 40, 23, 9)]
    requests = [ask(n, shared[n % 5], max_new=3 + n % 9) for n in range(12)]
    for turn in range(3):
        done = run(engine, requests)
        assert len(done) == 12
        following = []
        for n, request in enumerate(requests):
            completion = done[request.id]
            check(model, request, completion)
            ids = np.concatenate([request.ids, completion.ids, prompt(1 + 3 * (n % 4), 100 + turn)])
            following.append(replace(request, id=f"r{n}.{turn}", ids=ids))
        requests = following


def test_quantised_logprobs_are_the_trainers_to_accumulation() -> None:
    """At a shape that the kernels take, rounding to MXFP8 falls alike in packed and stepped forms: no token is far off."""
    model = spread(K3(preset("nano", 256)), 0.05)
    model.quantize()
    engine = NativeEngine(model, stop_ids=[STOP], config=NativeConfig(rows=16, capacity=128, prompts=3))
    requests = [ask(n, prompt(3 + 5 * n, n), max_new=20) for n in range(8)]
    for _ in range(2):
        done = run(engine, requests)
        rows = [np.concatenate([r.ids, done[r.id].ids]) for r in requests]
        apart = [np.abs(recomputed(model, ids, len(done[r.id].ids)) - done[r.id].logprobs) for r, ids in zip(requests, rows)]
        assert max(a.max() for a in apart) < 1e-5
        requests = [replace(r, id=f"{r.id}.", ids=np.concatenate([ids, prompt(6, 9)])) for r, ids in zip(requests, rows)]


def test_draws_do_not_depend_on_the_batch() -> None:
    model = make()
    requests = [ask(n, prompt(3 + n, n)) for n in range(10)]
    together = run(NativeEngine(model, stop_ids=[STOP]), requests)
    narrow = run(NativeEngine(model, stop_ids=[STOP], config=NativeConfig(rows=3, capacity=64, prompts=1)), requests[::-1])
    for request in requests:
        assert together[request.id].ids.tolist() == narrow[request.id].ids.tolist()
        np.testing.assert_allclose(together[request.id].logprobs, narrow[request.id].logprobs, atol=1e-5)


def test_a_paused_request_goes_on_as_if_it_never_stopped() -> None:
    model = make()
    requests = [ask(n, prompt(6, n), max_new=20) for n in range(6)]
    whole = run(NativeEngine(model, stop_ids=[STOP]), requests)
    engine = NativeEngine(model, stop_ids=[STOP], config=NativeConfig(rows=4, capacity=64))
    engine.submit([replace(r, max_new=1 if r.id == "r0" else 20) for r in requests])
    first = {c.request: c for c in [*engine.poll(), *engine.pause()]}
    assert engine.in_flight == 0
    assert {c.finish for c in first.values()} >= {"paused"}
    assert first["r5"].finish == "paused"
    assert len(first["r5"].ids) == 0
    rest = []
    for request in requests:
        had = first[request.id].ids
        rest.append(replace(request, ids=np.concatenate([request.ids, had]), max_new=20 - len(had)))
    done = run(engine, [r for r in rest if first[r.id].finish != "stop"])
    for request in requests:
        both = np.concatenate([first[request.id].ids, done[request.id].ids]) if request.id in done else first[request.id].ids
        assert both.tolist() == whole[request.id].ids.tolist()


def test_new_weights_drop_every_cache() -> None:
    old, new = make(seed=0), make(seed=1)
    engine = NativeEngine(old, stop_ids=[STOP], version=4)
    first = ask(0, prompt(30, 0))
    before = run(engine, [first])["r0"]
    assert before.policy_version == 4
    engine.submit([ask(1, first.ids)])
    with pytest.raises(EngineError, match="in flight"):
        engine.load(Weights.of(new), 5)
    engine.pause()
    engine.load(Weights.of(new), 5)
    ids = np.concatenate([first.ids, before.ids])
    for request in (ask(0, ids), ask(2, first.ids)):
        after = run(engine, [request])[request.id]
        assert after.policy_version == 5
        check(new, request, after)
        cold = run(NativeEngine(new, stop_ids=[STOP]), [request])[request.id]
        assert after.ids.tolist() == cold.ids.tolist()


def test_broken_weights_are_refused_and_the_old_ones_kept() -> None:
    model = make()
    engine = NativeEngine(model, stop_ids=[STOP])
    broken = make(seed=1)
    with torch.no_grad():
        broken.lm_head.weight[3, 3] = float("inf")
    with pytest.raises(EngineError, match="not finite"):
        engine.load(Weights.of(broken), 1)
    assert engine.policy_version == 0
    check(model, ask(0, prompt(5, 0)), run(engine, [ask(0, prompt(5, 0))])["r0"])


def test_endings() -> None:
    model = make()
    with torch.no_grad():
        model.lm_head.weight.mul_(3)
    greedy = run(NativeEngine(model, stop_ids=[]), [ask(0, prompt(9, 0), temperature=0.0, max_new=6)])["r0"]
    assert greedy.finish == "length"
    assert len(greedy.ids) == 6
    end = int(greedy.ids[3])
    engine = NativeEngine(model, stop_ids=[end], config=NativeConfig(rows=2, capacity=12))
    first = greedy.ids.tolist().index(end)
    stopped = run(engine, [ask(0, prompt(9, 0), temperature=0.0, max_new=6, session="a")])["r0"]
    full = run(engine, [ask(1, prompt(11, 1), max_new=6), ask(2, prompt(12, 2)), ask(3, prompt(2, 2), max_new=0)])
    assert stopped.ids.tolist() == greedy.ids[: min(first + 1, 3)].tolist()
    assert (full["r1"].finish, len(full["r1"].ids)) in {("length", 1), ("stop", 1)}
    assert (full["r2"].finish, len(full["r2"].ids)) == ("length", 0)
    assert (full["r3"].finish, len(full["r3"].ids)) == ("length", 0)


def test_a_session_that_was_rewritten_starts_over() -> None:
    model = make()
    engine = NativeEngine(model, stop_ids=[STOP])
    run(engine, [ask(0, prompt(20, 0))])
    for ids in (prompt(20, 1), prompt(4, 0)):
        request = ask(0, ids)
        check(model, request, run(engine, [request])["r0"])
    engine.release("s0")
    engine.release("s0")
    check(model, ask(0, prompt(20, 0)), run(engine, [ask(0, prompt(20, 0))])["r0"])


def test_grammar_constrains_draws_but_not_logprobs() -> None:
    class Even:
        def allowed(self, ids: IntArray) -> IntArray:
            return np.array([STOP], np.int32) if len(ids) == 4 else np.arange(8 + len(ids) % 2, 256, 2, dtype=np.int32)

    model = make()
    request, free = ask(0, prompt(5, 0), allowed=Even()), ask(1, prompt(5, 1))
    done = run(NativeEngine(model, stop_ids=[STOP]), [request, free])
    ids = done["r0"].ids
    assert [i % 2 for i in ids[:4].tolist()] == [0, 1, 0, 1]
    assert ids[4] == STOP
    assert done["r0"].finish == "stop"
    check(model, request, done["r0"])


def test_a_request_cannot_run_twice_at_once() -> None:
    engine = NativeEngine(make(), stop_ids=[STOP])
    engine.submit([ask(0, prompt(5, 0))])
    with pytest.raises(AssertionError, match="in flight already"):
        engine.submit([ask(0, prompt(5, 0))])
    assert engine.in_flight == 1
    assert len(engine.pause()) == 1
    assert engine.poll() == []
