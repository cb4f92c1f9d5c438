"""Quantile Balancing through the model: once per optimiser step, whatever the split."""

from __future__ import annotations

import torch
from torch.utils.checkpoint import checkpoint

from ninefold.core.layout import DocLayout
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from tests.model.test_k3 import draw_ids, spread


def biases(model: K3) -> torch.Tensor:
    return torch.stack([moe.gate.e_score_correction_bias.clone() for moe in model.moe_layers().values()])


def collected(lengths: list[list[int]]) -> K3:
    """A model that has seen 60 tokens in these micro-batches."""
    model = spread(K3(preset("tiny")))
    model.collect_routing()
    ids = draw_ids(60)
    for part, micro in zip(ids.split([sum(m) for m in lengths]), lengths):
        model.mtp_hidden(model(part, DocLayout.of(micro)), part, DocLayout.of(micro))
    return model


def test_a_batch_is_never_routed_with_a_bias_of_its_own() -> None:
    model = collected([[20, 40]])
    before = biases(model)
    assert torch.equal(before, biases(spread(K3(preset("tiny")))))
    metrics = model.balance()
    assert not torch.equal(biases(model), before)
    assert {name.rsplit(".", 1)[1] for name in metrics} == {"overload", "dead"}
    assert len(metrics) == 2 * len(model.moe_layers())
    assert all(metrics[n] >= 1 for n in metrics if n.endswith("overload"))


def test_split_into_micro_batches_does_not_matter() -> None:
    whole, split = collected([[20, 10, 30]]), collected([[20], [10, 30]])
    assert whole.balance() == split.balance()
    assert torch.equal(biases(whole), biases(split))


def test_split_over_ranks_does_not_matter() -> None:
    whole = collected([[20, 40]])
    whole.balance()
    model = spread(K3(preset("tiny")))
    model.collect_routing()
    ids = draw_ids(60)
    model.mtp_hidden(model(ids[:20], DocLayout.of([20])), ids[:20], DocLayout.of([20]))
    other = spread(K3(preset("tiny")))
    other.collect_routing()
    other.mtp_hidden(other(ids[20:], DocLayout.of([40])), ids[20:], DocLayout.of([40]))
    sent: list[torch.Tensor] = []
    other.balance(reduce=lambda t: sent.append(t.clone()))
    model.balance(reduce=lambda t: t.add_(sent[0]))
    assert torch.equal(biases(whole), biases(model))


def test_counts_start_afresh_and_forwards_without_gradients_do_not_count() -> None:
    model = collected([[60]])
    model.balance()
    settled = biases(model)
    with torch.no_grad():
        model(draw_ids(30), DocLayout.of([30]))
    assert model.balance() == {}
    assert torch.equal(biases(model), settled)


def test_activation_checkpointing_does_not_count_twice() -> None:
    def run(checkpointed: bool) -> tuple[torch.Tensor, torch.Tensor]:
        model, ids, layout = spread(K3(preset("tiny"))), draw_ids(60), DocLayout.of([20, 40])
        model.collect_routing()
        x = model.model.embed_tokens(ids)

        def body(x: torch.Tensor) -> torch.Tensor:
            return model.fused(lazy=True).packed(x, layout).final_TD

        y = checkpoint(body, x, use_reentrant=False) if checkpointed else body(x)
        assert isinstance(y, torch.Tensor)
        y.square().sum().backward()
        counted = torch.cat([t.flatten() for moe in model.moe_layers().values() if moe.counts for t in moe.counts.tensors])
        return counted, model.lm_head.weight.new_tensor([float(p.grad.sum()) for p in model.parameters() if p.grad is not None])

    for once, again in zip(run(False), run(True)):
        torch.testing.assert_close(again, once)


def test_balancing_evens_the_load() -> None:
    model = spread(K3(preset("tiny")))
    for moe in model.moe_layers().values():
        moe.gate.e_score_correction_bias[0] = 3.0
    model.collect_routing()
    ids, layout = draw_ids(600), DocLayout.of([60] * 10)
    history = []
    for _ in range(4):
        model(ids, layout)
        history.append(max(v for k, v in model.balance().items() if k.endswith("overload")))
    assert history[0] == 4.0
    assert history[-1] < 1.5
