"""Multi-teacher on-policy distillation: the student's own samples, scored by the teacher of their domain and effort."""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.types import Batch
from ninefold.learn.loss.outcome import LanguageModel, Loss, Mean
from ninefold.learn.loss.policy import PolicyConfig, advantage_objective
from ninefold.learn.loss.tokens import TokenLogprobs, select_tokens, target_logits


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


def reverse_kl(student_NV: Tensor, teacher_NV: Tensor) -> Tensor:
    """[N] KL(π_θ ‖ π_T) = Σ_v π_θ (ln π_θ − ln π_T) in nats, from logits over one vocabulary."""
    if student_NV.shape[-1] != teacher_NV.shape[-1]:
        raise UserError(
            f"the student has {student_NV.shape[-1]} tokens and the teacher {teacher_NV.shape[-1]}: "
            "distillation needs teachers of the student's own tokenizer"
        )
    student_NV, teacher_NV = student_NV.log_softmax(-1), teacher_NV.log_softmax(-1)
    return (student_NV.exp() * (student_NV - teacher_NV)).sum(-1)


def distill_loss(student: LanguageModel, batch: Batch, teacher: LanguageModel, form: str, config: DistillConfig) -> Loss:
    """`sampled`: r_t = clip(sg[ln π_T − ln π_θ]) of each sampled token as its advantage (report, MOPD); `full`: reverse KL
    over the whole vocabulary. The exact reverse KL is measured either way."""
    student_NV = target_logits(student, batch)
    with torch.no_grad():
        teacher_NV = target_logits(teacher, batch)
    kl_N = reverse_kl(student_NV, teacher_NV)
    measured = {"distill/reverse_kl": Mean.of(kl_N)}
    if form == "full":
        return Loss(total=kl_N.sum(), tokens=kl_N.numel(), metrics={"loss": Mean.of(kl_N), **measured})
    tokens = select_tokens(student_NV, batch)
    teacher_N = select_tokens(teacher_NV, batch).logprob_N
    loss = sampled_objective(replace(tokens, streams={**tokens.streams, "teacher_logprob": teacher_N}), config)
    return replace(loss, metrics={**loss.metrics, **measured})
