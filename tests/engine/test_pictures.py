"""Pictures in the native engine: exact log-probs, prompts shared by picture as well as by text, nothing kept for ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.protocols import Completion, Request
from ninefold.core.types import Sample
from ninefold.engine import native
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.speculative import SpeculativeConfig, SpeculativeEngine
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.tokens import token_logprobs
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.weights import Weights
from tests.engine.test_native import STOP, ask, prompt, run
from tests.model.test_draft import spread_draft
from tests.model.test_k3 import spread

PAD = 10
CONFIG = NativeConfig(rows=8, capacity=128, prompts=4)


def picture(seed: int, height: int = 24, width: int = 24) -> Picture:
    return Picture.of(np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8))


def make(seed: int = 0, *, quantized: bool = False) -> K3:
    model = spread(K3(preset("nano-vision", 256), seed=seed), 0.05)
    model.quantize(quantized)
    return model


def asked(n: int, *shown: Picture, text: int = 0, length: int = 15, **fields: object) -> Request:
    """A request whose text is number `text` and whose pictures stand at its second, fifth, … place."""
    ids = prompt(length, text)
    ids[ids == PAD] += 1
    ids[1 : 1 + 3 * len(shown) : 3] = PAD
    return ask(n, ids, pictures=shown, **fields)


def check(model: K3, request: Request, completion: Completion) -> None:
    """The trainer's log-probabilities of the same row are those of the engine."""
    ids = np.concatenate([request.ids, completion.ids])
    mask = np.arange(len(ids)) >= len(request.ids)
    (batch,) = micro_batches([Sample(ids=ids, mask=mask, pictures=request.pictures)], 999, model.sight)
    with torch.no_grad():
        apart = (token_logprobs(model, batch).logprob_N - torch.from_numpy(completion.logprobs)).abs()
    assert PAD not in completion.ids
    assert apart.max() < (2e-2 if model.quantized else 1e-5)
    assert apart.quantile(0.75) < 1e-5


@pytest.mark.parametrize("quantized", [False, True])
def test_logprobs_are_the_trainers(quantized: bool) -> None:
    model = make(quantized=quantized)
    engine = NativeEngine(model, stop_ids=[STOP], config=CONFIG)
    requests = [
        asked(0, picture(0)),
        asked(1, picture(1), picture(2, 12, 30), text=1),
        asked(2, text=2),
        asked(3, picture(3, 7, 5)),
        asked(4, picture(1), picture(2, 12, 30), text=1),
    ]
    done = run(engine, requests)
    for request in requests:
        check(model, request, done[request.id])


def test_equal_text_with_another_picture_shares_no_prompt() -> None:
    model = make()
    requests = [asked(n, picture(n % 2)) for n in range(4)]
    together = run(NativeEngine(model, stop_ids=[STOP], config=CONFIG), requests)
    for request in requests:
        alone = run(NativeEngine(model, stop_ids=[STOP], config=CONFIG), [request])[request.id]
        assert np.array_equal(together[request.id].ids, alone.ids)
        check(model, request, together[request.id])
    first, second = (asked(9, picture(n), temperature=0.0, seed=1) for n in range(2))
    engine = NativeEngine(model, stop_ids=[STOP], config=CONFIG)
    for request in (first, second):
        check(model, request, run(engine, [request])[request.id])


def test_a_session_goes_on_with_more_pictures_and_new_weights() -> None:
    """Three turns, the second picture in the second one; then the same row under other weights."""
    model = make()
    engine = NativeEngine(model, stop_ids=[STOP], config=CONFIG)
    request = asked(0, picture(0), max_new=5)
    for turn in range(3):
        done = run(engine, [request])[request.id]
        check(model, request, done)
        new = np.array([PAD, 33, 34], np.int32) if turn == 0 else np.array([44, 45], np.int32)
        shown = (*request.pictures, picture(7)) if turn == 0 else request.pictures
        ids = np.concatenate([request.ids, done.ids, new])
        request = replace(request, id=f"r{turn + 1}", ids=ids, pictures=shown)
    other = make(seed=5)
    engine.load(Weights.of(other), 1)
    check(other, request, run(engine, [request])[request.id])


def test_pictures_that_nobody_waits_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "GALLERY", 8)
    model = make()
    engine = NativeEngine(model, stop_ids=[STOP], config=CONFIG)
    for turn in range(6):
        requests = [asked(10 * turn + n, picture(10 * turn + n), picture(0), text=n) for n in range(10)]
        done = run(engine, requests)
        for request in requests:
            check(model, request, done[request.id])
    assert isinstance(engine._decoder, native.Decoder)
    assert engine._decoder.gallery.tokens <= 4 * 22


def test_speculation_stays_lossless() -> None:
    model = make()
    config = SpeculativeConfig(rows=8, capacity=128, prompts=4, proposals=3)
    engine = SpeculativeEngine(model, spread_draft(model), stop_ids=[STOP], config=config)
    requests = [asked(n, picture(n), temperature=0.0, text=n) for n in range(5)]
    plain = run(NativeEngine(model, stop_ids=[STOP], config=CONFIG), requests)
    for request in requests:
        done = run(engine, [request])[request.id]
        assert np.array_equal(done.ids, plain[request.id].ids)
        check(model, request, done)


def test_who_reads_no_pictures_says_so() -> None:
    blind = NativeEngine(K3(preset("tiny", 256)), stop_ids=[STOP], config=CONFIG)
    with pytest.raises(UserError, match="reads no pictures"):
        blind.submit([asked(0, picture(0))])
    engine = NativeEngine(make(), stop_ids=[STOP], config=CONFIG)
    with pytest.raises(UserError, match="1 placeholder ids for 2 pictures"):
        engine.submit([asked(1), replace(asked(0, picture(0)), pictures=(picture(0), picture(1)))])
    assert not engine.in_flight
    assert len(run(engine, [asked(1)])) == 1
