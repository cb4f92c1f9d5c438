"""flash-linear-attention's KDA kernels, for CUDA tensors where that package is installed; never for others.

Argument layout of fla 0.5 and 0.6: [batch, tokens, heads, width], packed documents as one row with `cu_seqlens`, states
[documents, heads, key, value] in fp32. We pass q and k normalised and q scaled, and the log decay itself, so its in-kernel
forms of these stay off; so does `safe_gate`, which trades prefix invariance in bf16 for speed (fla issue 1240).
Not run on a GPU yet: tests hold the contract against a stand-in with these signatures.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ninefold.core.layout import DocLayout


def usable(*tensors: Tensor) -> bool:
    """True where the package is installed and these tensors lie on a CUDA device."""
    return all(x.is_cuda for x in tensors) and kernels() is not None


@cache
def kernels() -> Any:
    """`fla.ops.kda`, or None where the package is not installed."""
    return importlib.import_module("fla.ops.kda") if importlib.util.find_spec("fla") else None


def chunked(
    q_THK: Tensor, k_THK: Tensor, v_THV: Tensor, g_THK: Tensor, beta_TH: Tensor, layout: DocLayout, initial_DHKV: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`ops.kda.kda` by `chunk_kda`, differentiable."""
    batch = (x.unsqueeze(0) for x in (q_THK, k_THK, v_THV, g_THK, beta_TH))
    o_1THV, final_DHKV = kernels().chunk_kda(
        *batch,
        scale=1.0,
        initial_state=None if initial_DHKV is None else initial_DHKV.float(),
        output_final_state=True,
        cu_seqlens=torch.from_numpy(layout.cu_seqlens).to(q_THK.device),
    )
    return o_1THV.squeeze(0).to(v_THV.dtype), final_DHKV


def stepped(q_BHK: Tensor, k_BHK: Tensor, v_BHV: Tensor, g_BHK: Tensor, beta_BH: Tensor, state_BHKV: Tensor) -> Tensor:
    """`ops.kda.kda_step` by `fused_recurrent_kda`: one token of each row, the state moved on in place."""
    rows = (x.unsqueeze(1) for x in (q_BHK, k_BHK, v_BHV, g_BHK, beta_BH))
    o_B1HV, final_BHKV = kernels().fused_recurrent_kda(
        *rows, scale=1.0, initial_state=state_BHKV.float(), output_final_state=True
    )
    state_BHKV.copy_(final_BHKV)
    return o_B1HV.squeeze(1).to(v_BHV.dtype)
