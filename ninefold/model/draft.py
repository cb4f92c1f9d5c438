"""The draft model (spec 03): the MTP layer behind a fusion of three features of the target, EAGLE-3 style."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.store import write_atomic
from ninefold.model.k3 import K3
from ninefold.model.mla import FusedMLA, KeyValue
from ninefold.model.mtp import MTP, FusedMTP
from ninefold.model.ops.product import product

Features = tuple[Tensor, Tensor, Tensor]
"""[N, D] each, as `k3.Hidden` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedDraft:
    """The draft as it computes."""

    fusion: Tensor
    """[D, 3D] W_E3"""
    layer: FusedMTP[FusedMLA]
    embedding_VD: Tensor
    head_VD: Tensor

    def fuse(self, features: Features) -> Tensor:
        """[N, D] what the layer reads in place of the target's hidden state."""
        return product(torch.cat(features, -1), self.fusion)

    def embed(self, ids_N: Tensor) -> Tensor:
        """[N, D]"""
        return F.embedding(ids_N, self.embedding_VD)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        return product(hidden_ND, self.head_VD)

    def unroll(self, features: Features, ids_T: Tensor, layout: DocLayout, steps: int) -> list[Tensor]:
        """`Draft.unroll`"""
        hidden_TD, memory, logits = self.fuse(features), list[KeyValue](), list[Tensor]()
        ids_T = ids_T.clone()
        has_next_T = torch.from_numpy(layout.has(1)).to(ids_T.device)
        for _ in range(steps):
            # Rows that run past their document's end keep its last token; nothing is read from them.
            ids_T = torch.where(has_next_T, ids_T.roll(-1), ids_T)
            x_TD = self.layer.enter(self.embed(ids_T), hidden_TD)
            y_TD, key_value = self.layer.attention.branched(self.layer.attention_input(x_TD), layout, memory)
            hidden_TD = self.layer.leave(x_TD + y_TD)
            memory.append(key_value)
            logits.append(self.logits(hidden_TD))
        return logits


class Draft(nn.Module):
    """Learns to propose what its target would say; embedding and head are the target's own and stay as they are."""

    def __init__(self, target: K3) -> None:
        """At first the same function as the target's MTP layer: fusion [0 0 I], the layer copied, quantised alike."""
        super().__init__()
        if target.mtp is None:
            raise UserError("a draft starts from the MTP layer, which this model lacks; set num_nextn_predict_layers to 1")
        d = target.config.hidden_size
        self.config = target.config
        self.fusion = nn.Linear(3 * d, d, bias=False)
        self.layer: MTP = copy.deepcopy(target.mtp)
        self.register_buffer("embedding", target.model.embed_tokens.weight.detach().clone(), persistent=False)
        self.register_buffer("head", target.lm_head.weight.detach().clone(), persistent=False)
        with torch.no_grad():
            self.fusion.weight.zero_()[:, 2 * d :].fill_diagonal_(1.0)

    def fused(self) -> FusedDraft:
        """The draft ready to compute; gradients flow back to the parameters."""
        return FusedDraft(
            fusion=self.fusion.weight,
            layer=self.layer.fused(),
            embedding_VD=self.get_buffer("embedding"),
            head_VD=self.get_buffer("head"),
        )

    def unroll(self, features: Features, ids_T: Tensor, layout: DocLayout, steps: int = 7) -> Sequence[Tensor]:
        """[T, V] logits of each step: row t at step s (from 0) has read tokens to t + 1 + s and proposes token t + 2 + s.

        From the second step on the draft reads its own output in place of the features (training-time test). A row whose
        proposal lies beyond its document means nothing.
        """
        return self.fused().unroll(features, ids_T, layout, steps)

    def save(self, path: Path) -> None:
        """Fusion and layer to one safetensors file, atomically."""
        write_atomic(path, save({name: t.contiguous() for name, t in self.state_dict().items()}))

    @staticmethod
    def open(path: Path, target: K3) -> Draft:
        """The draft in `path` for `target`."""
        draft = Draft(target)
        draft.load_state_dict(load_file(path))
        return draft
