"""A run's model, ready to answer."""

from __future__ import annotations

from ninefold.app.configuration import stored_recipe
from ninefold.chat.xtml import Xtml
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.engine.speculative import SpeculativeConfig, SpeculativeEngine
from ninefold.model.k3 import sight_in
from ninefold.recipes.draft import load_draft, target_of
from ninefold.recipes.kit import Kit
from ninefold.serve.completion import Service
from ninefold.serve.generation import EngineLoop

FINAL = ("mopd", "pooled", "sft", "pretrain")
"""Stages that leave a model for all cells, the best first."""
CONFIG = NativeConfig(rows=32, chunk=512, grain=16, pool_mb=64)
"""So many generations decode at the same time; a server has no groups to sample, as training has, but conversations go on."""


def final_stage(run: Run) -> str:
    """The last stage of the run that left a model to talk to. Raises UserError where there is none."""
    for stage in FINAL:
        if is_complete(run.stage(stage)):
            return stage
    raise UserError(f"{run.path} has no model yet: let `ninefold run` get beyond pre-training first")


def open_service(run: Run, stage: str, *, draft: bool = False) -> Service:
    """The model that a stage left (`mopd`, `sft`, `rl/coding/low`, …) behind an engine; with `draft`, the run's draft
    proposes tokens for the final one. Raises UserError."""
    parts = tuple(part for part in stage.split("/") if part)
    weights = run.stage(*parts) / "model"
    if not weights.is_dir():
        raise UserError(f"stage {stage} of {run.path} left no model; one that did is {final_stage(run)}")
    kit = Kit(recipe=stored_recipe(run), run=run)
    chat = kit.chat
    if not isinstance(chat, Xtml):
        raise UserError(f"{weights} speaks ChatML and is a Hugging Face folder: serve it with any program that takes one")
    model = kit.origin.decodable(kit.load(*parts))
    sight = sight_in(model)
    engine = _speculative(kit, stage) if draft else NativeEngine(model, stop_ids=chat.stop_ids, config=CONFIG)
    return Service(
        loop=EngineLoop(engine),
        chat=chat,
        model=run.name,
        context=engine.config.capacity,
        limit=2 * engine.config.rows,
        constrain=not draft,
        picture_tokens=sight and sight.tokens,
        created=int(weights.stat().st_mtime),
    )


def _speculative(kit: Kit, stage: str) -> SpeculativeEngine:
    if stage != FINAL[0] or not is_complete(kit.run.stage("draft")):
        raise UserError(f"the draft of {kit.run.path} goes with stage {FINAL[0]} and needs stage draft to be complete")
    config = SpeculativeConfig.model_validate(CONFIG.model_dump())
    return SpeculativeEngine(target_of(kit), load_draft(kit), stop_ids=kit.chat.stop_ids, config=config)
