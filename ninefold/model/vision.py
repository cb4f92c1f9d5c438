"""MoonViT-V2 and the projector: pictures and videos as inputs of the language model (spec 01, "Vision").

Shapes: P patches of all clips end to end, C channels, S patch side, D width, H heads, Q head width, M merged patches.
A clip is a grid (frames, rows, columns) of patches; a picture is a clip of one frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.model.norm import RMSNorm
from ninefold.model.ops.product import product

Grid = tuple[int, int, int]
"""Frames, rows, columns, in patches."""
THETA = 10_000.0
CHANNELS = 3


MOST_PATCHES = 256 * 256
"""Of a picture: those of the largest that K3 takes, 3584 × 3584 pixels in patches of 14 (spec 01)."""


class VisionConfig(Config):
    """Shape of the tower and its projector, in the field names of the public `vision_config`."""

    patch_size: int = Field(default=14, ge=1)
    vt_hidden_size: int = 1024
    vt_num_hidden_layers: int = 27
    vt_num_attention_heads: int = 12
    qkv_hidden_size: int = 1536
    """Of all heads together; need not be the tower's width."""
    vt_intermediate_size: int = 4096
    init_pos_emb_height: int = 64
    init_pos_emb_width: int = 64
    init_pos_emb_time: int = 4
    """Most frames of a clip."""
    merge_kernel_size: tuple[int, int] = (2, 2)
    projector_ln_eps: float = 1e-5
    norm_eps: float = 1e-5

    @model_validator(mode="after")
    def _consistent(self) -> VisionConfig:
        assert self.qkv_hidden_size % (4 * self.vt_num_attention_heads) == 0, "a head turns pairs of channels by row and column"
        assert self.vt_hidden_size % 2 == 0, "frame positions are pairs of sine and cosine"
        return self

    @property
    def merged_size(self) -> int:
        """Width of what the projector reads: one window of patches."""
        rows, columns = self.merge_kernel_size
        return self.vt_hidden_size * rows * columns

    def tokens(self, grid: Grid) -> int:
        """Input tokens that a clip stands for; its frames are pooled. Raises UserError for a grid that windows do not tile, or
        that is too large."""
        frames, rows, columns = grid
        if not 1 <= frames <= self.init_pos_emb_time:
            raise UserError(f"a clip has 1 to {self.init_pos_emb_time} frames, got {frames}; sample fewer or cut it")
        tall, wide = self.merge_kernel_size
        if rows < 1 or columns < 1 or rows % tall or columns % wide:
            raise UserError(f"{rows} × {columns} patches cannot be merged {tall} × {wide}; pad the picture")
        if rows * columns > MOST_PATCHES:
            raise UserError(
                f"a picture has at most {MOST_PATCHES:,} patches of {self.patch_size}² pixels for this model, "
                f"this one {rows} × {columns}; scale it down"
            )
        return rows // tall * (columns // wide)


class Positions(nn.Module):
    """Learned table over rows and columns, stretched to a clip's grid; fixed sines over frames."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(config.init_pos_emb_height, config.init_pos_emb_width, config.vt_hidden_size))

    def forward(self, grid: Grid) -> Tensor:
        """[patches of the clip, D]"""
        frames, rows, columns = grid
        table = self.weight
        if table.shape[:2] != (rows, columns):
            stretched = F.interpolate(table.permute(2, 0, 1)[None], size=(rows, columns), mode="bilinear", align_corners=False)
            table = stretched[0].permute(1, 2, 0)
        flat = table.reshape(rows * columns, -1)
        if frames == 1:
            return flat
        return (flat + frame_positions(frames, flat.shape[1], flat)[:, None]).reshape(frames * rows * columns, -1)


def frame_positions(frames: int, width: int, like: Tensor) -> Tensor:
    """[frames, width]: sines, then cosines, of the frame's number at geometric frequencies."""
    rate = THETA ** -(torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angle = torch.arange(frames, dtype=torch.float64)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], -1).to(like)


def rotations(grid: Grid, width: int) -> Tensor:
    """[patches of the clip, width / 2] angles of a head's channel pairs: column and row by turns, alike in every frame."""
    frames, rows, columns = grid
    rate = THETA ** -(torch.arange(0, width, 4, dtype=torch.float64) / width)
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    angles = torch.stack([column.reshape(-1, 1) * rate, row.reshape(-1, 1) * rate], -1).flatten(1)
    return angles.repeat(frames, 1)


def rotate(x_PHQ: Tensor, angles: Tensor) -> Tensor:
    """Turn each pair of neighbouring channels by its angle, [P, Q / 2]."""
    cos, sin = (f(angles).to(x_PHQ)[:, None] for f in (torch.cos, torch.sin))
    a, b = x_PHQ[..., 0::2], x_PHQ[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class VisionMLP(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.fc0 = nn.Linear(config.vt_hidden_size, config.vt_intermediate_size, bias=False)
        self.fc1 = nn.Linear(config.vt_intermediate_size, config.vt_hidden_size, bias=False)

    def forward(self, x_PD: Tensor) -> Tensor:
        return product(F.gelu(product(x_PD, self.fc0.weight), approximate="tanh"), self.fc1.weight)


class VisionBlock(nn.Module):
    """Pre-norm attention over all patches of a clip, in both directions, and an MLP."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.heads = config.vt_num_attention_heads
        self.norm0 = RMSNorm(config.vt_hidden_size, config.norm_eps)
        self.wqkv = nn.Linear(config.vt_hidden_size, 3 * config.qkv_hidden_size, bias=False)
        self.wo = nn.Linear(config.qkv_hidden_size, config.vt_hidden_size, bias=False)
        self.norm1 = RMSNorm(config.vt_hidden_size, config.norm_eps)
        self.mlp = VisionMLP(config)

    def forward(self, x_PD: Tensor, sizes: Sequence[int], angles: Tensor) -> Tensor:
        q_PHQ, k_PHQ, v_PHQ = product(self.norm0(x_PD), self.wqkv.weight).unflatten(-1, (3, self.heads, -1)).unbind(1)
        turned = (rotate(q_PHQ, angles), rotate(k_PHQ, angles), v_PHQ)
        clips = zip(*(part.transpose(0, 1).split(list(sizes), 1) for part in turned), strict=True)
        # With a batch dimension: without one PyTorch holds all scores of a clip at once.
        mixed = [F.scaled_dot_product_attention(*(part[None] for part in clip))[0] for clip in clips]
        mixed_PHQ = torch.cat(mixed, 1).transpose(0, 1)
        x_PD = x_PD + product(mixed_PHQ.flatten(1), self.wo.weight)
        return x_PD + self.mlp(self.norm1(x_PD))


class PatchEmbed(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        side = config.patch_size
        self.proj = nn.Conv2d(CHANNELS, config.vt_hidden_size, side, side, bias=False)
        self.pos_emb = Positions(config)

    def forward(self, pixels_PCSS: Tensor, grids: Sequence[Grid]) -> Tensor:
        """[P, D]"""
        embedded_PD = product(pixels_PCSS.flatten(1), self.proj.weight.flatten(1))
        return embedded_PD + torch.cat([self.pos_emb(grid) for grid in grids])


class Encoder(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.width = config.qkv_hidden_size // config.vt_num_attention_heads
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.vt_num_hidden_layers))
        self.final_layernorm = RMSNorm(config.vt_hidden_size, config.norm_eps)

    def forward(self, x_PD: Tensor, grids: Sequence[Grid]) -> Tensor:
        sizes = [frames * rows * columns for frames, rows, columns in grids]
        angles = torch.cat([rotations(grid, self.width) for grid in grids])
        for block in self.blocks:
            x_PD = block(x_PD, sizes, angles)
        return self.final_layernorm(x_PD)


class MoonViT(nn.Module):
    """The tower under its public names (`vision_tower.`)."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.encoder = Encoder(config)

    def forward(self, pixels_PCSS: Tensor, grids: Sequence[Grid]) -> Tensor:
        """[M, merged width]: frames pooled by their mean, then windows of patches end to end."""
        assert len(pixels_PCSS) == sum(f * r * c for f, r, c in grids), f"{len(pixels_PCSS)} patches for the clips {grids}"
        x_PD = self.encoder(self.patch_embed(pixels_PCSS, grids), grids)
        clips = x_PD.split([f * r * c for f, r, c in grids])
        return torch.cat([self._merge(clip, grid) for clip, grid in zip(clips, grids, strict=True)])

    def _merge(self, clip_PD: Tensor, grid: Grid) -> Tensor:
        tokens = self.config.tokens(grid)
        frames, rows, columns = grid
        tall, wide = self.config.merge_kernel_size
        pooled = clip_PD.view(frames, rows, columns, -1).mean(0)
        windows = pooled.view(rows // tall, tall, columns // wide, wide, -1).transpose(1, 2)
        return windows.reshape(tokens, self.config.merged_size)


class Projector(nn.Module):
    """From merged patches to input tokens, under its public names (`mm_projector.`)."""

    def __init__(self, config: VisionConfig, width: int) -> None:
        super().__init__()
        merged = config.merged_size
        self.proj = nn.Sequential(nn.Linear(merged, merged, bias=False), nn.GELU(), nn.Linear(merged, width, bias=False))
        self.post_norm = RMSNorm(width, config.projector_ln_eps)

    def forward(self, merged_MD: Tensor) -> Tensor:
        first, second = (self.proj.get_parameter(f"{n}.weight") for n in (0, 2))
        return self.post_norm(product(F.gelu(product(merged_MD, first)), second))
