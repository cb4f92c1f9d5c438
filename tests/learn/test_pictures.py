"""Pictures on their way to a loss: expanded once, aligned, never targets, and the gradient reaches the tower."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.types import Sample
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.draft import DraftConfig, draft_loss
from ninefold.learn.loss.mtp import MTPConfig, language_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.loss.tokens import token_logprobs
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.draft import Draft
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.sight import Sight

PAD = 10
SIZES = ((24, 24), (12, 30), (7, 5))


def pictures() -> list[Picture]:
    rng = np.random.default_rng(5)
    return [Picture.of(rng.integers(0, 256, (*size, 3)).astype(np.uint8)) for size in SIZES]


def sample(rng: np.random.Generator, *shown: Picture, length: int = 14) -> Sample:
    ids = rng.integers(PAD + 1, 256, length).astype(np.int32)
    ids[rng.choice(length - 1, len(shown), replace=False)] = PAD
    streams = {"number": np.arange(length, dtype=np.float32)}
    return Sample(ids=ids, mask=rng.random(length) < 0.7, streams=streams, pictures=shown)


@pytest.fixture(scope="module")
def model() -> K3:
    model = K3(preset("nano-vision", 256), seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
    return model


@pytest.fixture(scope="module")
def sight(model: K3) -> Sight:
    assert model.sight is not None
    return model.sight


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), shown=st.lists(st.integers(0, 2), max_size=4))
def test_expansion_keeps_text_and_streams_aligned(sight: Sight, seed: int, shown: list[int]) -> None:
    every = pictures()
    before = sample(np.random.default_rng(seed), *(every[i] for i in shown))
    after = sight.expanded(before)
    tokens = [sight.tokens(every[i]) for i in shown]
    assert len(after.ids) == len(before.ids) + sum(tokens) - len(shown)
    text, was = after.ids != PAD, before.ids != PAD
    assert (after.ids[text] == before.ids[was]).all()
    assert (after.mask[text] == before.mask[was]).all()
    assert (after.streams["number"][text] == before.streams["number"][was]).all()
    assert not after.mask[~text].any()
    assert not after.streams["number"][~text].any()
    ends = np.flatnonzero(np.diff(np.r_[0, ~text, 0]))
    runs = ends[1::2] - ends[::2]
    assert runs.sum() == sum(tokens)
    assert after.pictures == before.pictures
    if not shown:
        assert after is before


def test_tokens_follow_the_size(sight: Sight) -> None:
    assert [sight.tokens(picture) for picture in pictures()] == [4, 3, 1]
    patches, grids = sight.patches(pictures()[2:])
    assert (patches.shape, grids) == ((4, 3, 6, 6), [(1, 2, 2)])
    assert patches[0, :, :6, :5].equal(
        torch.from_numpy(pictures()[2].pixels_HWC[:6].transpose(2, 0, 1) / np.float32(127.5) - 1)
    )
    assert not patches[0, :, :, 5].any(), "what is filled up is grey"


def test_packed_pictures_score_like_each_alone(model: K3) -> None:
    rng, every = np.random.default_rng(1), pictures()
    samples = [sample(rng, *every), sample(rng), sample(rng, every[1], every[0]), sample(rng, every[2])]
    packed = {tuple(b.streams["number"]): token_logprobs(model, b) for b in micro_batches(samples, 1000, model.sight)}
    (whole,) = packed.values()
    apart = [token_logprobs(model, b) for one in samples for b in micro_batches([one], 1000, model.sight)]
    order = np.argsort([-len(model.sight.expanded(one).ids) for one in samples], kind="stable")  # pyright: ignore
    torch.testing.assert_close(whole.logprob_N, torch.cat([apart[i].logprob_N for i in order]), atol=2e-5, rtol=0)


def test_another_picture_is_another_prediction(model: K3) -> None:
    rng, every = np.random.default_rng(2), pictures()
    one = sample(rng, every[0])
    (first,), (second,) = (
        micro_batches([s], 99, model.sight) for s in (one, replace(one, pictures=(every[0].of(255 - every[0].pixels_HWC),)))
    )
    assert (token_logprobs(model, first).logprob_N - token_logprobs(model, second).logprob_N).abs().max() > 1e-3


def test_text_is_computed_as_without_a_tower(model: K3) -> None:
    """Bit for bit: the same weights without vision, a batch without pictures."""
    blind = K3(preset("nano", 256), seed=3)
    blind.load_state_dict(
        {name: value for name, value in model.state_dict().items() if "vision" not in name and "mm_" not in name}
    )
    batches = [micro_batches([sample(np.random.default_rng(7))], 99, m.sight) for m in (blind, model)]
    hidden = [m(torch.from_numpy(b.ids.astype(np.int64)), b.layout).final_TD for m, (b,) in zip((blind, model), batches)]
    assert torch.equal(*hidden)


@pytest.mark.parametrize("loss", ["sft", "language", "draft"])
def test_the_gradient_reaches_the_tower(model: K3, loss: str) -> None:
    rng = np.random.default_rng(4)
    (batch,) = micro_batches([sample(rng, *pictures()), sample(rng)], 99, model.sight)
    model.zero_grad(set_to_none=True)
    if loss == "draft":
        draft = Draft(model)
        draft_loss(draft, batch, model, DraftConfig(steps=2)).total.backward()
        assert all(p.grad is None for name, p in model.named_parameters() if "vision" in name)
        return
    done = sft_loss(model, batch) if loss == "sft" else language_loss(model, batch, MTPConfig(weight=0.3))
    done.total.backward()
    for name, parameter in model.named_parameters():
        if name.startswith(("vision_tower.", "mm_projector.")):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name
    assert model.lm_head.weight.grad is not None
    assert not model.lm_head.weight.grad[PAD].any(), "a placeholder is never an output"


def test_a_step_moves_the_tower_and_tells_its_gradient() -> None:
    model = K3(preset("nano-vision", 256), seed=0)
    trainer = Trainer(model, TrainerConfig(steps=4))
    before = {name: value.clone() for name, value in model.named_parameters()}
    rng = np.random.default_rng(9)
    metrics = trainer.step(micro_batches([sample(rng, pictures()[0])], 99, model.sight), sft_loss)
    moved = [name for name, value in model.named_parameters() if "vision_tower" in name and not value.equal(before[name])]
    assert len(moved) == sum("vision_tower" in name for name in before)
    assert 0 < metrics["vision/grad_norm"] <= metrics["grad_norm"]
    assert "vision/grad_norm" not in trainer.step(micro_batches([sample(rng)], 99, model.sight), sft_loss)


def test_pictures_need_a_model_that_reads_them(sight: Sight) -> None:
    one = sample(np.random.default_rng(0), pictures()[0])
    with pytest.raises(UserError, match="reads none"):
        micro_batches([one], 99)
    with pytest.raises(UserError, match="1 placeholder"):
        sight.expanded(replace(one, pictures=one.pictures * 2))
