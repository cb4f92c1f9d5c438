"""The smoke recipe made smaller still: one domain, little text, so that every stage runs in a few CPU-seconds."""

from __future__ import annotations

from ninefold.data.corpus.document import Sources
from ninefold.data.corpus.mixture import CorpusConfig
from ninefold.recipes.config import Recipe
from ninefold.recipes.whole import smoke


def small() -> Recipe:
    base = smoke()
    changes = {
        "deterministic": True,
        "families": {"general": {"arithmetic": (0,)}},
        "corpus": CorpusConfig(sources=Sources(code=("typer",), mathematics=("mpmath",)), max_characters=120_000),
        "pretrain": base.pretrain.model_copy(update={"tokens": 8192, "heldout_tokens": 512, "save_every": 2}),
        "rl": base.rl.model_copy(update={"prompts": 3, "samples": 3, "lam": 0.4}),
        "mopd": base.mopd.model_copy(update={"compare": True}),
    }
    return base.model_copy(update=changes)
