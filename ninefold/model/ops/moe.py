"""Stable LatentMoE (report): sigmoid routing with a balancing bias, and the experts' product in the latent width."""

from __future__ import annotations

import torch
from torch import Tensor

from ninefold.model.ops.product import product
from ninefold.model.ops.situ import situ_glu, weighted_situ_glu

DENSE_TOKENS = 512
"""Up to here one dense product over all experts beats the sorted form (measured at nano size: 8–16 experts top-2)."""
DENSE_EXPERTS = 32
"""With more experts than this the dense product wastes too much at any batch."""


def route(scores_TE: Tensor, bias_E: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Choose k of E > k experts by score + bias; weigh them by score alone, renormalised.

    Returns index_Tk, weight_Tk (differentiable in the scores) and cutoff_T: the (k+1)-th largest score + bias, which
    Quantile Balancing needs.
    """
    assert k < scores_TE.shape[1], "the cutoff is the best expert not chosen: k must be less than the number of experts"
    best_Tk1, index_Tk1 = (scores_TE.detach() + bias_E).topk(k + 1, dim=-1)
    index_Tk = index_Tk1[:, :k]
    chosen_Tk = scores_TE.gather(1, index_Tk)
    # Sigmoid scores can underflow all at once; 1e-20 keeps the weights finite then and is below rounding otherwise.
    return index_Tk, chosen_Tk / (chosen_Tk.sum(-1, keepdim=True) + 1e-20), best_Tk1[:, k]


def experts(
    z_TL: Tensor, index_Tk: Tensor, weight_Tk: Tensor, w1_EFL: Tensor, w3_EFL: Tensor, w2_ELF: Tensor, *betas: float
) -> Tensor:
    """u_TL = Σ_i p_i W2_i SiTU-GLU(W1_i z, W3_i z) over the routed experts; no capacity, no dropped tokens.

    `betas` are the activation's bounds β₁, β₂; those of `situ_glu` where none are given.
    """
    if len(z_TL) <= DENSE_TOKENS and len(w1_EFL) <= DENSE_EXPERTS:
        return experts_dense(z_TL, index_Tk, weight_Tk, w1_EFL, w3_EFL, w2_ELF, *betas)
    return experts_sorted(z_TL, index_Tk, weight_Tk, w1_EFL, w3_EFL, w2_ELF, *betas)


def experts_dense(
    z_TL: Tensor, index_Tk: Tensor, weight_Tk: Tensor, w1_EFL: Tensor, w3_EFL: Tensor, w2_ELF: Tensor, *betas: float
) -> Tensor:
    """`experts` as one product over all experts, with weight 0 where a token is not routed."""
    E, F, _ = w1_EFL.shape
    weight_TE = weight_Tk.new_zeros(len(z_TL), E).scatter(1, index_Tk, weight_Tk)
    gate_TEF = product(z_TL, w1_EFL.flatten(0, 1)).unflatten(-1, (E, F))
    up_TEF = product(z_TL, w3_EFL.flatten(0, 1)).unflatten(-1, (E, F))
    hidden_TEF = weighted_situ_glu(gate_TEF, up_TEF, weight_TE, *betas)
    return product(hidden_TEF.flatten(1), w2_ELF.transpose(0, 1).flatten(1))


def experts_sorted(
    z_TL: Tensor, index_Tk: Tensor, weight_Tk: Tensor, w1_EFL: Tensor, w3_EFL: Tensor, w2_ELF: Tensor, *betas: float
) -> Tensor:
    """`experts` with the routed copies of tokens sorted by expert, one product per expert that has any."""
    expert_R = index_Tk.flatten()
    order_R = expert_R.argsort(stable=True)
    token_R = order_R.div(index_Tk.shape[1], rounding_mode="floor")
    counts = torch.bincount(expert_R, minlength=len(w1_EFL)).tolist()
    outputs = [
        product(situ_glu(product(z, w1_EFL[e]), product(z, w3_EFL[e]), *betas), w2_ELF[e])
        for e, z in enumerate(z_TL.index_select(0, token_R).split(counts))
        if len(z)
    ]
    weighted_RL = torch.cat(outputs) * weight_Tk.flatten().index_select(0, order_R)[:, None]
    return torch.zeros_like(z_TL).index_add(0, token_R, weighted_RL)
