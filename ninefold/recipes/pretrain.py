"""Corpus and pre-training: next-token prediction on the mixture, the MTP layer along with it, over a context curriculum."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import torch

from ninefold.agent.harness.presets import phrases as harness_phrases
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.events import Emit
from ninefold.core.store import write_json
from ninefold.core.types import SPLITS, Batch
from ninefold.data.corpus import pairs, skills
from ninefold.data.corpus.document import TEXT_DOMAINS, Document
from ninefold.data.corpus.mixture import Mixture, collect, encoded, heldout_samples, manifest
from ninefold.data.samples import read_samples, write_samples
from ninefold.learn.batch import micro_batches, shards
from ninefold.learn.loss.mtp import MTPConfig, language_loss
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World
from ninefold.learn.trainer import Trainer
from ninefold.model.init import audit
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.recipes.config import PretrainConfig
from ninefold.recipes.demonstrate import demonstrations
from ninefold.recipes.kit import Kit
from ninefold.recipes.training import finish, train, trainer_config


def build_corpus(kit: Kit) -> None:
    """Stage `corpus`: manifest.json, tokenizer.json, documents.npz, wire.npz."""
    recipe, stage, emit = kit.recipe, kit.run.stage("corpus"), kit.run.log(stage="corpus")
    documents = collect(recipe.corpus, task_texts(kit), emit)
    stage.mkdir(parents=True, exist_ok=True)
    write_json(stage / "manifest.json", manifest(recipe.corpus, documents))
    tokenizer = train_tokenizer(kit, documents)
    tokenizer.save(stage / "tokenizer.json")
    write_samples(stage / "documents.npz", encoded(documents, tokenizer.encode))
    share = recipe.pretrain.wire_documents // len(kit.domains)
    wire = [sample for domain in kit.domains for sample in demonstrations(kit, domain, "corpus", 0, share)]
    write_samples(stage / "wire.npz", wire)
    emit("tokenizer", vocabulary=tokenizer.vocab_size, wire_tokens=sum(len(s.ids) for s in wire))
    finish(stage)


def task_texts(kit: Kit) -> Iterator[str]:
    """Instructions of tasks from every split: none of them may stand in the corpus."""
    for domain, levels in kit.recipe.families.items():
        for split in SPLITS:
            for task in kit.tasks(domain, split, kit.recipe.pretrain.decontaminate_tasks * len(levels), "decontaminate"):
                yield task.instruction


def train_tokenizer(kit: Kit, documents: list[Document]) -> Tokenizer:
    """Merges from corpus text, and the fixed phrases of the wire, the harnesses, the families and the worksheets."""
    config = kit.recipe.tokenizer
    phrases = [*wire_phrases(), *skills.phrases()]
    if preset(kit.recipe.preset).vision:
        phrases += pairs.phrases()
    for family in kit.trained:
        phrases += [*family.phrases(), *harness_phrases(family.tools, kit.recipe.harness.harnesses())]
    texts = [d.text[: config.document_characters] for d in documents]
    return Tokenizer.train(texts, phrases, config.vocab_size)


def load_mixture(kit: Kit) -> Mixture:
    stage = kit.run.stage("corpus")
    chat = kit.chat if preset(kit.recipe.preset).vision and isinstance(kit.chat, Xtml) else None
    documents, wire = (read_samples(stage / name) for name in ("documents.npz", "wire.npz"))
    return Mixture.of(kit.recipe.corpus, documents, wire, kit.tokenizer.encode, chat)


def pretrain(world: World, kit: Kit) -> None:
    """Stage `pretrain`, on every rank."""
    recipe, stage = kit.recipe, kit.run.stage("pretrain")
    mixture = load_mixture(kit)
    model = K3(preset(recipe.preset, vocab_size=kit.tokenizer.vocab_size), seed=recipe.seed)
    learn_language(world, model, mixture, recipe.pretrain, recipe.seed, stage, kit.run.log(stage="pretrain"))
    if world.rank == 0:
        kit.save(model, stage)
        tokens = steps_of(recipe.pretrain) * recipe.pretrain.batch_tokens
        finish(stage, {"tokens": tokens, "heldout": heldout_losses(model, mixture, recipe.pretrain)})


def steps_of(config: PretrainConfig) -> int:
    """Optimiser steps of the whole token budget."""
    return config.tokens // config.batch_tokens


def learn_language(
    world: World, model: K3, mixture: Mixture, config: PretrainConfig, seed: int, stage: Path, emit: Emit
) -> None:
    """Train `model` from its beginning, or from what `stage` has saved, and log steps and held-out losses.

    `seed` fixes the batches.
    """
    audit(model, model.config)
    steps = steps_of(config)
    schedule = ScheduleConfig(kind="cosine", warmup=0.01, floor=config.floor)
    trainer = Trainer(model, trainer_config(config.step_sizes, steps, schedule, decay=config.weight_decay), world=world)
    mtp = MTPConfig(weight=config.mtp_weight)

    def batches(step: int) -> list[Batch]:
        samples = mixture.batch(step, config.batch_tokens, window(config, step, steps), seed)
        return micro_batches(shards(samples, world.size)[world.rank], config.batch_tokens, model.sight)

    def after(step: int) -> None:
        if world.rank == 0 and (step == 1 or step % config.evaluate_every == 0 or step == steps):
            losses = heldout_losses(model, mixture, config)
            emit("heldout", step=step, tokens=step * config.batch_tokens, losses=losses)

    train(trainer, stage, batches, lambda m, b: language_loss(m, b, mtp), emit, save_every=config.save_every, after=after)


def window(config: PretrainConfig, step: int, steps: int) -> int:
    """Longest window at `step`: the stages follow each other by their share of the token budget."""
    ends = accumulate(stage.share for stage in config.stages)
    reached = next((i for i, end in enumerate(ends) if step < end * steps), len(config.stages) - 1)
    return config.stages[reached].length


@torch.no_grad()
def heldout_losses(model: K3, mixture: Mixture, config: PretrainConfig) -> dict[str, float]:
    """Text domain → mean nats per token of held-out documents; a domain that has none is left out."""
    losses: dict[str, float] = {}
    for domain in TEXT_DOMAINS:
        samples = heldout_samples(mixture.heldout[domain], config.stages[-1].length, config.heldout_tokens)
        parts = [sft_loss(model, batch) for batch in micro_batches(samples, config.batch_tokens)]
        if parts:
            losses[domain] = float(sum(p.total for p in parts)) / sum(p.tokens for p in parts)
    return losses
