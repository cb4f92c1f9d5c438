"""Naive twins: each operation as its equation reads, token by token, in the dtype given (float64 in tests)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ninefold.core.layout import DocLayout


def kda_naive(
    q_THK: Tensor,
    k_THK: Tensor,
    v_THV: Tensor,
    g_THK: Tensor,
    beta_TH: Tensor,
    layout: DocLayout,
    initial_DHKV: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Kimi Delta Attention as a recurrence (report Eq. 1): S ← (I − β k kᵀ) Diag(eᵍ) S + β k vᵀ, o = Sᵀ q.

    Returns o_THV and each document's last state, final_DHKV.
    """
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    for d in range(layout.documents):
        state_HKV = q_THK.new_zeros(*q_THK.shape[1:], v_THV.shape[-1]) if initial_DHKV is None else initial_DHKV[d]
        for t in range(int(layout.cu_seqlens[d]), int(layout.cu_seqlens[d + 1])):
            state_HKV = g_THK[t].exp()[..., None] * state_HKV
            read_HV = torch.einsum("hk,hkv->hv", k_THK[t], state_HKV)
            write_HV = beta_TH[t][:, None] * (v_THV[t] - read_HV)
            state_HKV = state_HKV + k_THK[t][..., None] * write_HV[:, None, :]
            outputs.append(torch.einsum("hk,hkv->hv", q_THK[t], state_HKV))
        finals.append(state_HKV)
    return torch.stack(outputs), torch.stack(finals)


def short_conv_naive(
    x_TC: Tensor, weight_CW: Tensor, layout: DocLayout, initial_DWC: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Causal depthwise convolution and SiLU, one window per token. Returns y_TC and the last W − 1 inputs of each document."""
    width = weight_CW.shape[1]
    outputs: list[Tensor] = []
    finals: list[Tensor] = []
    for d in range(layout.documents):
        before = x_TC.new_zeros(width - 1, x_TC.shape[1]) if initial_DWC is None else initial_DWC[d]
        inputs = torch.cat([before, x_TC[int(layout.cu_seqlens[d]) : int(layout.cu_seqlens[d + 1])]])
        outputs += [(weight_CW.T * inputs[t : t + width]).sum(0) for t in range(len(inputs) - width + 1)]
        finals.append(inputs[len(inputs) - width + 1 :])
    y_TC = torch.stack(outputs)
    return y_TC * torch.sigmoid(y_TC), torch.stack(finals)


def situ_glu_naive(gate: Tensor, up: Tensor, beta_gate: float = 4.0, beta_up: float = 25.0) -> Tensor:
    """SiTU-GLU: β₁ tanh(g/β₁) σ(g) · β₂ tanh(u/β₂)."""
    return beta_gate * torch.tanh(gate / beta_gate) * torch.sigmoid(gate) * beta_up * torch.tanh(up / beta_up)


def attention_residual_naive(sources: Sequence[Tensor], query_D: Tensor, norm_weight_D: Tensor, eps: float) -> Tensor:
    """Block AttnRes (report Eq. 8–10): softmax over sources of query · RMSNorm(source), mixing the raw sources."""
    v_NTD = torch.stack(list(sources))
    key_NTD = v_NTD * torch.rsqrt(v_NTD.pow(2).mean(-1, keepdim=True) + eps) * norm_weight_D
    p_NT = torch.softmax(key_NTD @ query_D, dim=0)
    return (p_NT[..., None] * v_NTD).sum(0)


def experts_naive(
    z_TL: Tensor, index_Tk: Tensor, weight_Tk: Tensor, w1_EFL: Tensor, w3_EFL: Tensor, w2_ELF: Tensor, *betas: float
) -> Tensor:
    """u_t = Σ_i p_ti E_i(z_t), one token and one expert at a time."""
    rows: list[Tensor] = []
    for t in range(len(z_TL)):
        row = torch.zeros_like(z_TL[t])
        for e, p in zip(index_Tk[t].tolist(), weight_Tk[t]):
            row = row + p * (w2_ELF[e] @ situ_glu_naive(w1_EFL[e] @ z_TL[t], w3_EFL[e] @ z_TL[t], *betas))
        rows.append(row)
    return torch.stack(rows)
