"""What is to be found out, and the documents to find it in."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ninefold.agent.env.names import NAMES
from ninefold.agent.env.research.facts import RELATIONS, Fact, draw_fact, sentences
from ninefold.agent.env.search.library import library
from ninefold.index import Document

CORRECTIONS = "Corrections"
"""First sentence of a document that overrules the others."""

_REAL = 8
"""Documents of real text among the generated ones."""
_REAL_CHARACTERS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How hard an assignment is."""

    facts: int
    """Facts asked for, a chain counting as one."""
    chained: bool
    """Whether the first question goes over somebody's boss."""
    per_document: int
    """Sentences of one document."""
    outdated: bool
    """Whether past facts lie about."""
    corrected: bool
    """Whether a later document overrules what is asked for."""
    real: bool
    """Whether real text lies about."""


LEVELS: tuple[Level, ...] = (
    Level(facts=1, chained=False, per_document=1, outdated=False, corrected=False, real=False),
    Level(facts=2, chained=False, per_document=3, outdated=False, corrected=False, real=True),
    Level(facts=1, chained=True, per_document=3, outdated=True, corrected=False, real=True),
    Level(facts=3, chained=True, per_document=3, outdated=True, corrected=True, real=True),
)


Truth = dict[tuple[str, str], Fact]
"""(Person, relation) → what holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a person, or of that person's boss."""

    person: str
    relation: str
    chained: bool

    @property
    def text(self) -> str:
        before, after = RELATIONS[self.relation].question
        return before + ("the boss of " if self.chained else "") + self.person + after

    def facts(self, truth: Truth) -> list[Fact]:
        """What answers it: one fact, or the boss and a fact about the boss."""
        if not self.chained:
            return [truth[self.person, self.relation]]
        boss = truth[self.person, "boss"]
        return [boss, truth[boss.value, self.relation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Questions, the facts that answer them, and the documents."""

    questions: tuple[Question, ...]
    claims: tuple[tuple[Fact, str], ...]
    """Each fact that the note must state, and the id of the only document that does."""
    documents: tuple[Document, ...]

    @property
    def key(self) -> str:
        """Content key: the facts to be found."""
        return "research/" + ",".join(fact.sentence for fact, _ in self.claims)

    @staticmethod
    def draw(rng: Random, level: int) -> Assignment:
        shape = LEVELS[level]
        truth = {(name, relation): draw_fact(rng, name, relation) for name in NAMES for relation in RELATIONS}
        questions = _questions(rng, shape)
        wanted = _wanted(questions, truth)
        stated = list(truth.values()) if level else [*wanted, *rng.sample([f for f in truth.values() if f not in wanted], 7)]
        texts = [fact.sentence for fact in stated]
        if shape.outdated:
            texts += [draw_fact(rng, f.person, f.relation, unlike=(f.value,)).past for f in stated]
        documents = _documents(rng, texts, shape.per_document)
        if shape.corrected:
            # Not the boss at the head of the chain, whose end would move with it.
            wrong = rng.choice(wanted[1:])
            right = draw_fact(rng, wrong.person, wrong.relation, unlike=(wrong.value,))
            wanted = [right if fact == wrong else fact for fact in wanted]
            documents.append(_text([CORRECTIONS, right.sentence]))
        numbered = _number(rng, documents, shape)
        claims = tuple((fact, next(d.id for d in numbered if fact.sentence in sentences(d.text))) for fact in wanted)
        return Assignment(questions=tuple(questions), claims=claims, documents=numbered)


def _questions(rng: Random, shape: Level) -> list[Question]:
    people = rng.sample(NAMES, shape.facts)
    questions = [Question(person=name, relation=rng.choice(list(RELATIONS)), chained=False) for name in people]
    if shape.chained:
        questions[0] = Question(person=people[0], relation=rng.choice(["place", "good"]), chained=True)
    return questions


def _wanted(questions: list[Question], truth: Truth) -> list[Fact]:
    return list(dict.fromkeys(fact for question in questions for fact in question.facts(truth)))


def _documents(rng: Random, texts: list[str], per_document: int) -> list[str]:
    rng.shuffle(texts)
    return [_text(texts[i : i + per_document]) for i in range(0, len(texts), per_document)]


def _text(parts: list[str]) -> str:
    return " ".join(f"{part} ." for part in parts)


def _number(rng: Random, texts: list[str], shape: Level) -> tuple[Document, ...]:
    """All documents, real text among them, under ids in random order; a title is the first sentence."""
    titled = [(text.split(" .", 1)[0], text) for text in texts]
    if shape.real:
        entries = rng.sample(list(library().entries.values()), _REAL)
        titled += [(entry.title, entry.prose[:_REAL_CHARACTERS]) for entry in entries]
    rng.shuffle(titled)
    return tuple(Document(id=str(number), title=title, text=text) for number, (title, text) in enumerate(titled, 1))
