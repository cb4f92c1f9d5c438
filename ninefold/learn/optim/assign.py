"""Which optimiser each parameter belongs to, decided by its public name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch.nn import Parameter

from ninefold.core.errors import UserError
from ninefold.model.config import K3Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How parameters whose name matches are optimised."""

    pattern: str
    """Regular expression searched for in the name."""
    optimizer: Literal["muon", "adamw"]
    heads: int = 1
    """Muon: the rows are this many equal blocks, each orthogonalised on its own."""
    within: tuple[int, ...] = ()
    """Muon: rows of the parts that each head's block is cut into once more; empty where it is one part."""
    decay: bool = True
    """Whether weight decay applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """One trainable parameter and its rule."""

    name: str
    parameter: Parameter
    rule: Rule


def k3_rules(config: K3Config) -> tuple[Rule, ...]:
    """The rules of a K3 model; the first that matches holds. Without `muon_per_head` every parameter is one matrix, or a stack.

    Q, K, V and the output gate are split by heads, so that no head's scale sets another's step (report, Per-Head Muon,
    names Q, K, V; the gate is split alike [ours]). MLA's `kv_b_proj` holds K and V of each head: each is a matrix. Stacked
    experts are a matrix each; so are Q, K and V of each head of the vision tower. Embeddings, head, router, norms, biases,
    convolutions, AttnRes queries and scalars: AdamW.
    """
    split = config.muon_per_head
    heads = config.num_attention_heads if split else 1
    vision = 3 * config.vision.vt_num_attention_heads if config.vision and split else 1
    return (
        Rule(pattern=r"(pos_emb|patch_embed\.proj)\.weight$", optimizer="adamw"),
        Rule(pattern=r"\.norm[01]\.weight$", optimizer="adamw", decay=False),
        Rule(pattern=r"\.wqkv\.weight$", optimizer="muon", heads=vision),
        Rule(pattern=r"\.(wo|fc[01])\.weight$|^mm_projector\.proj", optimizer="muon"),
        Rule(pattern=r"(embed_tokens|lm_head|gate)\.weight$", optimizer="adamw"),
        Rule(pattern=r"(norm|_norm|conv1d)\.weight$|_res_proj|\.(A_log|dt_bias|bias)$", optimizer="adamw", decay=False),
        Rule(
            pattern=r"\.kv_b_proj\.weight$",
            optimizer="muon",
            heads=heads,
            within=(config.qk_nope_head_dim, config.v_head_dim) if split else (),
        ),
        Rule(pattern=r"self_attn\.(q|k|v|g|q_b)_proj\.weight$", optimizer="muon", heads=heads),
        Rule(pattern=r"\.(o|q_a|f_a|f_b|b)_proj\.weight$|\.kv_a_proj_with_mqa\.weight$", optimizer="muon"),
        Rule(pattern=r"((gate|up|down|eh)_proj|fusion)\.weight$|\.experts\.(\d+\.)?w[123]", optimizer="muon"),
    )


def adamw_rules() -> tuple[Rule, ...]:
    """The rules of a model from elsewhere, adapters included: AdamW throughout, no decay of norms and biases [ours]."""
    return (
        Rule(pattern=r"norm[^.]*\.(weight|bias)$|\.bias$", optimizer="adamw", decay=False),
        Rule(pattern=r"", optimizer="adamw"),
    )


def assign(named: Iterable[tuple[str, Parameter]], rules: Sequence[Rule]) -> list[Assigned]:
    """Every trainable parameter with the first rule that matches its name.

    Raises UserError naming the parameters that no rule knows: they would stay as they were made.
    """
    assigned: list[Assigned] = []
    unknown: list[str] = []
    for name, parameter in named:
        if not parameter.requires_grad:
            continue
        rule = next((rule for rule in rules if re.search(rule.pattern, name)), None)
        if rule is None:
            unknown.append(name)
        else:
            assigned.append(Assigned(name=name, parameter=parameter, rule=rule))
    if unknown:
        raise UserError(f"no optimiser is assigned to {', '.join(unknown)}: give a Rule for each, or freeze it")
    return assigned
