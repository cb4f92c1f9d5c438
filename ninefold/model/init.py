"""How every parameter and buffer begins, declared by name; `initialise` draws it, `audit` checks it (spec 01, spec 11)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ninefold.core.seeds import seed_of
from ninefold.model.config import K3Config

DECAY_SPAN = (1e-3, 1e-1)
"""softplus of the decay bias is log-uniform in here."""
CONV_NOISE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """A declared beginning: normal(mean, std), or of one of the two special kinds."""

    kind: str
    """normal, decay (inverse softplus of log-uniform) or taps (normal, and 1 more on the current token's tap)."""
    mean: float = 0.0
    std: float = 0.0


_RULES = (
    (r"(norm[01]?|layernorm)\.weight$", Init(kind="normal", mean=1.0)),
    (r"res_proj\.weight$|A_log$|e_score_correction_bias$", Init(kind="normal")),
    (r"dt_bias$", Init(kind="decay")),
    (r"conv1d\.weight$", Init(kind="taps", std=CONV_NOISE)),
)
_WEIGHT = re.compile(
    r"(_proj(_with_mqa)?|embed_tokens|lm_head|gate|pos_emb|patch_embed\.proj|wqkv|wo|fc[01]|mm_projector\.proj\.[02])\.weight$"
)
_EXPERT = re.compile(r"experts\.w[123]$")


def declared(name: str, config: K3Config) -> Init:
    """What `name` begins as; a name that no rule knows is an error."""
    for pattern, init in _RULES:
        if re.search(pattern, name):
            return init
    if _EXPERT.search(name):
        return Init(kind="normal", std=config.expert_initializer_range)
    assert _WEIGHT.search(name), f"no initialisation is declared for {name}"
    return Init(kind="normal", std=config.initializer_range)


@torch.no_grad()
def initialise(model: nn.Module, config: K3Config, seed: int) -> None:
    """Draw every parameter and buffer, each from a stream of its own, so that adding one moves no other."""
    for name, tensor in _tensors(model):
        init = declared(name, config)
        generator = torch.Generator().manual_seed(seed_of("init", seed, name))
        if init.kind == "decay":
            low, high = (torch.tensor(edge).log() for edge in DECAY_SPAN)
            rate = (low + torch.rand(tensor.shape, generator=generator) * (high - low)).exp()
            tensor.copy_(rate + torch.log(-torch.expm1(-rate)))
        else:
            noise = torch.randn(tensor.shape, generator=generator) if init.std else torch.zeros(tensor.shape)
            tensor.copy_(init.mean + init.std * noise)
        if init.kind == "taps":
            tensor[..., -1] += 1.0


@torch.no_grad()
def audit(model: nn.Module, config: K3Config) -> None:
    """Check at step 0 that each parameter and buffer has the statistics declared for it; AssertionError names the first."""
    for name, tensor in _tensors(model):
        init = declared(name, config)
        value = tensor.double()
        assert torch.isfinite(value).all(), f"{name} is not finite"
        if init.kind == "decay":
            rate = nn.functional.softplus(value)
            inside = (rate > DECAY_SPAN[0] * 0.99) & (rate < DECAY_SPAN[1] * 1.01)
            assert inside.all() & (value.std() > 0), f"{name} is not the inverse softplus of log-uniform{DECAY_SPAN}"
            continue
        if init.kind == "taps":
            value = value.clone()
            value[..., -1] -= 1.0
        # Six standard errors of the mean and of the standard deviation: a false alarm once in 10⁸ tensors.
        n = value.numel()
        assert abs(float(value.mean()) - init.mean) <= 6 * init.std / n**0.5, f"{name} has mean {float(value.mean()):.4g}"
        spread = float(value.std(correction=0)) if n > 1 else 0.0
        assert abs(spread - init.std) <= 6 * init.std / (2 * n) ** 0.5, f"{name} has std {spread:.4g}, declared {init.std}"


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()
