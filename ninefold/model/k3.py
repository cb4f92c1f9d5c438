"""The K3 language model over packed documents (spec 01).

Shapes: T tokens of documents end to end, N any number of tokens, D hidden width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.model.attnres import Query, Site, stream
from ninefold.model.config import K3Config
from ninefold.model.init import initialise
from ninefold.model.layer import DecoderLayer, FusedLayer
from ninefold.model.moe import LatentMoE
from ninefold.model.mtp import MTP
from ninefold.model.norm import RMSNorm
from ninefold.model.ops.kcp import Stretch
from ninefold.model.ops.product import product
from ninefold.model.quant.mx import Rule
from ninefold.model.routing import Reduce, rebalance
from ninefold.model.sight import Sight
from ninefold.model.vision import Grid, MoonViT, Projector


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """What a forward leaves for the heads."""

    final_TD: Tensor
    """After the last mix and the final norm: what the language-model head reads."""
    features: tuple[Tensor, Tensor, Tensor]
    """[T, D] each: first block's output, middle block's, `final_TD`; the draft fuses them (spec 03)."""


NEVER = -1e4
"""Logit of what is never an output."""

Attend = Callable[[int, Any, Tensor], Tensor]
"""(layer number, its attention, normed input [N, D]) → output [N, D]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedK3:
    """The model as it computes."""

    embedding_VD: Tensor
    layers: Sequence[FusedLayer]
    output_site: Site | None
    """None in a plain residual stream."""
    norm_D: Tensor
    head_VD: Tensor
    block_size: int
    """Layers of one block."""
    eps: float

    def run(self, ids_N: Tensor, attend: Attend) -> Hidden:
        """The residual stream around whichever form of attention is asked for; all else works token by token."""
        return self.run_embedded(self.embed(ids_N), attend)

    def embed(self, ids_N: Tensor) -> Tensor:
        return F.embedding(ids_N, self.embedding_VD)

    def run_embedded(self, x_ND: Tensor, attend: Attend) -> Hidden:
        """`run` from input embeddings, some of which may be a picture's."""
        blocks = -(-len(self.layers) // self.block_size)
        residual = stream(x_ND, mixes=self.output_site is not None, blocks=blocks, eps=self.eps)
        for n, layer in enumerate(self.layers):
            if n and n % self.block_size == 0:
                residual.close_block()
            x_ND = residual.read(layer.attention_site, layer.attention_norm_D)
            residual.add(attend(n, layer.attention, x_ND))
            residual.add(layer.mlp(residual.read(layer.mlp_site, layer.mlp_norm_D)))
        final_ND = residual.read(self.output_site, self.norm_D)
        outputs = residual.outputs()
        return Hidden(final_TD=final_ND, features=(outputs[0], outputs[(len(outputs) - 1) // 2], final_ND))

    def packed(self, x_TD: Tensor, layout: DocLayout) -> Hidden:
        """Whole documents from their input embeddings; none sees another."""
        return self.run_embedded(x_TD, lambda _, attention, x_TD: attention(x_TD, layout))

    def split(self, x_TD: Tensor, stretch: Stretch) -> Hidden:
        """This rank's tokens of whole documents, from their input embeddings."""
        return self.run_embedded(x_TD, lambda _, attention, x_TD: attention.split(x_TD, stretch))


class Backbone(nn.Module):
    """Everything under `model.` in the public names."""

    def __init__(self, config: K3Config) -> None:
        super().__init__()
        # Not drawn here: on the meta device that alone would load PyTorch's compiler, a second or two.
        self.embed_tokens = nn.Embedding.from_pretrained(torch.empty(config.vocab_size, config.hidden_size), freeze=False)
        self.layers = nn.ModuleList(DecoderLayer(config, n) for n in range(config.num_hidden_layers))
        self.mixes = config.attn_res_block_size is not None
        if self.mixes:
            self.output_attn_res_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
            self.output_attn_res_proj = Query(config.hidden_size)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class K3(nn.Module):
    def __init__(self, config: K3Config, seed: int = 0) -> None:
        """Every parameter initialised as `model.init` declares, drawn from `seed`; on the meta device nothing is drawn."""
        super().__init__()
        self.config = config
        self.model = Backbone(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.mtp = MTP(config) if config.num_nextn_predict_layers else None
        self.vision_tower = MoonViT(config.vision) if config.vision else None
        self.mm_projector = Projector(config.vision, config.hidden_size) if config.vision else None
        if not self.lm_head.weight.is_meta:
            initialise(self, config, seed)

    def fused(self, *, lazy: bool = False) -> FusedK3:
        """The model ready to compute; gradients flow back to the parameters.

        Lazily, attention and MLPs lay out their weights only when they are called, which lets a sharded model gather one of
        them at a time.
        """
        backbone = self.model
        return FusedK3(
            embedding_VD=backbone.embed_tokens.weight,
            layers=[layer.fused(lazy=lazy) for layer in backbone.layers if isinstance(layer, DecoderLayer)],
            output_site=Site.of(backbone.output_attn_res_norm, backbone.output_attn_res_proj) if backbone.mixes else None,
            norm_D=backbone.norm.weight,
            head_VD=self.lm_head.weight,
            block_size=self.config.block_size,
            eps=self.config.rms_norm_eps,
        )

    def forward(self, ids_T: Tensor, layout: DocLayout, pictures_MD: Tensor | None = None) -> Hidden:
        """Hidden states of packed documents; none sees another. `pictures_MD` replaces the placeholder ids, in order."""
        assert ids_T.shape == (layout.tokens,), f"{tuple(ids_T.shape)} ids for a layout of {layout.tokens} tokens"
        fused = self.fused(lazy=True)
        x_TD = fused.embed(ids_T)
        return fused.packed(x_TD if pictures_MD is None else self.placed(x_TD, ids_T, pictures_MD), layout)

    def split(self, ids_T: Tensor, stretch: Stretch) -> Hidden:
        """`forward` with its tokens split over ranks, KDA by KCP, MLA by gathered latents: hidden states of this rank's tokens.

        `ids_T` are those of all ranks. All ranks call it together, and backward too; gradients are then to be summed over them.
        """
        fused = self.fused()
        return fused.split(fused.embed(ids_T[stretch.tokens]), stretch)

    def pictures(self, pixels_PCSS: Tensor, grids: Sequence[Grid]) -> Tensor:
        """[M, D] input embeddings of clips, end to end: `config.vision.tokens(grid)` of each."""
        assert self.vision_tower is not None, "this model reads no pictures"
        assert self.mm_projector is not None
        return self.mm_projector(self.vision_tower(pixels_PCSS, grids))

    def placed(self, x_TD: Tensor, ids_T: Tensor, pictures_MD: Tensor) -> Tensor:
        """The embeddings with a picture's in each placeholder's place. Raises UserError where the counts differ."""
        place_T = ids_T == self.config.media_placeholder_token_id
        if int(place_T.sum()) != len(pictures_MD):
            raise UserError(f"{int(place_T.sum())} placeholder ids for {len(pictures_MD)} tokens of pictures")
        return x_TD.index_put((place_T.nonzero()[:, 0],), pictures_MD.to(x_TD.dtype))

    @property
    def sight(self) -> Sight | None:
        """What the model makes of pictures; None where it reads none."""
        return sight_of(self.config)

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]; a picture's placeholder is never an output, so that every one in a row stands for a picture. [ours]"""
        return without_placeholder(product(hidden_ND, self.lm_head.weight), self.config)

    def mtp_hidden(self, hidden: Hidden, ids_T: Tensor, layout: DocLayout) -> Tensor:
        """[T, D] for the head: row t has also read token t + 1 and predicts t + 2; a document's last row means nothing."""
        assert self.mtp is not None, "this model has no MTP layer"
        following_T = torch.where(torch.from_numpy(layout.has(1)), ids_T.roll(-1), ids_T)
        return self.mtp(self.model.embed_tokens(following_T), hidden.final_TD, layout)

    def moe_layers(self) -> dict[str, LatentMoE]:
        """Name → module of every expert layer, the MTP layer's last."""
        return {name: m for name, m in self.named_modules() if isinstance(m, LatentMoE)}

    @property
    def quantized(self) -> bool:
        """Whether routed experts compute in MXFP4 and MXFP8."""
        return self.rule is not None

    @property
    def rule(self) -> Rule | None:
        """How the scales of a quantised model are chosen."""
        return next((moe.rule for moe in self.moe_layers().values()), None)

    def quantize(self, on: bool = True, rule: Rule = "floor") -> None:
        """Quantisation-aware from now on: the same function in training, decoding and export. Floor is OCP's rule."""
        for moe in self.moe_layers().values():
            moe.rule = rule if on else None

    def collect_routing(self, on: bool = True) -> None:
        """Count the routing of each forward that records gradients, for `balance`."""
        for moe in self.moe_layers().values():
            moe.counts = moe.fresh_counts() if on else None

    def balance(self, reduce: Reduce | None = None) -> dict[str, float]:
        """One update of the router biases from everything counted since the last; call once per optimiser step.

        `reduce` sums an int64 tensor in place over ranks. Returns `NAME.overload` (max/mean load) and `NAME.dead` (share of
        experts without a token) of each layer that counted any.
        """
        return rebalance(self.moe_layers(), reduce)


def sight_of(config: K3Config) -> Sight | None:
    """What a model of that shape makes of pictures; None where it reads none."""
    if config.vision is None or config.media_placeholder_token_id is None:
        return None
    return Sight(config=config.vision, placeholder=config.media_placeholder_token_id)


def sight_in(model: nn.Module) -> Sight | None:
    """What a model of any kind makes of pictures; None where it reads none."""
    return model.sight if isinstance(model, K3) else None


def without_placeholder(logits_NV: Tensor, config: K3Config) -> Tensor:
    """The logits, the placeholder's so low that its probability is 0; finite, as differences of log-probabilities are taken."""
    if config.media_placeholder_token_id is None:
        return logits_NV
    return logits_NV.index_fill(-1, torch.tensor(config.media_placeholder_token_id, device=logits_NV.device), NEVER)
