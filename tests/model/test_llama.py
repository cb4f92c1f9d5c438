"""Llama and Qwen2: a float64 twin, packed against alone, caches against packed, and transformers where it is installed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.protocols import Request
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.model.llama import Llama, LlamaConfig, LlamaDecoder, load_llama
from tests.model.test_k3 import spread

QWEN = LlamaConfig(
    vocab_size=50,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    qkv_bias=True,
)
LLAMA = QWEN.model_copy(
    update={"qkv_bias": False, "tie_word_embeddings": True, "num_key_value_heads": 4, "rope_theta": 500_000.0, "head_dim": 4}
)
REFEREES = Path(__file__).parents[2] / "runs" / "referees"


def made(config: LlamaConfig) -> Llama:
    torch.manual_seed(0)
    return spread(Llama(config), 0.3)


def ids_of(length: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 50, (length,), generator=torch.Generator().manual_seed(seed))


def naive(model: Llama, ids: Tensor) -> Tensor:
    """[T, V] logits of one document, token by token and head by head."""
    config = model.config
    weights = dict(model.named_parameters())

    def norm(x: Tensor, name: str) -> Tensor:
        return x * ((x**2).mean() + config.rms_norm_eps) ** -0.5 * weights[name]

    def turned(x: Tensor, place: int) -> Tensor:
        half = config.head_dim // 2
        angle = torch.tensor([place * config.rope_theta ** (-i / half) for i in range(half)], dtype=x.dtype)
        a, b = x[:half], x[half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()])

    xs = [weights["model.embed_tokens.weight"][i] for i in ids.tolist()]
    for n in range(config.num_hidden_layers):
        layer = f"model.layers.{n}"

        def projected(x: Tensor, part: str, layer: str = layer) -> Tensor:
            y = weights[f"{layer}.self_attn.{part}_proj.weight"] @ x
            bias = weights.get(f"{layer}.self_attn.{part}_proj.bias")
            return (y if bias is None else y + bias).view(-1, config.head_dim)

        inner = [norm(x, f"{layer}.input_layernorm.weight") for x in xs]
        q, k, v = ([projected(x, part) for x in inner] for part in "qkv")
        for t in range(len(xs)):
            heads: list[Tensor] = []
            for h in range(config.num_attention_heads):
                shared = h // (config.num_attention_heads // config.num_key_value_heads)
                scores = [turned(q[t][h], t) @ turned(k[s][shared], s) / math.sqrt(config.head_dim) for s in range(t + 1)]
                weight = torch.softmax(torch.stack(scores), 0)
                heads.append(torch.stack([w * v[s][shared] for s, w in enumerate(weight)]).sum(0))
            xs[t] = xs[t] + weights[f"{layer}.self_attn.o_proj.weight"] @ torch.cat(heads)
        for t, x in enumerate(xs):
            y = norm(x, f"{layer}.post_attention_layernorm.weight")
            gate = weights[f"{layer}.mlp.gate_proj.weight"] @ y
            up = weights[f"{layer}.mlp.up_proj.weight"] @ y
            xs[t] = x + weights[f"{layer}.mlp.down_proj.weight"] @ (gate * torch.sigmoid(gate) * up)
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return torch.stack([head @ norm(x, "model.norm.weight") for x in xs])


@pytest.mark.parametrize("config", [QWEN, LLAMA])
def test_equals_its_twin_with_gradients(config: LlamaConfig) -> None:
    ours, twin = made(config).double(), made(config).double()
    ids, layout = ids_of(9), DocLayout.of([4, 5])
    logits = ours.logits(ours(ids, layout).final_TD)
    expected = torch.cat([naive(twin, ids[:4]), naive(twin, ids[4:])])
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    weight = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (logits * weight).sum().backward()
    (expected * weight).sum().backward()
    for (name, one), other in zip(ours.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("config", [QWEN, LLAMA])
def test_caches_say_what_packed_documents_say(config: LlamaConfig) -> None:
    """Prompts of unequal length taken in at once, then continued by a span and by single steps."""
    model = made(config)
    decoder = LlamaDecoder(model)
    cache = decoder.new_cache(3, 32)
    ids = [ids_of(20, seed) for seed in range(2)]
    packed = model(torch.cat(ids), DocLayout.of([20, 20])).final_TD.view(2, 20, -1)
    rows = np.array([0, 1])
    first = decoder.extend(torch.cat([ids[0][:3], ids[1][:7]]), DocLayout.of([3, 7]), cache, rows).final_TD
    torch.testing.assert_close(first, torch.cat([packed[0, :3], packed[1, :7]]), rtol=1e-4, atol=1e-5)
    second = decoder.extend(torch.cat([ids[0][3:9], ids[1][7:9]]), DocLayout.of([6, 2]), cache, rows).final_TD
    torch.testing.assert_close(second, torch.cat([packed[0, 3:9], packed[1, 7:9]]), rtol=1e-4, atol=1e-5)
    for place in range(9, 20):
        final = decoder.step(torch.stack([ids[0][place], ids[1][place]]), cache).final_TD
        torch.testing.assert_close(final, packed[:, place], rtol=1e-4, atol=1e-5)
    assert cache.lengths.tolist() == [20, 20, 0]


def test_products_in_bfloat16_stay_near() -> None:
    """The same function but for the rounding of products, in training and in decoding; masters and gradients in float32."""
    exact, rounded = made(QWEN), Llama(QWEN, products=torch.bfloat16)
    rounded.load_state_dict(exact.state_dict())
    ids, layout = ids_of(12), DocLayout.of([5, 7])
    logits = [model.logits(model(ids, layout).final_TD) for model in (exact, rounded)]
    assert logits[1].dtype == torch.float32
    assert 0 < float((logits[0] - logits[1]).detach().norm() / logits[0].detach().norm()) < 0.03
    for one in logits:
        one.square().sum().backward()
    for (name, ours), theirs in zip(rounded.named_parameters(), exact.parameters(), strict=True):
        assert ours.grad is not None
        assert ours.grad.dtype == torch.float32
        assert theirs.grad is not None
        assert float((ours.grad - theirs.grad).norm() / theirs.grad.norm()) < 0.1, name
    decoder = LlamaDecoder(rounded)
    cache = decoder.new_cache(2, 8)
    finals = [decoder.extend(torch.cat([ids[:3], ids[5:8]]), DocLayout.of([3, 3]), cache, np.array([0, 1])).final_TD]
    finals += [decoder.step(torch.stack([ids[place], ids[5 + place]]), cache).final_TD for place in (3, 4)]
    packed = rounded(ids, layout).final_TD
    expected = torch.stack([packed[4], packed[9]])
    torch.testing.assert_close(finals[-1], expected, rtol=0.05, atol=0.05)


def test_the_engine_decodes_it() -> None:
    """Greedy completions are the argmax of packed logits, whatever else runs; log-probabilities are those of the model."""
    model = made(QWEN)
    engine = NativeEngine(model, stop_ids=[0], config=NativeConfig(rows=4, capacity=40, prompts=2))
    prompts = {f"r{n}": ids_of(3 + 2 * n, n).numpy().astype(np.int32) for n in range(6)}
    engine.submit(
        [Request(id=name, session=name, ids=ids, max_new=8, seed=1, temperature=0.0) for name, ids in prompts.items()]
    )
    done = {}
    while engine.in_flight:
        done |= {completion.request: completion for completion in engine.poll()}
    for name, prompt in prompts.items():
        whole = torch.from_numpy(np.concatenate([prompt, done[name].ids]).astype(np.int64))
        with torch.no_grad():
            logits = model.logits(model(whole, DocLayout.of([len(whole)])).final_TD)
        predicted = logits[len(prompt) - 1 : -1]
        assert predicted.argmax(-1).tolist() == done[name].ids.tolist()
        logprobs = predicted.log_softmax(-1).gather(1, whole[len(prompt) :, None])[:, 0]
        torch.testing.assert_close(torch.from_numpy(done[name].logprobs), logprobs, rtol=1e-4, atol=1e-5)


def public(config: LlamaConfig) -> dict[str, Any]:
    kind = "qwen2" if config.qkv_bias else "llama"
    return {"model_type": kind, "hidden_act": "silu", **config.model_dump(exclude={"qkv_bias"})}


@pytest.mark.parametrize("config", [QWEN, LLAMA])
def test_a_hugging_face_folder_is_read(config: LlamaConfig, tmp_path: Path) -> None:
    model = made(config)
    (tmp_path / "config.json").write_text(json.dumps(public(config)))
    tensors = {name: tensor.bfloat16() for name, tensor in model.named_parameters()}
    save_file(tensors, tmp_path / "model.safetensors")
    again = load_llama(tmp_path)
    assert again.config == config
    assert again.model.norm.weight.dtype == torch.float32
    torch.testing.assert_close(again.model.norm.weight, model.model.norm.weight.bfloat16().float())
    del tensors["model.norm.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"lacks model\.norm\.weight"):
        load_llama(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "not one of llama, qwen2"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "rope scaling 'yarn'"),
        ({"use_sliding_window": True}, "sliding windows"),
        ({"num_key_value_heads": 3}, "must divide"),
        ({"vocab_size": "many"}, "vocab_size"),
    ],
)
def test_what_cannot_be_computed_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LlamaConfig.from_hf(public(QWEN) | change)


@pytest.fixture
def transformers() -> Iterator[Any]:
    """Installed by `make referees`; without it these comparisons are skipped."""
    sys.path.append(str(REFEREES))
    yield pytest.importorskip("transformers")
    sys.path.remove(str(REFEREES))


@pytest.mark.referee
@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_equals_transformers(transformers: Any, kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=50,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=kind == "Llama",
    )
    theirs = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    theirs.save_pretrained(tmp_path)
    ours = load_llama(tmp_path)
    ids = ids_of(17)
    with torch.no_grad():
        logits = ours.logits(ours(ids, DocLayout.of([17])).final_TD)
        torch.testing.assert_close(logits, theirs(ids[None]).logits[0], rtol=1e-4, atol=1e-4)
