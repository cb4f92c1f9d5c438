"""Speculative decoding is lossless: golden accept rule, exact distribution, exact log-probs, greedy equal to plain greedy."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ninefold.core.layout import DocLayout
from ninefold.engine.native import NativeEngine
from ninefold.engine.speculative import SpeculativeConfig, SpeculativeEngine, residual
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.weights import Weights
from tests.engine.test_native import STOP, ask, check, make, prompt, run
from tests.model.test_draft import spread_draft
from tests.model.test_k3 import spread


def engine_of(model: K3, *, proposals: int = 3, rows: int = 16, stop_ids: tuple[int, ...] = (STOP,)) -> SpeculativeEngine:
    config = SpeculativeConfig(rows=rows, capacity=128, prompts=3, proposals=proposals)
    return SpeculativeEngine(model, spread_draft(model), stop_ids=stop_ids, config=config)


def test_accept_rule_gives_the_target_distribution(golden: Path) -> None:
    vectors = load_file(golden / "spec/lossless.safetensors")
    p, q = vectors["p"], vectors["q"]
    accept = torch.where(q > 0, (p / q).clamp(max=1), 1.0)
    refused = 1 - (q * accept).sum(-1, keepdim=True)
    torch.testing.assert_close(q * accept + refused * residual(p, q), vectors["output"])
    torch.testing.assert_close(vectors["output"], p)
    apart = (p - q).abs().sum(-1) > 1e-9
    torch.testing.assert_close(residual(p, q)[apart], vectors["residual"][apart])


def test_sequences_are_distributed_as_the_target_says() -> None:
    """χ² of three tokens sampled through the draft against the target's exact distribution over all sequences."""
    vocabulary, length, samples = 6, 3, 6000
    model = spread(K3(preset("tiny", vocabulary)), 0.3)
    start = np.array([1, 4, 2], np.int32)
    sequences = np.array(list(itertools.product(range(vocabulary), repeat=length)))
    rows = np.concatenate([np.broadcast_to(start, (len(sequences), 3)), sequences], 1)
    with torch.no_grad():
        final = model(torch.from_numpy(rows.ravel()), DocLayout.of([6] * len(rows))).final_TD
        logp = torch.log_softmax(model.logits(final).double(), -1).view(len(rows), 6, vocabulary)[:, 2:5]
    exact = logp.gather(2, torch.from_numpy(sequences)[..., None]).sum((1, 2)).exp().numpy()
    assert exact.sum() == pytest.approx(1)
    engine = engine_of(model, rows=512, stop_ids=())
    done = run(engine, [ask(n, start, max_new=length) for n in range(samples)])
    code = np.array([c.ids @ vocabulary ** np.arange(length)[::-1] for c in done.values()])
    counts = np.bincount(code, minlength=len(exact))
    likely = exact * samples >= 5
    observed = np.append(counts[likely], counts[~likely].sum())
    expected = np.append(exact[likely], exact[~likely].sum()) * samples
    degrees = len(observed) - 1
    # Four standard deviations of χ² above its mean.
    assert ((observed - expected) ** 2 / expected).sum() < degrees + 4 * (2 * degrees) ** 0.5
    drafted, accepted = sum(c.drafted for c in done.values()), sum(c.accepted for c in done.values())
    assert 0.1 * drafted < accepted < 0.95 * drafted


@pytest.mark.parametrize("quantized", [False, True])
def test_logprobs_over_turns_are_the_trainers(quantized: bool) -> None:
    model = make(quantized=quantized)
    engine = engine_of(model)
    requests = [ask(n, prompt((1, 5, 40, 9)[n % 4], n % 4), max_new=4 + n % 9) for n in range(9)]
    for turn in range(3):
        done = run(engine, requests)
        following = []
        for n, request in enumerate(requests):
            completion = done[request.id]
            assert len(completion.ids) <= request.max_new
            check(model, request, completion)
            ids = np.concatenate([request.ids, completion.ids, prompt(1 + 3 * (n % 4), 100 + turn)])
            following.append(replace(request, id=f"r{n}.{turn}", ids=ids))
        requests = following


@pytest.mark.parametrize("proposals", [1, 2, 7])
def test_greedy_is_plain_greedy(proposals: int) -> None:
    model = make()
    with torch.no_grad():
        model.lm_head.weight.mul_(5)
    requests = [ask(n, prompt(2 + 5 * n, n), temperature=0.0, max_new=25) for n in range(6)]
    plain = run(NativeEngine(model, stop_ids=[STOP]), requests)
    quick = run(engine_of(model, proposals=proposals), requests)
    for request in requests:
        assert quick[request.id].ids.tolist() == plain[request.id].ids.tolist()
        assert quick[request.id].finish == plain[request.id].finish


def test_the_targets_own_mtp_layer_is_accepted_where_it_agrees() -> None:
    """A draft whose head says what the target's head says whatever it reads is always accepted."""
    model = make()
    with torch.no_grad():
        model.lm_head.weight.zero_()
    done = run(engine_of(model), [ask(n, prompt(6, n), max_new=13) for n in range(4)])
    for completion in done.values():
        assert completion.drafted == completion.accepted > 0 or completion.finish == "stop"


def test_pauses_loads_and_grammars_hold_with_a_draft() -> None:
    model, new = make(), make(seed=3)
    engine = engine_of(model)
    request = ask(0, prompt(12, 0), max_new=30)
    engine.submit([replace(request, max_new=2, id="short", session="x"), request])
    first = {c.request: c for c in [*engine.poll(), *engine.pause()]}
    check(model, request, first["r0"])
    engine.load(Weights.of(new), 1)
    rest = replace(request, ids=np.concatenate([request.ids, first["r0"].ids]), max_new=5)
    check(new, rest, run(engine, [rest])["r0"])

    class OnlyNine:
        def allowed(self, ids: np.ndarray) -> np.ndarray:
            return np.array([9] if len(ids) < 3 else [STOP], np.int32)

    held = run(engine, [ask(5, prompt(6, 1), allowed=OnlyNine()), ask(6, prompt(6, 2))])
    assert held["r5"].ids.tolist() == [9, 9, 9, STOP]
    assert held["r5"].drafted == 0
    check(new, ask(5, prompt(6, 1)), held["r5"])
