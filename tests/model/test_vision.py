"""MoonViT-V2 against a twin written patch by patch, in float64; clips apart; the published count."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.learn.optim.assign import assign, k3_rules
from ninefold.model.init import audit
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.model.vision import Encoder, Grid, MoonViT, Positions, Projector, VisionBlock, VisionConfig, rotations
from tests.model.test_k3 import spread

SMALL = VisionConfig(
    patch_size=3,
    vt_hidden_size=8,
    vt_num_hidden_layers=2,
    vt_num_attention_heads=2,
    qkv_hidden_size=16,
    vt_intermediate_size=12,
    init_pos_emb_height=3,
    init_pos_emb_width=5,
)
GRIDS: list[Grid] = [(1, 2, 4), (3, 2, 2), (1, 4, 6)]


def tower(config: VisionConfig = SMALL, seed: int = 0) -> MoonViT:
    model = MoonViT(config).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return model


def pixels(grids: list[Grid], config: VisionConfig = SMALL, seed: int = 1) -> Tensor:
    patches = sum(f * r * c for f, r, c in grids)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(patches, 3, config.patch_size, config.patch_size, generator=generator, dtype=torch.float64)


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * ((x**2).mean() + 1e-5) ** -0.5 * weight


def stretched(table: Tensor, row: int, column: int, rows: int, columns: int) -> Tensor:
    """Bilinear, half-pixel centres, edges held."""

    def place(i: int, n: int, size: int) -> tuple[int, int, float]:
        at = max(0.0, (i + 0.5) * size / n - 0.5)
        low = min(int(at), size - 1)
        return low, min(low + 1, size - 1), at - low

    r0, r1, a = place(row, rows, table.shape[0])
    c0, c1, b = place(column, columns, table.shape[1])
    top = (1 - b) * table[r0, c0] + b * table[r0, c1]
    return (1 - a) * top + a * ((1 - b) * table[r1, c0] + b * table[r1, c1])


def turned(x: Tensor, row: int, column: int) -> Tensor:
    """Each pair of channels as a complex number; the pairs turn by column and by row in turn."""
    width = len(x)
    pairs = torch.complex(x[0::2], x[1::2])
    out: list[Tensor] = []
    for i, pair in enumerate(pairs):
        rate = 10_000.0 ** (-4 * (i // 2) / width)
        angle = torch.tensor((column if i % 2 == 0 else row) * rate, dtype=torch.float64)
        out.append(pair * torch.polar(torch.ones_like(angle), angle))
    return torch.view_as_real(torch.stack(out)).flatten()


def naive(model: MoonViT, clip: Tensor, grid: Grid) -> Tensor:
    """One clip, patch by patch."""
    config = model.config
    frames, rows, columns = grid
    places = [(f, r, c) for f in range(frames) for r in range(rows) for c in range(columns)]
    table = model.patch_embed.pos_emb.weight
    half = config.vt_hidden_size // 2
    xs: list[Tensor] = []
    for patch, (f, r, c) in zip(clip, places, strict=True):
        x = (model.patch_embed.proj.weight * patch).sum((1, 2, 3)) + stretched(table, r, c, rows, columns)
        if frames > 1:
            angles = [f * 10_000.0 ** (-i / half) for i in range(half)]
            x = x + torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)
        xs.append(x)
    for block in model.encoder.blocks:
        assert isinstance(block, VisionBlock)
        width = config.qkv_hidden_size // config.vt_num_attention_heads
        projected = [(block.wqkv.weight @ norm(x, block.norm0.weight)).view(3, -1, width) for x in xs]
        mixed: list[Tensor] = []
        for i, (_, row, column) in enumerate(places):
            heads: list[Tensor] = []
            for h in range(config.vt_num_attention_heads):
                query = turned(projected[i][0, h], row, column)
                keys = [turned(projected[j][1, h], places[j][1], places[j][2]) for j in range(len(xs))]
                weights = torch.softmax(torch.stack([query @ key for key in keys]) / math.sqrt(width), 0)
                heads.append(sum((w * projected[j][2, h] for j, w in enumerate(weights)), torch.zeros(width).double()))
            mixed.append(block.wo.weight @ torch.cat(heads))
        xs = [x + y for x, y in zip(xs, mixed)]
        for i, x in enumerate(xs):
            inner = block.mlp.fc0.weight @ norm(x, block.norm1.weight)
            gelu = 0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
            xs[i] = x + block.mlp.fc1.weight @ gelu
    final = {place: norm(x, model.encoder.final_layernorm.weight) for place, x in zip(places, xs)}
    tall, wide = config.merge_kernel_size
    windows: list[Tensor] = []
    for r in range(0, rows, tall):
        for c in range(0, columns, wide):
            window = [(r + i, c + j) for i in range(tall) for j in range(wide)]
            windows.append(torch.cat([torch.stack([final[f, *p] for f in range(frames)]).mean(0) for p in window]))
    return torch.stack(windows)


def test_the_tower_equals_its_twin_with_gradients() -> None:
    ours, twin = tower(), tower()
    batch = pixels(GRIDS)
    out = ours(batch, GRIDS)
    clips = batch.split([f * r * c for f, r, c in GRIDS])
    expected = torch.cat([naive(twin, clip, grid) for clip, grid in zip(clips, GRIDS, strict=True)])
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (out * weight).sum().backward()
    (expected * weight).sum().backward()
    for (name, one), other in zip(ours.named_parameters(), twin.parameters(), strict=True):
        assert one.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-10, msg=name)


def test_clips_do_not_see_each_other() -> None:
    model, batch = tower(), pixels(GRIDS)
    together = model(batch, GRIDS)
    clips = batch.split([f * r * c for f, r, c in GRIDS])
    alone = torch.cat([model(clip, [grid]) for clip, grid in zip(clips, GRIDS, strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


def test_every_patch_of_a_clip_is_seen_and_frames_are_told_apart() -> None:
    model, grid = tower(), (2, 2, 4)
    batch = pixels([grid]).requires_grad_()
    model(batch, [grid])[0].sum().backward()
    assert batch.grad is not None
    assert (batch.grad.flatten(1).abs().amax(1) > 0).all()
    frames = batch.detach().view(2, -1, *batch.shape[1:])
    swapped = frames.flip(0).flatten(0, 1)
    assert not torch.allclose(model(batch.detach(), [grid]), model(swapped, [grid])), "frame positions tell order"


def test_angles_depend_on_the_place_and_not_on_the_frame() -> None:
    angles = rotations((2, 3, 4), 8)
    assert torch.equal(angles[:12], angles[12:])
    assert len({tuple(row) for row in angles[:12].tolist()}) == 12
    assert angles[0].abs().max() == 0


def test_a_grid_of_the_tables_own_size_is_not_stretched() -> None:
    positions = Positions(SMALL)
    with torch.no_grad():
        positions.weight.normal_(generator=torch.Generator().manual_seed(0))
    assert torch.equal(positions((1, 3, 5)), positions.weight.reshape(15, -1))
    assert positions((4, 3, 5)).shape == (60, SMALL.vt_hidden_size)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((5, 2, 2), "1 to 4 frames"),
        ((0, 2, 2), "1 to 4 frames"),
        ((1, 3, 2), "pad"),
        ((1, 2, 0), "pad"),
        ((1, 256, 258), "at most 65,536 patches"),
    ],
)
def test_grids_that_cannot_be_read_are_refused(grid: Grid, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SMALL.tokens(grid)


def test_published_size() -> None:
    """Report: 401.16M parameters in the tower and 46M in the projector; 3584² pixels are 16,384 tokens."""
    config = VisionConfig()
    with torch.device("meta"):
        counted = sum(p.numel() for p in MoonViT(config).parameters())
        projector = sum(p.numel() for p in Projector(config, 7168).parameters())
    assert counted / 401.16e6 == pytest.approx(1, abs=1e-3)
    assert round(projector / 1e6) == 46
    assert config.tokens((1, 3584 // 14, 3584 // 14)) == 16_384


def test_extreme_pixels_stay_finite() -> None:
    model = Encoder(SMALL)
    grid: Grid = (1, 2, 2)
    for scale in (0.0, 1e-20, 1e18):
        x = torch.full((4, SMALL.vt_hidden_size), scale, requires_grad=True)
        out = model(x, [grid])
        out.sum().backward()
        assert torch.isfinite(out).all()
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()


def seeing(seed: int = 0) -> K3:
    config = preset("tiny").model_copy(update={"vision": SMALL, "media_placeholder_token_id": 7})
    return spread(K3(config, seed=seed))


def test_a_picture_stands_where_its_placeholders_are() -> None:
    """Tokens before it do not know it, those of its document behind it do, another document never; the tower gets gradients."""
    model = seeing()
    ids, layout = torch.tensor([3, 4, 7, 7, 5, 6, 8, 9]), DocLayout.of([6, 2])
    batch = pixels([(1, 2, 4)]).float()
    one = model(ids, layout, model.pictures(batch, [(1, 2, 4)])).final_TD
    other = model(ids, layout, model.pictures(batch.flip(0), [(1, 2, 4)])).final_TD
    changed = (one != other).any(-1)
    assert changed.tolist() == [False, False, True, True, True, True, False, False]
    one[4].sum().backward()
    for name, parameter in model.named_parameters():
        if name.startswith(("vision_tower.", "mm_projector.")):
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name


def test_without_pictures_a_seeing_model_computes_as_a_blind_one() -> None:
    model, blind = seeing(), spread(K3(preset("tiny"), seed=0))
    ids, layout = torch.tensor([3, 4, 5, 6]), DocLayout.of([4])
    blind.load_state_dict({name: t for name, t in model.state_dict().items() if name in blind.state_dict()})
    assert torch.equal(model(ids, layout).final_TD, blind(ids, layout).final_TD)


def test_placeholders_and_pictures_must_agree() -> None:
    model = seeing()
    merged = model.pictures(pixels([(1, 2, 4)]).float(), [(1, 2, 4)])
    with pytest.raises(UserError, match="1 placeholder ids for 2 tokens"):
        model(torch.tensor([3, 7, 4]), DocLayout.of([3]), merged)


def test_a_seeing_model_begins_as_declared_and_has_an_optimiser() -> None:
    model = K3(preset("tiny").model_copy(update={"vision": SMALL, "media_placeholder_token_id": 7}), seed=4)
    audit(model, model.config)
    rules = {a.name: a.rule for a in assign(model.named_parameters(), k3_rules(model.config))}
    assert rules["vision_tower.encoder.blocks.0.wqkv.weight"].heads == 3 * SMALL.vt_num_attention_heads
    assert rules["vision_tower.patch_embed.pos_emb.weight"].optimizer == "adamw"
    assert rules["mm_projector.proj.2.weight"].optimizer == "muon"
