"""KDA: naive recurrence = chunk form = C kernel = decoding step, outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.model.ops import native
from ninefold.model.ops.kda import kda, kda_gate, kda_step, kda_step_torch, l2norm
from ninefold.model.ops.kda_chunk import kda_chunk
from ninefold.model.ops.naive import kda_naive

Form = Callable[..., tuple[Tensor, Tensor]]
FAST = pytest.mark.parametrize("form", [kda_chunk, kda], ids=["chunk", "native"])


def inputs(
    lengths: Sequence[int],
    heads: int,
    K: int,
    V: int,
    *,
    spread: float = 1.0,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> list[Tensor]:
    """q, k, v, g, beta and an initial state; a large spread saturates the gates at −5 and 0."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    T = sum(lengths)
    made = [
        l2norm(normal(T, heads, K)) * K**-0.5,
        l2norm(normal(T, heads, K)),
        normal(T, heads, V),
        -5 * torch.sigmoid(spread * normal(T, heads, K)),
        torch.sigmoid(normal(T, heads)),
        normal(len(lengths), heads, K, V),
    ]
    return [x.to(dtype) for x in made]


def run(form: Form, made: Sequence[Tensor], layout: DocLayout, *, initial: bool = True) -> list[Tensor]:
    """Outputs, then the gradients of a loss that weighs outputs and final states unevenly."""
    leaves = [x.clone().requires_grad_() for x in made]
    o, final = form(*leaves[:5], layout, leaves[5] if initial else None)
    generator = torch.Generator().manual_seed(99)
    loss = (o * torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o)).sum()
    loss = loss + (final * torch.randn(final.shape, generator=generator, dtype=torch.float64).to(o)).sum()
    used = leaves if initial else leaves[:5]
    return [o.detach(), final.detach(), *torch.autograd.grad(loss, used)]


def worst(got: Sequence[Tensor], want: Sequence[Tensor]) -> float:
    """Largest error relative to each tensor's own scale (never below 1e-3: some gradients are exactly 0)."""
    return max(float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-3)) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("name", ["basic_T1", "basic_T7", "scale1_T16", "zero_key_T8"])
@pytest.mark.parametrize(
    ("form", "dtype", "tolerance"),
    [
        (kda_naive, torch.float64, 1e-9),
        (kda_chunk, torch.float64, 1e-9),
        (kda_chunk, torch.float32, 2e-4),
        (kda, torch.float32, 2e-4),
    ],
)
def test_golden(golden: Path, name: str, form: Form, dtype: torch.dtype, tolerance: float) -> None:
    case = load_file(golden / "kda" / f"{name}.safetensors")
    B, T, H, K = case["q"].shape
    layout = DocLayout.of([T] * B)
    names = ["q", "k", "v", "z", "beta_logit", "A_log", "dt_bias"] + ["initial_state"] * ("initial_state" in case)
    leaf = {n: case[n].to(dtype).requires_grad_() for n in names}
    scale = 1.0 if name.startswith("scale1") else K**-0.5
    g = kda_gate((leaf["z"] + leaf["dt_bias"].view(H, K)).flatten(0, 1), leaf["A_log"])
    q, k, v, beta = (x.flatten(0, 1) for x in (l2norm(leaf["q"]), l2norm(leaf["k"]), leaf["v"], leaf["beta_logit"].sigmoid()))
    o, final = form(q * scale, k, v, g, beta, layout, leaf.get("initial_state"))
    loss = (o.unflatten(0, (B, T)) * case["w_o"]).sum() + (final * case["w_s"]).sum()
    grads = torch.autograd.grad(loss, list(leaf.values()))
    want = [case["o"].flatten(0, 1), case["final_state"], *(case[f"grad_{n}"] for n in names)]
    for a, b in zip([o.detach(), final.detach(), *grads], want, strict=True):
        assert float((a.double() - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))


def test_golden_gate(golden: Path) -> None:
    case = load_file(golden / "kda" / "gate.safetensors")
    z, A, bias = (case[n].requires_grad_() for n in ("z", "A_log", "dt_bias"))
    g = kda_gate(z + bias.view(3, 4), A)
    torch.testing.assert_close(g, case["g_lower_bounded"], rtol=1e-12, atol=1e-12)
    grads = torch.autograd.grad((g * case["w"]).sum(), (z, A, bias))
    for got, name in zip(grads, ("grad_z", "grad_A_log", "grad_dt_bias")):
        torch.testing.assert_close(got, case[name], rtol=1e-12, atol=1e-12)


def test_gate_refuses_what_the_chunk_form_cannot_hold() -> None:
    with pytest.raises(UserError, match="at least -5"):
        kda_gate(torch.zeros(1, 1, 1), torch.zeros(1), g_min=-8.0)


LENGTHS = ([1], [15, 16, 17], [31, 32, 33], [5, 1, 70, 16, 33], [128], [2, 2, 2, 97])


@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_chunk_equals_naive_in_float64(lengths: list[int], spread: float, initial: bool) -> None:
    made = inputs(lengths, 2, 8, 6, spread=spread)
    layout = DocLayout.of(lengths)
    assert worst(run(kda_chunk, made, layout, initial=initial), run(kda_naive, made, layout, initial=initial)) < 1e-9


@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("widths", [(32, 32), (16, 16), (8, 6), (5, 24), (64, 64)], ids=str)
@FAST
def test_float32_forms_equal_naive(form: Form, widths: tuple[int, int], spread: float) -> None:
    lengths = [5, 1, 49, 16, 33]
    made = inputs(lengths, 2, *widths, spread=spread)
    layout = DocLayout.of(lengths)
    got = run(form, [x.float() for x in made], layout)
    assert all(x.isfinite().all() for x in got)
    assert worst(got, run(kda_naive, made, layout)) < 2e-4


@FAST
def test_width_128_of_the_full_model(form: Form) -> None:
    made = inputs([19], 1, 128, 128)
    layout = DocLayout.of([19])
    assert worst(run(form, [x.float() for x in made], layout), run(kda_naive, made, layout)) < 2e-4


@FAST
def test_fully_closed_gates_keep_gradients_finite(form: Form) -> None:
    made = inputs([96], 2, 16, 16)
    made[3] = torch.full_like(made[3], -5.0)
    layout = DocLayout.of([96])
    got = run(form, [x.float() for x in made], layout)
    assert all(x.isfinite().all() for x in got)
    assert worst(got, run(kda_naive, made, layout)) < 2e-4


@FAST
def test_repeated_keys_without_decay(form: Form) -> None:
    """One key over and over, β 1, no decay: powers of the chunk's matrix grow like binomials, its inverse does not."""
    made = inputs([64], 1, 16, 16)
    made[1] = made[1][:1].expand_as(made[1]).contiguous()
    made[3], made[4] = torch.zeros_like(made[3]), torch.ones_like(made[4])
    layout = DocLayout.of([64])
    assert worst(run(form, [x.float() for x in made], layout), run(kda_naive, made, layout)) < 2e-4


@FAST
def test_zero_keys_leave_the_state_to_decay(form: Form) -> None:
    made = [x.float() for x in inputs([40], 2, 8, 8)]
    made[1] = torch.zeros_like(made[1])
    _, final = form(*made[:5], DocLayout.of([40]), made[5])
    torch.testing.assert_close(final, made[5] * made[3].sum(0).exp()[..., None], rtol=1e-4, atol=1e-12)


@FAST
def test_extreme_gate_scale_has_finite_gradients(form: Form) -> None:
    q, k, v, _, beta, initial = (x.float() for x in inputs([20], 2, 8, 8))
    z = torch.randn(20, 2, 8, generator=torch.Generator().manual_seed(0))
    z[3] = 0.0
    z.requires_grad_()
    A = torch.tensor([200.0, -200.0], requires_grad=True)
    o, _ = form(q, k, v, kda_gate(z, A), beta, DocLayout.of([20]), initial)
    assert all(x.isfinite().all() for x in torch.autograd.grad(o.sum(), (z, A)))


@FAST
def test_what_follows_changes_nothing_before(form: Form) -> None:
    """Prefix invariance, bit for bit: neither tokens nor gates behind a position reach its output."""
    made = [x.float() for x in inputs([80], 2, 16, 16)]
    whole, _ = form(*made[:5], DocLayout.of([80]), made[5])
    for cut in (1, 16, 31, 32, 50):
        changed = [x.clone() for x in made]
        for x in changed[:5]:
            x[cut:] = x[cut:].flip(0) * 0.5
        assert torch.equal(form(*changed[:5], DocLayout.of([80]), changed[5])[0][:cut], whole[:cut])


@FAST
def test_documents_do_not_leak(form: Form) -> None:
    lengths = [20, 1, 47, 33]
    layout = DocLayout.of(lengths)
    made = [x.float() for x in inputs(lengths, 2, 16, 16)]
    before = run(form, made, layout)
    changed = [x.clone() for x in made]
    inside = torch.from_numpy(layout.document == 2)
    for x in changed[:3]:
        x[inside] += 1.0
    changed[5][2] -= 1.0
    after = run(form, changed, layout)
    for index, (a, b) in enumerate(zip(before, after)):
        per_token = index not in (1, 7)
        others = ~inside if per_token else torch.arange(4) != 2
        assert torch.equal(a[others], b[others])
        assert not torch.equal(a[~others], b[~others])


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 70), min_size=1, max_size=4), cut=st.floats(0, 1), seed=st.integers(0, 1000))
def test_a_document_may_be_cut_and_continued(lengths: list[int], cut: float, seed: int) -> None:
    made = [x.float() for x in inputs(lengths, 1, 16, 16, seed=seed)]
    last = lengths[-1]
    head = min(max(int(cut * last), 1), last)
    whole, final = kda(*made[:5], DocLayout.of(lengths), made[5])
    T = sum(lengths) - last
    first, state = kda(*(x[: T + head] for x in made[:5]), DocLayout.of([*lengths[:-1], head]), made[5])
    torch.testing.assert_close(first, whole[: T + head], rtol=1e-4, atol=1e-5)
    if head < last:
        rest, end = kda(*(x[T + head :] for x in made[:5]), DocLayout.of([last - head]), state[-1:])
        torch.testing.assert_close(rest, whole[T + head :], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(end[0], final[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [kda_step, kda_step_torch])
@pytest.mark.parametrize("width", [32, 12])
def test_steps_equal_the_sequence(step: Callable[..., Tensor], width: int) -> None:
    B, T = 5, 21
    made = [x.float() for x in inputs([T] * B, 2, width, width)]
    whole, final = kda(*made[:5], DocLayout.of([T] * B), made[5])
    state = made[5].clone()
    q, k, v, g, beta = (x.unflatten(0, (B, T)) for x in made[:5])
    outputs = torch.stack([step(q[:, t], k[:, t], v[:, t], g[:, t], beta[:, t], state) for t in range(T)], 1)
    torch.testing.assert_close(outputs.flatten(0, 1), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, final, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not native.status().available, reason="no C kernels on this machine")
def test_native_step_is_bit_equal_to_native_sequence() -> None:
    made = [x.float() for x in inputs([30], 2, 32, 32)]
    whole, _ = kda(*made[:5], DocLayout.of([30]), made[5])
    state = made[5].clone()
    rows = [kda_step(*(x[t : t + 1] for x in made[:5]), state) for t in range(30)]
    assert torch.equal(torch.cat(rows), whole)


def test_order_of_decay_and_delta() -> None:
    """The read k·S happens after the decay: with S₀ = k vᵀ, β 1 and α < 1 the error is v − α v, not 0."""
    k = torch.tensor([[[1.0, 0.0]]])
    v = torch.tensor([[[2.0, 4.0]]])
    g = torch.full((1, 1, 2), -1.0)
    o, final = kda(k, k, v, g, torch.ones(1, 1), DocLayout.of([1]), (k[0, 0, :, None] * v[0, 0])[None, None])
    torch.testing.assert_close(o[0, 0], v[0, 0])
    torch.testing.assert_close(final[0, 0], k[0, 0, :, None] * v[0, 0])


def test_bfloat16_inputs_compute_in_float32() -> None:
    made = [x.bfloat16() for x in inputs([40], 1, 16, 16)]
    layout = DocLayout.of([40])
    o, final = kda(*made[:5], layout, made[5])
    want, want_final = kda_chunk(*(x.float() for x in made[:5]), layout, made[5].float())
    assert o.dtype == torch.bfloat16
    torch.testing.assert_close(o, want.bfloat16())
    torch.testing.assert_close(final, want_final)
