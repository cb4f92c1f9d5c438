"""Supervised fine-tuning: on demonstrations in three effort styles first, on the experts' pooled trajectories later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ninefold.core.errors import UserError
from ninefold.core.protocols import ChatFormat
from ninefold.core.types import Batch, Sample
from ninefold.data.conversations import bytewise, read_conversations
from ninefold.data.samples import read_samples, sample_of_segments, write_samples
from ninefold.learn.batch import micro_batches, shards, shuffled_batches
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World
from ninefold.learn.trainer import Trainer
from ninefold.model.k3 import sight_in
from ninefold.recipes.config import PoolConfig, SftConfig
from ninefold.recipes.demonstrate import demonstrations
from ninefold.recipes.jobs import Job, run_jobs
from ninefold.recipes.kit import Kit
from ninefold.recipes.origin import Policy
from ninefold.recipes.training import finish, train, trainer_config

SHOWN = 10
"""Faults that one error lists."""
CHUNK = 1000
"""Demonstrations made by one job."""


def demonstrate(kit: Kit) -> None:
    """Stage `demonstrations`: samples.npz of demonstrations, made side by side in chunks, and of the user's own files."""
    stage, config = kit.run.stage("demonstrations"), kit.recipe.sft
    emit = kit.run.log(stage="demonstrations")
    own = own_samples(config, kit.chat)
    total = sum(config.weights[domain] for domain in kit.domains)
    jobs: list[Job] = []
    for domain in kit.domains:
        count = round(config.demonstrations * config.weights[domain] / total)
        jobs += [
            Job(
                name=f"{domain}/{first}",
                call=demonstrations,
                arguments=(kit, domain, "train", first, min(CHUNK, count - first)),
            )
            for first in range(0, count, CHUNK)
        ]
    samples = [sample for made in run_jobs(jobs, kit.recipe.processes).values() for sample in made] + own
    write_samples(stage / "samples.npz", samples)
    learned = sum(int(s.mask.sum()) for s in samples)
    emit("samples", rows=len(samples), own=len(own), tokens=sum(len(s.ids) for s in samples), learned=learned)
    finish(stage)


def own_samples(config: SftConfig, chat: ChatFormat) -> list[Sample]:
    """The conversations of `files`, one sample each. Raises UserError that lists the lines at fault, too long ones also."""
    samples = _read_files(config, chat)
    if long := [f"{s.task} ({len(s.ids):,} tokens)" for s in samples if len(s.ids) > config.longest]:
        more = f" and {len(long) - SHOWN} more" if len(long) > SHOWN else ""
        raise UserError(
            f"longer than sft.longest = {config.longest}: {', '.join(long[:SHOWN])}{more}; shorten them, or set it higher"
        )
    return samples


def check_files(config: SftConfig, *, blind: bool) -> None:
    """Raise UserError for whatever `own_samples` would refuse but lengths, which show only when there is a tokenizer, and for
    pictures where the model is `blind`."""
    shown = next((sample.task for sample in _read_files(config, bytewise()) if sample.pictures), None)
    if blind and shown is not None:
        raise UserError(f"sft.files: line {shown} shows pictures, and the model reads none: set preset=nano-vision")


def _read_files(config: SftConfig, chat: ChatFormat) -> list[Sample]:
    if not config.files and not config.demonstrations:
        raise UserError("nothing to learn: sft.demonstrations is 0 and sft.files names no file")
    try:
        return [
            sample_of_segments(conversation.segments, task=f"{name}/{conversation.line}", pictures=conversation.pictures)
            for name in config.files
            for conversation in read_conversations(Path(name), chat)
        ]
    except UserError as error:
        raise UserError(f"sft.files: {error}") from None


def sft(world: World, kit: Kit) -> None:
    """Stage `sft`, on every rank: the pre-trained or released model learns the demonstrations, quantisation-aware."""
    config = kit.recipe.sft
    samples = read_samples(kit.run.stage("demonstrations") / "samples.npz")
    fit(world, kit, "sft", kit.start(), samples, config, config.batch_tokens)


def second_sft(world: World, kit: Kit) -> None:
    """Stage `pooled`, on every rank: the SFT model learns the pooled trajectories; this is the student before MOPD."""
    config = kit.recipe.pool
    samples = read_samples(kit.run.stage("pool") / "samples.npz")
    fit(world, kit, "pooled", kit.load("sft"), samples, config, (config.batch_tokens,) * config.epochs)


def fit(
    world: World,
    kit: Kit,
    name: str,
    model: Policy,
    samples: Sequence[Sample],
    config: SftConfig | PoolConfig,
    batch_tokens: Sequence[int],
) -> None:
    """Stage `name`: one epoch per entry of `batch_tokens`, each with steps of about that many tokens."""
    stage, emit = kit.run.stage(name), kit.run.log(stage=name)
    plan = plan_epochs(samples, batch_tokens, kit.recipe.seed)
    if not plan:
        raise UserError(f"stage {name} has nothing to learn from: the stage before it left no sample")
    schedule = ScheduleConfig(kind="cosine", warmup=0.02, floor=config.floor)
    trainer = Trainer(model, trainer_config(config.step_sizes, len(plan), schedule), world=world)

    def batches(step: int) -> list[Batch]:
        return micro_batches(shards(plan[step], world.size)[world.rank], 4 * max(batch_tokens), sight_in(model))

    train(trainer, stage, batches, sft_loss, emit, save_every=config.save_every)
    if world.rank == 0:
        kit.save(model, stage)
        finish(stage, {"steps": len(plan), "tokens": sum(len(s.ids) for step in plan for s in step)})


def plan_epochs(samples: Sequence[Sample], batch_tokens: Sequence[int], seed: int) -> list[list[Sample]]:
    """The samples of each optimiser step over all epochs."""
    return [
        step
        for epoch, tokens in enumerate(batch_tokens)
        for step in shuffled_batches(samples, tokens, seed=seed * 1000 + epoch)
    ]
