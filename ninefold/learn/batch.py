"""From samples to packed micro-batches, deterministic in their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ninefold.core.errors import UserError
from ninefold.core.seeds import rng_of
from ninefold.core.types import Batch, Sample
from ninefold.model.sight import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """Samples that go into one batch together."""

    trunk: Sample | None
    """What all begin with; None for one that begins as no other does."""
    branches: Sequence[Sample]
    """Each from there on."""

    @property
    def tokens(self) -> int:
        return sum(len(s.ids) for s in (*self.branches, *([self.trunk] if self.trunk else [])))

    @property
    def longest(self) -> int:
        return max(len(s.ids) for s in self.branches)


def micro_batches(samples: Sequence[Sample], max_tokens: int, sight: Sight | None = None, *, share: int = 0) -> list[Batch]:
    """Pack samples, longest first, into batches of at most `max_tokens` tokens; one that is longer has a batch of its own.

    Samples of like length lie together, since attention pads a batch's documents to its longest. Pictures take the room that
    the model's `sight` gives them. With `share`, what samples of one task begin with lies in a batch once for as many of them
    as have that many tokens together, up to the token that predicts the first learned one: for losses of the next token alone.
    Raises UserError for pictures before a model that reads none.
    """
    if max_tokens < 1:
        raise UserError(f"max_tokens must be positive, got {max_tokens}")
    if sight is None and any(sample.pictures for sample in samples):
        raise UserError("the samples hold pictures, and this model reads none; choose a preset with vision, e.g. nano-vision")
    trees = _trees(samples, sight) if share else [_Tree(trunk=None, branches=[sample]) for sample in samples]
    if sight is not None:
        trees = [_expanded(tree, sight) for tree in trees]
    parts = [part for tree in trees for part in _within(tree, min(max_tokens, share))]
    batches: list[list[_Tree]] = []
    room = 0
    for part in sorted(parts, key=lambda f: -f.longest):
        if not batches or part.tokens > room:
            batches.append([])
            room = max_tokens
        batches[-1].append(part)
        room -= part.tokens
    return [_packed(members) for members in batches]


def _trees(samples: Sequence[Sample], sight: Sight | None) -> list[_Tree]:
    """The samples by task, in the order of each task's first."""
    by_task: dict[str, list[Sample]] = {}
    for sample in samples:
        by_task.setdefault(sample.task, []).append(sample)
    trees: list[_Tree] = []
    for members in by_task.values():
        alike = _alike(members, sight) if len(members) > 1 else 0
        if alike:
            branches = [_cut(member, slice(alike, None), sight) for member in members]
            trees.append(_Tree(trunk=_cut(members[0], slice(alike), sight), branches=branches))
        else:
            trees += [_Tree(trunk=None, branches=[member]) for member in members]
    return trees


def _alike(members: Sequence[Sample], sight: Sight | None) -> int:
    """Tokens that all begin with, the last before any learned one left out: it predicts."""
    reach = min(int(m.mask.argmax()) if m.mask.any() else len(m.ids) for m in members) - 1
    if reach < 1:
        return 0
    first = members[0].ids[:reach]
    same = np.logical_and.reduce([m.ids[:reach] == first for m in members])
    alike = reach if same.all() else int(same.argmin())
    if sight is not None:
        shown = zip(*([picture.hash for picture in m.pictures] for m in members))
        for place, hashes in zip(np.flatnonzero(first[:alike] == sight.placeholder), shown):
            if len(set(hashes)) > 1:
                return int(place)
    return alike


def _cut(sample: Sample, part: slice, sight: Sight | None) -> Sample:
    """Some of a sample's tokens, with their pictures."""
    first, last, _ = part.indices(len(sample.ids))
    before, within = (int((sample.ids[a:b] == sight.placeholder).sum()) if sight else 0 for a, b in ((0, first), (first, last)))
    return replace(
        sample,
        ids=sample.ids[part],
        mask=sample.mask[part],
        streams={name: stream[part] for name, stream in sample.streams.items()},
        pictures=sample.pictures[before : before + within],
    )


def _expanded(tree: _Tree, sight: Sight) -> _Tree:
    trunk = tree.trunk and sight.expanded(tree.trunk)
    return _Tree(trunk=trunk, branches=[sight.expanded(branch) for branch in tree.branches])


def _within(tree: _Tree, max_tokens: int) -> list[_Tree]:
    """The tree in parts of at most that many tokens, each with the trunk; a branch that is too long is a part."""
    trunk = len(tree.trunk.ids) if tree.trunk else 0
    parts: list[list[Sample]] = []
    room = 0
    for branch in sorted(tree.branches, key=lambda s: -len(s.ids)):
        if not parts or len(branch.ids) > room:
            parts.append([])
            room = max_tokens - trunk
        parts[-1].append(branch)
        room -= len(branch.ids)
    return [_Tree(trunk=tree.trunk, branches=part) for part in parts]


def _packed(trees: Sequence[_Tree]) -> Batch:
    trunks = [tree.trunk for tree in trees if tree.trunk]
    branches = [branch for tree in trees for branch in tree.branches]
    if not trunks:
        return Batch.pack(branches)
    number = iter(range(len(trunks)))
    of_branch = [trunk for tree in trees for trunk in [next(number) if tree.trunk else -1] * len(tree.branches)]
    return Batch.pack([*trunks, *branches], of_branch)


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
