"""The smoke recipe made smaller still: one domain and little text, so that every stage runs in a few CPU-seconds.

It learns just enough for RL to have something to tell apart: some answers pass, most are well-formed, and their lengths differ,
so that trajectories are paused and resumed.
"""

from __future__ import annotations

from ninefold.data.corpus.document import Sources
from ninefold.data.corpus.mixture import CorpusConfig
from ninefold.recipes.config import Recipe, StepSizes
from ninefold.recipes.whole import smoke


def small() -> Recipe:
    base = smoke()
    sft = {
        "demonstrations": 600,
        "batch_tokens": (1200, 1200),
        "step_sizes": StepSizes(muon=0.02, adamw=1e-2),
        "save_every": 20,
    }
    changes = {
        "deterministic": True,
        "families": {"general": {"arithmetic": (0, 1)}},
        "corpus": CorpusConfig(sources=Sources(code=("typer",), mathematics=("mpmath",)), max_characters=120_000),
        "pretrain": base.pretrain.model_copy(update={"tokens": 8192, "heldout_tokens": 512, "save_every": 2}),
        "sft": base.sft.model_copy(update=sft),
        "budgets": base.budgets.model_copy(update={"tasks": 32}),
        "rl": base.rl.model_copy(update={"prompts": 3, "samples": 4, "lam": 0.5}),
        "mopd": base.mopd.model_copy(update={"compare": True}),
        "evaluate": base.evaluate.model_copy(update={"transfer": {"tally": (0,)}}),
    }
    return base.model_copy(update=changes)
