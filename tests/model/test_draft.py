"""The draft: the MTP layer at first, a step-by-step decode when unrolled, and only its own parameters learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.model.draft import Draft
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from tests.model.test_k3 import draw_ids, spread

LENGTHS = [6, 1, 15]


@pytest.fixture
def target() -> K3:
    return spread(K3(preset("tiny")))


def test_at_step_zero_the_draft_is_the_mtp_layer(target: K3) -> None:
    for quantized in (False, True):
        target.quantize(quantized)
        draft, ids, layout = Draft(target), draw_ids(22), DocLayout.of(LENGTHS)
        with torch.no_grad():
            hidden = target(ids, layout)
            wanted = target.logits(target.mtp_hidden(hidden, ids, layout))
            got = draft.unroll(hidden.features, ids, layout, 1)[0]
        assert torch.equal(draft.fused().fuse(hidden.features), hidden.final_TD)
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


def test_fusion_begins_as_the_vectors_say(golden: Path, target: K3) -> None:
    vectors = load_file(golden / "spec/fusion_init.safetensors")
    d = target.config.hidden_size
    weight = Draft(target).fusion.weight
    assert torch.equal(vectors["W_E3"], torch.cat([torch.zeros(5, 10), torch.eye(5)], 1).double())
    assert torch.equal(weight, torch.cat([torch.zeros(d, 2 * d), torch.eye(d)], 1))
    assert torch.equal(vectors["fused"], vectors["high"])


def test_unrolled_steps_equal_drafting_one_token_after_another(target: K3) -> None:
    draft = spread_draft(target)
    ids, layout, steps = draw_ids(22), DocLayout.of(LENGTHS), 4
    with torch.no_grad():
        hidden = target(ids, layout)
        unrolled = draft.unroll(hidden.features, ids, layout, steps)
        fused = draft.fused()
        for start, length in zip(layout.cu_seqlens[:-1].tolist(), LENGTHS):
            document = ids[start : start + length]
            read = fused.fuse(tuple(f[start : start + length] for f in hidden.features))  # pyright: ignore[reportArgumentType]
            for t in range(length - steps):
                inputs = read[: t + 1]
                for step in range(steps):
                    embedded = fused.embed(document[1 : t + 2 + step])
                    out = fused.layer.packed(embedded, inputs, DocLayout.of([t + 1 + step]))
                    # A drafted token comes beside the draft's own last output.
                    inputs = torch.cat([inputs, out[-1:]])
                    want = unrolled[step][start + t]
                    torch.testing.assert_close(fused.logits(out[-1]), want, atol=2e-5, rtol=2e-5)


def spread_draft(target: K3) -> Draft:
    draft = Draft(target)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in draft.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return draft


def test_every_parameter_of_the_draft_learns_and_nothing_of_the_target(target: K3, tmp_path: Path) -> None:
    draft, ids, layout = Draft(target), draw_ids(22), DocLayout.of(LENGTHS)
    with torch.no_grad():
        features = target(ids, layout).features
    sum(logits.square().mean() for logits in draft.unroll(features, ids, layout)).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in draft.parameters())
    assert all(p.grad is None for p in target.parameters())
    draft.save(tmp_path / "draft.safetensors")
    again = Draft.open(tmp_path / "draft.safetensors", target)
    assert all(torch.equal(a, b) for a, b in zip(draft.parameters(), again.parameters()))


def test_a_model_without_mtp_layer_has_no_draft() -> None:
    config = preset("tiny").model_copy(update={"num_nextn_predict_layers": 0})
    with pytest.raises(UserError, match="num_nextn_predict_layers"):
        Draft(K3(config))
