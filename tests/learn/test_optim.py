"""Optimisers against their float64 twins, conformance vectors and PyTorch's own; schedules; assignment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor, nn

from ninefold.core.errors import UserError
from ninefold.learn.optim.adamw import AdamWConfig, adamw
from ninefold.learn.optim.assign import Assigned, Rule, assign, k3_rules
from ninefold.learn.optim.muon import Muon, MuonConfig, blocks
from ninefold.learn.optim.naive import naive_adamw, naive_muon, naive_orthogonal
from ninefold.learn.optim.schedule import ScheduleConfig, learning_rate_factor
from ninefold.learn.optim.state import pack_state, unpack_state
from ninefold.model.k3 import K3
from ninefold.model.presets import preset


def _matrix(value: Tensor, **rule: object) -> Assigned:
    return Assigned(name="w", parameter=nn.Parameter(value.clone()), rule=Rule(pattern="w", optimizer="muon", **rule))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("shape", "heads", "within", "rows"),
    [
        ((12, 7), 1, (), (12,)),
        ((12, 7), 3, (), (4, 4, 4)),
        ((10, 16), 2, (3, 2), (3, 2, 3, 2)),
        ((5, 9), 5, (), (1, 1, 1, 1, 1)),
    ],
)
def test_muon_equals_its_twin(shape: tuple[int, int], heads: int, within: tuple[int, ...], rows: tuple[int, ...]):
    rng = np.random.default_rng(0)
    weight, momentum = rng.normal(size=shape), np.zeros(shape)
    matrix = _matrix(torch.from_numpy(weight).float(), heads=heads, within=within)
    optimizer = Muon([matrix], MuonConfig(lr=0.02))
    for _ in range(3):
        gradient = rng.normal(size=shape) * 10 ** rng.uniform(-6, 3)
        matrix.parameter.grad = torch.from_numpy(gradient).float()
        optimizer.step()
        weight, momentum = naive_muon(weight, momentum, gradient, rows=rows, lr=0.02)
    np.testing.assert_allclose(matrix.parameter.detach().numpy(), weight, rtol=2e-5, atol=2e-5)


def test_stacked_experts_are_a_matrix_each():
    rng = torch.Generator().manual_seed(1)
    weight_ERC, gradient_ERC = torch.randn(3, 4, 6, generator=rng), torch.randn(3, 4, 6, generator=rng)
    gradient_ERC[1] *= 1e-4
    stack = _matrix(weight_ERC)
    stack.parameter.grad = gradient_ERC.clone()
    Muon([stack], MuonConfig()).step()
    for e in range(3):
        alone = _matrix(weight_ERC[e])
        alone.parameter.grad = gradient_ERC[e].clone()
        Muon([alone], MuonConfig()).step()
        torch.testing.assert_close(stack.parameter[e], alone.parameter, rtol=1e-6, atol=1e-6)


def test_heads_of_very_different_scale_move_alike(golden: Path):
    v = load_file(golden / "muon" / "muon.safetensors")
    matrix = _matrix(torch.zeros(24, 10), heads=4)
    matrix.parameter.grad = v["G"].float()
    Muon([matrix], MuonConfig(lr=1.0, momentum=0.0, rms=1.0)).step()
    expected = -v["ns5_per_head"] * 10**0.5
    torch.testing.assert_close(matrix.parameter.detach().double(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(naive_orthogonal(v["G_tall"].numpy()), v["ns5_tall"].numpy(), atol=1e-12)


def test_muon_follows_pytorchs(golden: Path):
    v = load_file(golden / "muon" / "muon.safetensors")
    matrix = _matrix(torch.full((5, 9), 0.1))
    optimizer = Muon([matrix], MuonConfig(lr=0.02, weight_decay=0.1))
    for t in range(3):
        matrix.parameter.grad = v["G_wide"].float() * (t + 1)
        optimizer.step()
        torch.testing.assert_close(matrix.parameter.detach(), v["torch_muon_match_rms_adamw_traj_fp32"][t], rtol=0, atol=1e-3)


def test_zero_gradient_moves_nothing_but_decay():
    matrix = _matrix(torch.ones(4, 6))
    matrix.parameter.grad = torch.zeros(4, 6)
    Muon([matrix], MuonConfig(lr=0.5, weight_decay=0.1)).step()
    torch.testing.assert_close(matrix.parameter.detach(), torch.full((4, 6), 0.95))


@given(st.integers(1, 4), st.lists(st.integers(1, 4), max_size=3), st.integers(1, 5), st.integers(1, 3))
def test_blocks_tile_a_matrix_once(heads: int, within: list[int], cols: int, stack: int):
    rows = heads * (sum(within) or 3)
    matrix = torch.zeros(stack, rows, cols)
    for block_BRC in blocks(matrix, heads, tuple(within)):
        block_BRC += 1
    assert (matrix == 1).all()


def test_adamw_equals_its_twin():
    rng = np.random.default_rng(3)
    weight, first, second = rng.normal(size=(2, 5)), np.zeros((2, 5)), np.zeros((2, 5))
    plain, kept = (nn.Parameter(torch.from_numpy(weight).float()) for _ in range(2))
    rules = [Rule(pattern="", optimizer="adamw"), Rule(pattern="", optimizer="adamw", decay=False)]
    config = AdamWConfig(lr=0.03, weight_decay=0.2)
    optimizer = adamw(
        [Assigned(name=str(i), parameter=p, rule=r) for i, (p, r) in enumerate(zip((plain, kept), rules))], config
    )
    still = weight, first, second
    for step in range(1, 5):
        gradient = rng.normal(size=(2, 5)) * 10.0 ** -(2 * step)
        plain.grad = kept.grad = torch.from_numpy(gradient).float()
        optimizer.step()
        weight, first, second = naive_adamw(weight, first, second, gradient, step=step, lr=0.03, weight_decay=0.2)
        still = naive_adamw(*still, gradient, step=step, lr=0.03, weight_decay=0.0)
    np.testing.assert_allclose(plain.detach().numpy(), weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(kept.detach().numpy(), still[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["tiny", "nano"])
def test_every_parameter_of_a_model_is_assigned(name: str):
    config = preset(name)
    model = K3(config)
    assigned = {a.name: a for a in assign(model.named_parameters(), k3_rules(config))}
    assert assigned.keys() == dict(model.named_parameters()).keys()
    for a in assigned.values():
        if a.rule.optimizer == "muon":
            assert a.parameter.ndim in (2, 3)
            assert not any(part in a.name for part in ("embed", "norm", "lm_head"))
            assert (
                sum(block.numel() for block in blocks(a.parameter.detach(), a.rule.heads, a.rule.within)) == a.parameter.numel()
            )
        else:
            assert a.parameter.ndim == 1 or any(part in a.name for part in ("embed", "lm_head", "gate.", "conv", "res_proj"))
    heads = config.num_attention_heads
    assert assigned["model.layers.0.self_attn.q_proj.weight"].rule.heads == heads
    assert assigned["model.layers.3.self_attn.q_b_proj.weight"].rule.heads == heads
    assert assigned["model.layers.3.self_attn.kv_b_proj.weight"].rule.within == (config.qk_nope_head_dim, config.v_head_dim)
    assert assigned["model.layers.3.self_attn.kv_a_proj_with_mqa.weight"].rule.heads == 1
    assert assigned["model.layers.1.block_sparse_moe.gate.weight"].rule.optimizer == "adamw"


def test_an_unknown_name_is_an_error_and_a_frozen_one_is_left_out():
    model = nn.ModuleDict({"odd": nn.Linear(2, 2), "still": nn.Linear(2, 2)})
    model["still"].requires_grad_(False)
    with pytest.raises(UserError, match=r"odd\.weight"):
        assign(model.named_parameters(), k3_rules(preset("tiny")))
    assigned = assign(model.named_parameters(), [Rule(pattern="", optimizer="adamw")])
    assert [a.name for a in assigned] == ["odd.weight", "odd.bias"]


def test_state_round_trips_bit_exact():
    rng = torch.Generator().manual_seed(0)

    def made() -> tuple[list[Assigned], list[torch.optim.Optimizer]]:
        torch.manual_seed(0)
        a = Assigned(name="a", parameter=nn.Parameter(torch.randn(4, 6)), rule=Rule(pattern="a", optimizer="muon"))
        b = Assigned(name="b.c", parameter=nn.Parameter(torch.randn(5)), rule=Rule(pattern="b", optimizer="adamw"))
        return [a, b], [Muon([a], MuonConfig()), adamw([b], AdamWConfig())]

    def advance(assigned: list[Assigned], optimizers: list[torch.optim.Optimizer], gradients: list[Tensor]) -> None:
        for a, gradient in zip(assigned, gradients):
            a.parameter.grad = gradient.clone()
        for optimizer in optimizers:
            optimizer.step()

    first, second = ([torch.randn(4, 6, generator=rng), torch.randn(5, generator=rng)] for _ in range(2))
    assigned, optimizers = made()
    advance(assigned, optimizers, first)
    packed: dict[str, Tensor] = {}
    for optimizer in optimizers:
        packed |= {k: v.clone() for k, v in pack_state(optimizer, assigned).items()}
    assert {"a/momentum", "b.c/step", "b.c/exp_avg", "b.c/exp_avg_sq"} == packed.keys()
    weights = [a.parameter.detach().clone() for a in assigned]
    advance(assigned, optimizers, second)

    again, fresh = made()
    for a, weight in zip(again, weights):
        a.parameter.data.copy_(weight)
    for optimizer in fresh:
        unpack_state(optimizer, again, packed)
    advance(again, fresh, second)
    assert all(torch.equal(a.parameter, b.parameter) for a, b in zip(assigned, again))


@given(st.sampled_from(["cosine", "wsd", "constant"]), st.integers(1, 500), st.floats(0, 0.3), st.floats(0, 1), st.floats(0, 1))
def test_schedules_rise_once_then_never_rise(kind: str, steps: int, warmup: float, decay: float, floor: float):
    config = ScheduleConfig(kind=kind, warmup=warmup, decay=decay, floor=floor)  # pyright: ignore[reportArgumentType]
    factors = np.array([learning_rate_factor(config, step, steps) for step in range(steps + 3)])
    top = int(np.ceil(warmup * steps))
    assert (factors > 0).all() or floor == 0
    assert (factors <= 1 + 1e-12).all()
    assert (np.diff(factors[:top]) > 0).all()
    assert (np.diff(factors[max(top - 1, 0) : steps]) <= 1e-12).all()


def test_schedules_at_named_places():
    cosine = ScheduleConfig(warmup=0.01, floor=0.1)
    assert learning_rate_factor(cosine, 0, 1000) == pytest.approx(0.1)
    assert learning_rate_factor(cosine, 9, 1000) == 1.0
    assert learning_rate_factor(cosine, 504, 1000) == pytest.approx(0.55)
    assert learning_rate_factor(cosine, 999, 1000) == pytest.approx(0.1)
    assert learning_rate_factor(cosine, 5000, 1000) == pytest.approx(0.1)
    wsd = ScheduleConfig(kind="wsd", decay=0.2, floor=0.0)
    assert learning_rate_factor(wsd, 799, 1000) == 1.0
    assert learning_rate_factor(wsd, 899, 1000) == pytest.approx(0.5)
    assert learning_rate_factor(wsd, 999, 1000) == pytest.approx(0.0)
    assert learning_rate_factor(ScheduleConfig(kind="constant", warmup=0.0), 0, 7) == 1.0
