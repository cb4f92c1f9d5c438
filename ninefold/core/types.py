"""The data that flows: Task → Slot → Turn → Trajectory → Group → Sample → Batch.

All are frozen; a row grows only through `append`, so that ids, log-probabilities, masks and versions stay aligned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ninefold.core.layout import DocLayout
from ninefold.core.picture import Picture

Domain = Literal["general", "agents", "coding"]
Effort = Literal["low", "high", "max"]
Split = Literal["train", "dev", "heldout", "corpus"]
"""`corpus` is content set aside for pre-training documents, so that none of it is ever a task."""
Cell = tuple[Domain, Effort]

DOMAINS: tuple[Domain, ...] = ("general", "agents", "coding")
EFFORTS: tuple[Effort, ...] = ("low", "high", "max")
SPLITS: tuple[Split, ...] = ("train", "dev", "heldout", "corpus")
CELLS: tuple[Cell, ...] = tuple((domain, effort) for domain in DOMAINS for effort in EFFORTS)

Status = Literal["pass", "fail", "invalid"]
FinishReason = Literal["stop", "length", "paused", "cancelled", "error"]
StopReason = Literal["answered", "turns", "tokens", "context", "form", "loop", "stale", "error"]
"""`form`: too many messages of bad form in a row; `loop`: the same call too often."""

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """b₀(x): what the cold-start model spends on a problem at max effort (report, reasoning effort)."""

    tokens: float
    """Mean spend in tokens, of the correct samples, or of all where none is correct."""
    samples: int
    """How many samples that mean was taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hard bounds of one trajectory; they end it with a stated reason, whatever its budget says."""

    turns: int = 12
    """Assistant messages."""
    new_tokens: int = 384
    """Generated tokens over all turns."""
    context: int = 1024
    """Tokens of one row, prompt and tool results included."""
    tool_seconds: float = 2.0
    """Wall time of a program that a tool call runs; the verifier has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem, as data. Everything else (world, verifier, demonstrator) is found through its family."""

    id: str
    """Unique: `family/split/level/seed` for generated tasks."""
    domain: Domain
    family: str
    """Name of the environment family that opens and verifies it."""
    split: Split
    level: int
    """Difficulty, 0 the easiest."""
    seed: int
    shape: str
    """Tasks of one family and shape cost about the same; b₀ is estimated per shape."""
    instruction: str
    """What the user says."""
    tools: tuple[str, ...] = ()
    """Canonical names of the tools offered; a harness may show them under other names."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Initial files of the working directory: relative path → text."""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON of the family's own: what its world is built from and its verifier checks. Never shown to the policy."""
    pictures: tuple[Mapping[str, Any], ...] = ()
    """What the policy is shown before the instruction, each as a description that `media.scene` draws."""
    limits: Limits = field(default_factory=Limits)
    budget: Budget | None = None
    provenance: str = "generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A verifier's verdict. Invalid means that nobody could tell (the sandbox broke, the judge abstained): never trained on."""

    status: Status
    score: float = 0.0
    """In [0, 1]; 1 is full marks. 0 where invalid."""
    detail: str = ""
    """For people: which check failed, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of tokens of one origin inside a row."""

    ids: IntArray
    source: Literal["rendered", "sampled"]
    message: int
    """Index of the message within the row's conversation."""
    role: str = "assistant"
    mask: BoolArray | None = None
    """True where the token is learned from. None: all sampled tokens, no rendered one."""
    logprobs: FloatArray | None = None
    """ln π of each token under the policy that sampled it, at temperature 1; None where rendered."""
    policy_version: int | None = None
    """Version of the weights that sampled these tokens; one segment never mixes two."""
    finish_reason: FinishReason | None = None
    """How generation of this piece ended; None where rendered."""
    images: tuple[str, ...] = ()
    """Hashes of the pictures whose `media_pad` ids stand here, in order."""
    expert_ids: NDArray[np.uint16] | None = None
    """Routed experts per token, [tokens, MoE layers, k], where recorded for replay."""

    def __post_init__(self) -> None:
        n = len(self.ids)
        assert (self.source == "sampled") == (self.logprobs is not None) == (self.policy_version is not None)
        assert self.logprobs is None or len(self.logprobs) == n
        assert self.mask is None or len(self.mask) == n
        assert self.expert_ids is None or len(self.expert_ids) == n

    @property
    def loss_mask(self) -> BoolArray:
        """[tokens] True where the token is learned from."""
        if self.mask is not None:
            return self.mask
        return np.full(len(self.ids), self.source == "sampled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One append-only token sequence: what the policy saw and wrote, in order."""

    segments: tuple[Segment, ...] = ()

    @property
    def ids(self) -> IntArray:
        """[T] all token ids."""
        return _concatenate([s.ids for s in self.segments], np.int32)

    @property
    def loss_mask(self) -> BoolArray:
        """[T] True where the token is learned from."""
        return _concatenate([s.loss_mask for s in self.segments], np.bool_)

    @property
    def sampled_mask(self) -> BoolArray:
        """[T] True where the policy sampled the token."""
        return _concatenate([np.full(len(s.ids), s.source == "sampled") for s in self.segments], np.bool_)

    @property
    def logprobs(self) -> FloatArray:
        """[T] behaviour log-probabilities, 0 where rendered."""
        parts = [np.zeros(len(s.ids), np.float32) if s.logprobs is None else s.logprobs for s in self.segments]
        return _concatenate(parts, np.float32)

    @property
    def images(self) -> tuple[str, ...]:
        """Hashes of the pictures whose `media_pad` ids stand in the row, in order."""
        return tuple(image for s in self.segments for image in s.images)

    @property
    def versions(self) -> IntArray:
        """[T] policy versions, −1 where rendered."""
        parts = [np.full(len(s.ids), -1 if s.policy_version is None else s.policy_version) for s in self.segments]
        return _concatenate(parts, np.int32)

    def __len__(self) -> int:
        return sum(len(s.ids) for s in self.segments)


def append(row: Row, *segments: Segment) -> Row:
    """The one way a row grows: `segments` after what stands there; empty ones that state nothing are left out."""
    kept = tuple(s for s in segments if len(s.ids) or s.finish_reason is not None)
    return replace(row, segments=row.segments + kept)


def _concatenate(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One of the N·K places of a rollout: which sample of which prompt runs there."""

    task: Task
    effort: Effort
    group: str
    """Identity of the prompt's group; its K slots share it."""
    index: int
    """0 … K−1 within the group."""
    seed: int
    """Seeds the sampling and the world's own randomness."""

    @property
    def id(self) -> str:
        return f"{self.group}/{self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One assistant message of a trajectory, parsed."""

    think: str
    response: str | None
    calls: tuple[Call, ...]
    observations: tuple[str, ...]
    """What each call returned, in call order, as the policy saw it."""
    pictures: tuple[tuple[str, ...], ...] = ()
    """Hashes of the pictures that stood before each of these texts; () where none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call, in the world's canonical names when it is to be executed, in the harness's when on the wire."""

    tool: str
    arguments: Mapping[str, Any]
    error: str | None = None
    """Why the call cannot be dispatched; the policy is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One finished attempt at a task."""

    id: str
    task: Task
    effort: Effort
    group: str
    seed: int
    rows: tuple[Row, ...]
    turns: tuple[Turn, ...]
    composition: Mapping[str, Any]
    """The harness composition it ran under."""
    stop: StopReason
    """Why it ended."""
    result: Result
    spend: int
    """T(y): thinking tokens for general tasks, all generated tokens otherwise."""
    resumes: int = 0
    """How often it was paused and resumed."""
    pictures: tuple[Picture, ...] = ()
    """Every picture that its rows show, each once, in the order of their hashes."""
    agents: tuple[Trajectory, ...] = ()
    """Of the sub-agents that it began, in order; one of call c of turn t has the id `ID@t.c/number`. Nothing is learned of
    them, and nobody judges them: their results are invalid."""

    def seen(self, turn: Turn, call: int) -> tuple[Picture, ...]:
        """The pictures that came of a call of a turn."""
        hashes = turn.pictures[call] if turn.pictures else ()
        return tuple(picture for hash in hashes for picture in self.pictures if picture.hash == hash)

    @property
    def composition_hash(self) -> str:
        """SHA-256 of the composition's sorted JSON: equal for equal harnesses."""
        return hash_of(self.composition)

    @property
    def valid(self) -> bool:
        """Whether anybody could judge it; an invalid one neither trains nor counts."""
        return self.result.status != "invalid"

    @property
    def passed(self) -> bool:
        return self.result.status == "pass"

    @property
    def new_tokens(self) -> int:
        """Tokens the policy sampled over all rows, its sub-agents' among them."""
        return sum(int(row.sampled_mask.sum()) for row in self.rows) + sum(agent.new_tokens for agent in self.agents)

    def begun_by(self, turn: int, call: int) -> tuple[Trajectory, ...]:
        """The sub-agents that a call began."""
        return tuple(agent for agent in self.agents if agent.id.startswith(f"{self.id}@{turn}.{call}/"))


def hash_of(composition: Mapping[str, Any]) -> str:
    """SHA-256 of sorted JSON, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(composition, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All K trajectories of one prompt at one effort."""

    id: str
    task: Task
    effort: Effort
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One row ready for the loss: token-aligned streams."""

    ids: IntArray
    """[T]"""
    mask: BoolArray
    """[T] True where the token counts in the loss."""
    streams: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    """Name → [T], e.g. `advantage`, `old_logprob`; undefined where mask is False."""
    task: str = ""
    """Id of the task it came from."""
    pictures: tuple[Picture, ...] = ()
    """One for each `media_pad` id, in order; each id stands for the whole picture until a batch is made."""

    def __post_init__(self) -> None:
        assert len(self.ids) == len(self.mask)
        assert all(len(stream) == len(self.ids) for stream in self.streams.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples packed end to end; documents never see each other, branches their trunk only."""

    ids: IntArray
    """[T] over all documents."""
    mask: BoolArray
    """[T]"""
    layout: DocLayout
    streams: Mapping[str, FloatArray] = field(default_factory=dict[str, FloatArray])
    pictures: tuple[Picture, ...] = ()
    """Over all documents, in order; each has as many `media_pad` ids as the model makes tokens of it."""

    @staticmethod
    def pack(samples: Sequence[Sample], trunks: Sequence[int] | None = None) -> Batch:
        """Concatenate samples; all must carry the same streams, and pictures must be expanded already.

        `trunks` says what the last ones go on from, as `DocLayout.of` has it.
        """
        assert samples, "a batch needs at least one sample"
        names = samples[0].streams.keys()
        assert all(s.streams.keys() == names for s in samples)
        return Batch(
            ids=np.concatenate([s.ids for s in samples]).astype(np.int32, copy=False),
            mask=np.concatenate([s.mask for s in samples]),
            layout=DocLayout.of([len(s.ids) for s in samples], trunks),
            streams={name: np.concatenate([s.streams[name] for s in samples]) for name in names},
            pictures=tuple(picture for s in samples for picture in s.pictures),
        )

    @staticmethod
    def blank(streams: Iterable[str]) -> Batch:
        """A few tokens that are not learned from."""
        nothing = {name: np.zeros(4, np.float32) for name in streams}
        return Batch.pack([Sample(ids=np.zeros(4, np.int32), mask=np.zeros(4, np.bool_), streams=nothing)])
