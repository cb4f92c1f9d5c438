"""Multi-teacher on-policy distillation: the student's own samples, scored by the teacher of their domain and effort."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import LanguageModel, Loss, Mean
from ninefold.learn.loss.policy import PolicyConfig, advantage_objective
from ninefold.learn.loss.tokens import TokenLogprobs, target_logits, token_logprobs


class DistillConfig(PolicyConfig):
    """The sampled-token form: the policy objective with the teacher's reward as its advantage."""

    r_max: float = Field(default=5.0, gt=0)
    """Bound R_max of the per-token reward, in nats."""


def teacher_reward(teacher_N: Tensor, student_N: Tensor, r_max: float) -> Tensor:
    """[N] clip(sg[ln π_T − ln π_θ], −R_max, R_max) of each sampled token, without gradient."""
    return (teacher_N - student_N).detach().clamp(-r_max, r_max)


def sampled_objective(tokens: TokenLogprobs, config: DistillConfig) -> Loss:
    """The printed form (report, MOPD): per-token rewards as advantages in the policy objective.

    Reads the streams `teacher_logprob` and `old_logprob`.
    """
    teacher_N = tokens.stream("teacher_logprob")
    reward_N = teacher_reward(teacher_N, tokens.logprob_N, config.r_max)
    loss = advantage_objective(tokens, reward_N, config)
    gap_N = teacher_N - tokens.logprob_N.detach()
    metrics = {
        "distill/sampled_kl": Mean.of(-gap_N),
        "distill/clipped_share": Mean.of(gap_N.abs() > config.r_max),
    }
    return Loss(total=loss.total, tokens=loss.tokens, metrics={**loss.metrics, **metrics})


def sampled_distill_loss(model: LanguageModel, batch: Batch, config: DistillConfig) -> Loss:
    """The printed form on a packed batch whose samples carry `teacher_logprob` and `old_logprob`."""
    return sampled_objective(token_logprobs(model, batch, entropy=True), config)


def reverse_kl(student_NV: Tensor, teacher_NV: Tensor) -> Tensor:
    """[N] KL(π_θ ‖ π_T) = Σ_v π_θ (ln π_θ − ln π_T) in nats, from logits over one vocabulary."""
    if student_NV.shape[-1] != teacher_NV.shape[-1]:
        raise UserError(
            f"the student has {student_NV.shape[-1]} tokens and the teacher {teacher_NV.shape[-1]}: "
            "distillation needs teachers of the student's own tokenizer"
        )
    student_NV, teacher_NV = student_NV.log_softmax(-1), teacher_NV.log_softmax(-1)
    return (student_NV.exp() * (student_NV - teacher_NV)).sum(-1)


def top_k_reverse_kl(student_NV: Tensor, teacher_logprob_Nk: Tensor, teacher_id_Nk: Tensor) -> Tensor:
    """[N] reverse KL over the teacher's k likeliest tokens and one bucket for all others.

    A lower bound of the full divergence (data-processing inequality), equal to it at k = V; it asks of a teacher no more
    than the k log-probabilities that token servers return.
    """
    student_Nk = student_NV.log_softmax(-1).gather(-1, teacher_id_Nk)
    shared_N = (student_Nk.exp() * (student_Nk - teacher_logprob_Nk)).sum(-1)
    rest_N, teacher_rest_N = _rest(student_Nk), _rest(teacher_logprob_Nk)
    return shared_N + rest_N * (rest_N.log() - teacher_rest_N.log())


def _rest(logprob_Nk: Tensor) -> Tensor:
    """[N] probability outside the listed tokens, at least the rounding error of their sum."""
    return (1 - logprob_Nk.exp().sum(-1)).clamp(min=torch.finfo(logprob_Nk.dtype).eps)


def full_distill_loss(model: LanguageModel, batch: Batch, teacher: LanguageModel, *, top_k: int | None = None) -> Loss:
    """Reverse KL to one teacher over the whole vocabulary, or its `top_k` tokens, at every learned token of the batch."""
    student_NV = target_logits(model, batch)
    with torch.no_grad():
        teacher_NV = target_logits(teacher, batch)
    exact_N = reverse_kl(student_NV, teacher_NV)
    loss_N = exact_N
    if top_k is not None:
        best = teacher_NV.log_softmax(-1).topk(min(top_k, teacher_NV.shape[-1]), dim=-1)
        loss_N = top_k_reverse_kl(student_NV, best.values, best.indices)
    metrics = {"loss": Mean.of(loss_N), "distill/reverse_kl": Mean.of(exact_N)}
    return Loss(total=loss_N.sum(), tokens=loss_N.numel(), metrics=metrics)


@torch.no_grad()
def exact_reverse_kl(model: LanguageModel, batch: Batch, teacher: LanguageModel) -> Mean:
    """Mean KL(π_θ ‖ π_T) per learned token of a batch, in nats: the measure of how far the student still is."""
    return Mean.of(reverse_kl(target_logits(model, batch), target_logits(teacher, batch)))
