"""Facts about people, as documents state them and notes repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from ninefold.agent.env.names import GOODS, NAMES, PLACES


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One thing that can be said of a person."""

    now: str
    """Between the person and the value, as it is."""
    once: str
    """The same of the past, which answers no question."""
    question: tuple[str, str]
    """Around the person."""
    values: tuple[str, ...]


RELATIONS: Mapping[str, Relation] = {
    "place": Relation(now=" is in ", once=" was in ", question=("Where is ", " ?"), values=PLACES),
    "good": Relation(now=" has ", once=" had ", question=("What does ", " have ?"), values=GOODS),
    "boss": Relation(now=" works for ", once=" worked for ", question=("Whom does ", " work for ?"), values=NAMES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Somebody stands in a relation to something."""

    person: str
    relation: str
    """A key of RELATIONS."""
    value: str

    @property
    def sentence(self) -> str:
        """Without a full stop, as a note claims it."""
        return self.person + RELATIONS[self.relation].now + self.value

    @property
    def past(self) -> str:
        """The same of the past."""
        return self.person + RELATIONS[self.relation].once + self.value

    @property
    def question(self) -> str:
        """What this fact answers."""
        before, after = RELATIONS[self.relation].question
        return before + self.person + after


def draw_fact(rng: Random, person: str, relation: str, *, unlike: tuple[str, ...] = ()) -> Fact:
    """A random value, never the person and none of `unlike`."""
    values = [value for value in RELATIONS[relation].values if value != person and value not in unlike]
    return Fact(person=person, relation=relation, value=rng.choice(values))


def sentences(text: str) -> list[str]:
    """Sentences of a document of facts, each of which ends with " ."."""
    return [sentence.strip() for sentence in text.split(" .") if sentence.strip()]
