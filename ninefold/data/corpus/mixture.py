"""The corpus as token windows: held-out part set aside, domains mixed by stated rates, every batch a function of its step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ninefold.chat.xtml import Xtml
from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.core.events import Emit
from ninefold.core.picture import Picture
from ninefold.core.seeds import rng_of, split_of
from ninefold.core.types import IntArray, Sample
from ninefold.data.corpus.document import TEXT_DOMAINS, Document, Sources, TextDomain, read, versions
from ninefold.data.corpus.filters import Contamination, Rules, clean
from ninefold.data.corpus.pairs import Pairs, pair
from ninefold.data.corpus.skills import Skills, page

Encode = Callable[[str], IntArray]
Generated = Literal["skills", "wire", "pictures"]


class CorpusConfig(Config):
    """What is read, and how much of a batch's tokens each domain gets."""

    sources: Sources = Sources()
    rules: Rules = Rules()
    skills: Skills = Skills()
    pairs: Pairs = Pairs()
    max_characters: int = 1_000_000
    """Text kept per domain, cut at whole documents."""
    rates: dict[TextDomain | Generated, Annotated[float, Field(ge=0)]] = {
        "code": 0.025,
        "web": 0.025,
        "mathematics": 0.025,
        "knowledge": 0.025,
        "skills": 0.75,
        "wire": 0.15,
        "pictures": 0.12,
    }
    """Domain → relative share of tokens; `skills` are generated worksheets, `wire` conversations on set-aside content,
    `pictures` pairs of a picture and its text, for a model that reads pictures."""

    @model_validator(mode="after")
    def _some_text(self) -> CorpusConfig:
        if not any(self.rates.values()):
            raise ValueError("rates must give at least one domain a share above 0")
        return self


def collect(config: CorpusConfig, task_texts: Iterable[str], emit: Emit) -> list[Document]:
    """Read, filter, deduplicate, decontaminate and cap; reports what was dropped and why."""
    dropped: Counter[str] = Counter()
    size: Counter[str] = Counter()
    kept: list[Document] = []
    sources = list(read(config.sources))
    rng_of("corpus order").shuffle(sources)

    def wanted() -> Iterable[Document]:
        for document in sources:
            if size[document.domain] < config.max_characters:
                yield document

    for document in clean(wanted(), config.rules, Contamination(task_texts), dropped):
        size[document.domain] += len(document.text)
        kept.append(document)
    emit("corpus", characters=dict(size), documents=dict(Counter(d.domain for d in kept)), dropped=dict(dropped))
    return kept


def manifest(config: CorpusConfig, documents: Sequence[Document]) -> dict[str, Any]:
    """What the corpus was made of: package versions and a hash per document."""
    return {
        "packages": versions(config.sources),
        "documents": {d.id: {"domain": d.domain, "sha256": d.hash, "split": _split(d)} for d in documents},
    }


def encoded(documents: Sequence[Document], encode: Encode) -> list[Sample]:
    """Documents as token ids, each labelled `domain/split`."""
    pairs = [(d, encode(d.text)) for d in documents]
    return [Sample(ids=ids, mask=np.ones(len(ids), np.bool_), task=f"{d.domain}/{_split(d)}") for d, ids in pairs if len(ids)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Draws training windows. Any batch can be made again from its step alone, so a resumed run needs no cursor."""

    config: CorpusConfig
    encode: Encode
    train: Mapping[str, IntArray]
    """Text domain → all training tokens, documents end to end."""
    starts: Mapping[str, IntArray]
    """Text domain → first token of each document in `train`, and the end."""
    heldout: Mapping[str, list[IntArray]]
    """Text domain → token arrays of held-out documents."""
    wire: Sequence[Sample]
    """Conversations in wire format."""
    chat: Xtml | None = None
    """Knows what stands for a picture; None for a model that reads none, which gets none."""

    @staticmethod
    def of(
        config: CorpusConfig, documents: Sequence[Sample], wire: Sequence[Sample], encode: Encode, chat: Xtml | None = None
    ) -> Mixture:
        """From encoded documents as `encoded` makes them. Raises UserError where a domain has a rate but no text."""
        train = {n: [s.ids for s in documents if s.task == f"{n}/train"] for n in TEXT_DOMAINS}
        for name in TEXT_DOMAINS:
            if config.rates.get(name) and not train[name]:
                raise UserError(
                    f"the corpus has no text of domain {name}: add sources of it (corpus.sources), or set corpus.rates.{name}=0"
                )
        return Mixture(
            config=config,
            encode=encode,
            train={n: np.concatenate([np.zeros(0, np.int32), *parts]) for n, parts in train.items()},
            starts={n: np.cumsum([0, *map(len, parts)]) for n, parts in train.items()},
            heldout={n: [s.ids for s in documents if s.task == f"{n}/heldout"] for n in TEXT_DOMAINS},
            wire=wire,
            chat=chat,
        )

    def batch(self, step: int, tokens: int, length: int, *names: object) -> list[Sample]:
        """About `tokens` tokens in windows of at most `length`, fixed by step and `names` (e.g. seed and rank)."""
        samples: list[Sample] = []
        count = 0
        domains, weights = self._weights(length)
        rng = rng_of("mixture", step, *names)
        while count < tokens:
            domain = rng.choices(domains, weights)[0]
            samples.append(self._draw(domain, length, rng.getrandbits(60)))
            count += len(samples[-1].ids)
        return samples

    def _weights(self, length: int) -> tuple[list[str], list[float]]:
        """Domains and how often to draw each, so that *tokens* follow the rates: short documents are drawn more often."""
        lacking = {name for name, there in (("wire", self.wire), ("pictures", self.chat)) if not there}
        rates = {n: r for n, r in self.config.rates.items() if r > 0 and n not in lacking}
        typical = {n: float(length) for n in rates}
        if "wire" in rates:
            typical["wire"] = float(np.mean([min(len(w.ids), length) for w in self.wire]))
        return list(rates), [rate / typical[n] for n, rate in rates.items()]

    def _draw(self, domain: str, length: int, seed: int) -> Sample:
        if domain == "wire":
            wire = self.wire[seed % len(self.wire)]
            ids = wire.ids[:length]
            shown = int((ids == self.chat.placeholder).sum()) if self.chat else 0
            return _learned(domain, ids, wire.pictures[:shown])
        if domain == "pictures":
            return self._worksheet(length, seed)
        if domain == "skills":
            return _learned(domain, self.encode(page(self.config.skills, 2 * length, seed))[:length])
        return _learned(domain, self._window(domain, length, seed))

    def _worksheet(self, length: int, seed: int) -> Sample:
        """Pictures, each before its text: as many as fit, and one at least."""
        assert self.chat is not None
        parts: list[IntArray] = []
        pictures: list[Picture] = []
        while True:
            made = pair(self.config.pairs, seed, len(pictures))
            new = [self.chat.picture(made.picture), self.encode(made.text)]
            if parts and sum(map(len, parts + new)) > length:
                return _learned("pictures", np.concatenate(parts), tuple(pictures))
            parts += new
            pictures.append(made.picture)

    def _window(self, domain: str, length: int, seed: int) -> IntArray:
        starts = self.starts[domain]
        rng = rng_of(domain, seed)
        at = rng.randrange(int(starts[-1]))
        document = int(np.searchsorted(starts, at, side="right")) - 1
        first = max(int(starts[document]), min(at, int(starts[document + 1]) - length))
        return self.train[domain][first : min(first + length, int(starts[document + 1]))]


def _learned(domain: str, ids: IntArray, pictures: tuple[Picture, ...] = ()) -> Sample:
    """A window of which every token is learned from, pictures excepted."""
    return Sample(ids=ids, mask=np.ones(len(ids), np.bool_), task=domain, pictures=pictures)


def heldout_samples(documents: Sequence[IntArray], length: int, tokens: int) -> list[Sample]:
    """The first `tokens` tokens of held-out documents, in windows of at most `length`."""
    samples: list[Sample] = []
    count = 0
    for ids in documents:
        for i in range(0, len(ids) - 1, length):
            window = ids[i : i + length]
            if count >= tokens:
                return samples
            samples.append(Sample(ids=window, mask=np.ones(len(window), np.bool_)))
            count += len(window)
    return samples


def _split(document: Document) -> str:
    return "heldout" if split_of(document.hash) == "heldout" else "train"
