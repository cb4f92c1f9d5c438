"""The packed forward: documents stay apart, features and MTP, gradients everywhere, sizes."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ninefold.core.layout import DocLayout
from ninefold.learn.optim.qk_clip import record_attention
from ninefold.model.decode import Decoder
from ninefold.model.init import audit
from ninefold.model.k3 import K3
from ninefold.model.presets import preset

M = TypeVar("M", bound=nn.Module)


def spread(model: M, amount: float = 0.1) -> M:
    """A model away from its beginning, where every part matters: queries, biases and gates included."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * amount)
    for bias in model.buffers():
        bias.copy_(torch.randn(bias.shape, generator=generator) * 0.05)
    return model


def draw_ids(length: int, seed: int = 0, vocab: int = 256) -> torch.Tensor:
    return torch.randint(0, vocab, (length,), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "quantized"])
def model(request: pytest.FixtureRequest) -> K3:
    made = spread(K3(preset("tiny")))
    made.quantize(request.param)
    return made


@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0, 2**20))
def test_packed_documents_equal_single_ones(model: K3, lengths: list[int], seed: int) -> None:
    ids = draw_ids(sum(lengths), seed)
    with torch.no_grad():
        packed = model(ids, DocLayout.of(lengths))
        singles = [model(part, DocLayout.of([len(part)])) for part in ids.split(lengths)]
    apart = torch.cat([h.final_TD for h in singles])
    # A value on a rounding boundary of MXFP8 may fall to either side when products are grouped otherwise.
    tolerance = 2e-2 if model.quantized else 5e-5
    torch.testing.assert_close(packed.final_TD, apart, atol=tolerance, rtol=tolerance)


def test_other_documents_and_later_tokens_never_matter(model: K3) -> None:
    lengths = [7, 20, 13]
    ids = draw_ids(40)
    changed = ids.clone()
    changed[7:27] = (ids[7:27] + 1) % 256
    changed[35:] = (ids[35:] + 1) % 256
    with torch.no_grad():
        before, after = (model(x, DocLayout.of(lengths)) for x in (ids, changed))
    same = torch.tensor([*range(7), *range(27, 35)])
    for a, b in zip((before.final_TD, *before.features), (after.final_TD, *after.features)):
        assert torch.equal(a[same], b[same])
        assert not torch.equal(a[7:27], b[7:27])


@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4), cut=st.floats(0, 1), seed=st.integers(0, 2**20))
def test_what_follows_changes_nothing_before(model: K3, lengths: list[int], cut: float, seed: int) -> None:
    """Bit for bit, whatever comes later in the document: an anchor on a future row would show (spec 11)."""
    ids, layout = draw_ids(sum(lengths), seed), DocLayout.of(lengths)
    kept = torch.from_numpy(layout.position < cut * layout.lengths[layout.document])
    changed = torch.where(kept, ids, draw_ids(sum(lengths), seed + 1))
    with torch.no_grad():
        before, after = (model(x, layout) for x in (ids, changed))
    for a, b in zip((before.final_TD, *before.features), (after.final_TD, *after.features)):
        assert torch.equal(a[kept], b[kept])


@pytest.mark.parametrize(
    "saturated", [{"A_log": 200.0}, {"A_log": -200.0}, {"dt_bias": 1e4}, {"dt_bias": -1e4, "A_log": 20.0}], ids=str
)
def test_saturated_gates_and_extreme_scales_stay_finite(saturated: dict[str, float]) -> None:
    """Forward, every gradient, and the same from steps: a gate at −5 or 0 in every channel, e^A far beyond float32."""
    made = spread(K3(preset("tiny")))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if (last := name.rpartition(".")[2]) in saturated:
                parameter.fill_(saturated[last])
    ids, layout = draw_ids(50), DocLayout.of([33, 17])
    hidden = made(ids, layout)
    made.logits(hidden.final_TD).logsumexp(-1).sum().backward()
    assert hidden.final_TD.isfinite().all()
    assert all(p.grad.isfinite().all() for p in made.parameters() if p.grad is not None)
    decoder = Decoder(made)
    cache = decoder.new_cache(1, 33)
    stepped = torch.cat([decoder.step(ids[t : t + 1], cache).final_TD for t in range(33)])
    torch.testing.assert_close(stepped, hidden.final_TD[:33], rtol=1e-3, atol=1e-3)


def test_every_parameter_learns(model: K3) -> None:
    lengths = [30, 34]
    ids, layout = draw_ids(64), DocLayout.of(lengths)
    hidden = model(ids, layout)
    loss = model.logits(hidden.final_TD).logsumexp(-1).mean() + model.logits(model.mtp_hidden(hidden, ids, layout)).sum()
    loss.backward()
    still = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    # The first site has one source, the embedding, and nothing to choose from.
    assert still == {f"model.layers.0.self_attention_res_{part}.weight" for part in ("norm", "proj")}
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    model.zero_grad()


def test_mtp_row_reads_its_token_and_the_next_only(model: K3) -> None:
    ids, layout = draw_ids(24), DocLayout.of([10, 14])

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model.mtp_hidden(model(x, layout), x, layout)

    before = run(ids)
    changed = ids.clone()
    changed[5] = (ids[5] + 1) % 256
    after = run(changed)
    same = [*range(4), *range(10, 24)]
    assert torch.equal(before[same], after[same])
    assert not torch.equal(before[4], after[4])


def kept_bytes(model: K3, length: int) -> int:
    """What a forward keeps for its backward, beside the parameters."""
    own, kept = {p.untyped_storage().data_ptr() for p in model.parameters()}, dict[int, torch.UntypedStorage]()

    def keep(x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        model(draw_ids(length, vocab=64), DocLayout.of([length - 20, 20])).final_TD.sum()
    return sum(storage.nbytes() for storage in kept.values())


def test_attention_residuals_keep_no_more_for_backward_than_a_plain_stream() -> None:
    config = preset("micro", 64)
    plain = config.model_copy(update={"attn_res_block_size": None})
    mixed, summed = ([kept_bytes(K3(c), length) for length in (70, 140)] for c in (config, plain))
    assert mixed[1] - mixed[0] <= summed[1] - summed[0]  # for each token
    assert mixed[0] - summed[0] <= 17 * 128 * 4  # a key for each site


def test_features_are_block_outputs() -> None:
    model = spread(K3(preset("micro", 64)))
    ids, layout = draw_ids(9, vocab=64), DocLayout.of([9])
    with torch.no_grad():
        first, middle, final = model(ids, layout).features
        shallow = K3(model.config.model_copy(update={"num_hidden_layers": 2, "full_attn_layers": ()}))
        kept = {k: v for k, v in model.state_dict().items() if k in shallow.state_dict()}
        shallow.load_state_dict(kept)
        assert torch.equal(shallow(ids, layout).features[0], first)
        assert torch.equal(model(ids, layout).final_TD, final)
    assert not torch.equal(first, middle)


@pytest.mark.parametrize(("name", "low", "high"), [("tiny", 0.09e6, 0.2e6), ("nano", 0.3e6, 1.0e6), ("micro", 1.5e6, 2.6e6)])
def test_presets_have_their_size_and_declared_beginning(name: str, low: float, high: float) -> None:
    model = K3(preset(name), seed=3)
    assert low < sum(p.numel() for p in model.parameters()) < high
    audit(model, model.config)


def test_an_undeclared_or_changed_tensor_fails_the_audit() -> None:
    model = K3(preset("tiny"))
    model.register_buffer("stray", torch.zeros(3))
    with pytest.raises(AssertionError, match="no initialisation is declared for stray"):
        audit(model, model.config)
    for name in ("model.layers.0.self_attn.dt_bias", "lm_head.weight", "model.layers.1.block_sparse_moe.gate.weight"):
        model = K3(preset("tiny"))
        with torch.no_grad():
            model.get_parameter(name).mul_(1.5)
        with pytest.raises(AssertionError, match=name.split(".")[-2]):
            audit(model, model.config)


def test_seeds_fix_the_beginning() -> None:
    one, same, other = (K3(preset("tiny"), seed=s).state_dict() for s in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["lm_head.weight"], other["lm_head.weight"])


def test_qk_clip_reads_the_largest_logit_of_each_head() -> None:
    model = spread(K3(preset("tiny")))
    record_attention(model, True)
    mla = model.model.layers[3].self_attn
    ids, lengths = draw_ids(20), [3, 17]
    model(ids, DocLayout.of(lengths))
    packed = mla.max_logit_H.clone()
    record_attention(model, True)
    for part in ids.split(lengths):
        model(part, DocLayout.of([len(part)]))
    torch.testing.assert_close(mla.max_logit_H, packed)
    assert packed.shape == (2,)
    with torch.no_grad():
        model(ids * 0, DocLayout.of(lengths))
    torch.testing.assert_close(mla.max_logit_H, packed)
    assert np.isfinite(packed.numpy()).all()
