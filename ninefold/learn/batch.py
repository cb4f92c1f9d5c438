"""From samples to packed micro-batches, deterministic in their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ninefold.core.errors import UserError
from ninefold.core.seeds import rng_of
from ninefold.core.types import Batch, Sample
from ninefold.model.sight import Sight


def micro_batches(samples: Sequence[Sample], max_tokens: int, sight: Sight | None = None) -> list[Batch]:
    """Pack samples, longest first, into batches of at most `max_tokens` tokens; one that is longer has a batch of its own.

    Samples of like length lie together, since attention pads a batch's documents to its longest. Pictures take the room that
    the model's `sight` gives them. Raises UserError for pictures before a model that reads none.
    """
    if max_tokens < 1:
        raise UserError(f"max_tokens must be positive, got {max_tokens}")
    if sight is not None:
        samples = [sight.expanded(sample) for sample in samples]
    elif any(sample.pictures for sample in samples):
        raise UserError("the samples hold pictures, and this model reads none; choose a preset with vision, e.g. nano-vision")
    batches: list[list[Sample]] = []
    room = 0
    for sample in sorted(samples, key=lambda s: -len(s.ids)):
        if not batches or len(sample.ids) > room:
            batches.append([])
            room = max_tokens
        batches[-1].append(sample)
        room -= len(sample.ids)
    return [Batch.pack(members) for members in batches]


def shuffled_batches(samples: Sequence[Sample], step_tokens: int, *, epochs: int = 1, seed: int = 0) -> Iterator[list[Sample]]:
    """The samples of each optimiser step: every epoch in its own order, in runs of at least `step_tokens` tokens.

    The last step of an epoch takes what is left, so that each epoch sees each sample once.
    """
    if step_tokens < 1:
        raise UserError(f"step_tokens must be positive, got {step_tokens}")
    for epoch in range(epochs):
        order = list(range(len(samples)))
        rng_of("shuffle", seed, epoch).shuffle(order)
        chosen: list[Sample] = []
        tokens = 0
        for place in order:
            chosen.append(samples[place])
            tokens += len(samples[place].ids)
            if tokens >= step_tokens:
                yield chosen
                chosen, tokens = [], 0
        if chosen:
            yield chosen


def shards(samples: Sequence[Sample], ranks: int) -> list[list[Sample]]:
    """One list of samples for each rank, balanced by tokens: the longest sample goes to the least loaded rank.

    No two ranks differ by more than one sample's tokens. A rank's list may be empty.
    """
    parts: list[list[Sample]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for sample in sorted(samples, key=lambda s: -len(s.ids)):
        rank = loads.index(min(loads))
        parts[rank].append(sample)
        loads[rank] += len(sample.ids)
    return parts
