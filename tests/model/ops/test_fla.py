"""The adapter to flash-linear-attention against a stand-in with its signatures, which computes by our naive form."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ninefold.core.layout import DocLayout
from ninefold.model.ops import fla
from ninefold.model.ops.kda import kda, kda_step, kda_step_torch
from ninefold.model.ops.naive import kda_naive
from tests.model.ops.test_kda import inputs, run, worst

Pair = tuple[Tensor, Tensor | None]


def chunk_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    cp_context: object = None,
    **kwargs: object,
) -> Pair:
    """As fla 0.6 checks and computes it, where the gate and the norms are the caller's."""
    assert not use_qk_l2norm_in_kernel
    assert not use_gate_in_kernel
    assert not use_beta_sigmoid_in_kernel
    assert not safe_gate
    assert not kwargs
    batch, tokens, heads, width = q.shape
    assert q.shape == k.shape == g.shape
    assert v.shape[:3] == beta.shape == (batch, tokens, heads)
    assert scale is not None
    if isinstance(q, torch._subclasses.FakeTensor):
        return torch.empty_like(v), q.new_empty(2, heads, width, v.shape[-1])
    assert cu_seqlens is not None
    assert batch == 1
    assert cu_seqlens.dtype == torch.int64
    lengths = cu_seqlens.diff().tolist()
    assert initial_state is None or (len(initial_state) == len(lengths) and initial_state.dtype == torch.float32)
    o, final = kda_naive(scale * q[0], k[0], v[0], g[0], beta[0], DocLayout.of(lengths), initial_state)
    return o[None], final if output_final_state else None


def fused_recurrent_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    **kwargs: object,
) -> Pair:
    """As fla 0.6 computes rows of equal length, out of place."""
    assert cu_seqlens is None
    assert A_log is None
    assert scale is not None
    layout = DocLayout.of([q.shape[1]] * len(q))
    o, final = kda_naive(*(x.flatten(0, 1) for x in (scale * q, k, v, g, beta)), layout, initial_state)
    return o.unflatten(0, q.shape[:2]), final if output_final_state else None


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = ("fla", "fla.ops", "fla.ops.kda")
    modules = [ModuleType(name) for name in names]
    for name, module in zip(names, modules):
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        monkeypatch.setitem(sys.modules, name, module)
    vars(modules[-1]).update(chunk_kda=chunk_kda, fused_recurrent_kda=fused_recurrent_kda)
    fla.kernels.cache_clear()
    yield
    fla.kernels.cache_clear()


@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.usefixtures("installed")
def test_packed_documents_with_gradients(initial: bool) -> None:
    lengths = [5, 1, 18]
    made = [x.float() for x in inputs(lengths, 2, 8, 6)]

    def form(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        return fla.chunked(*arguments)  # pyright: ignore[reportArgumentType]

    layout = DocLayout.of(lengths)
    assert worst(run(form, made, layout, initial=initial), run(kda_naive, made, layout, initial=initial)) < 1e-6


@pytest.mark.usefixtures("installed")
def test_steps_move_the_state_in_place() -> None:
    made = [x.float() for x in inputs([1] * 5, 2, 8, 6)]
    state, want = made[5].clone(), made[5].clone()
    torch.testing.assert_close(fla.stepped(*made[:5], state), kda_step_torch(*made[:5], want))
    torch.testing.assert_close(state, want)


@pytest.mark.usefixtures("installed")
def test_only_cuda_tensors_go_there(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = DocLayout.of([3, 4])
    made = [x.float() for x in inputs([3, 4], 2, 8, 6)]
    asked: list[str] = []
    for name in ("chunk_kda", "fused_recurrent_kda"):
        kernel = getattr(fla.kernels(), name)
        monkeypatch.setattr(
            fla.kernels(), name, lambda *a, called=kernel, **k: (asked.append(called.__name__), called(*a, **k))[1]
        )
    kda(*made[:5], layout, made[5])
    kda_step(*(x[:2] for x in made[:5]), made[5].clone())
    assert asked == []
    with FakeTensorMode(allow_non_fake_inputs=True):
        there = [torch.empty_like(x, device="cuda") for x in made]
        o, final = kda(*there[:5], layout, there[5])
        assert (o.device.type, o.shape, final.shape) == ("cuda", made[2].shape, made[5].shape)
    assert asked == ["chunk_kda"]


def test_without_the_package_nothing_changes() -> None:
    fla.kernels.cache_clear()
    assert fla.kernels() is None
