"""Levels 0 and 1: who is the boss, or the boss of the boss, of somebody; perhaps to be sent by chat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from ninefold.agent.env.assistant.criteria import Criterion
from ninefold.agent.env.assistant.desk import Entry
from ninefold.agent.env.names import NAMES

USER = "user"
"""Whom `send` reaches."""

_SENT = 0.35
"""Share of the questions whose answer is to be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """One way to ask."""

    once: str
    """Before the name, one hop."""
    twice: str
    """Before the name, two hops."""
    end: str
    send: str
    """Appended where the answer is to be sent."""


WORDINGS: tuple[Wording, ...] = (
    Wording(once="Who is the boss of ", twice="Who is the boss of the boss of ", end=" ?", send=" Send it."),
    Wording(once="Find the boss of ", twice="Find the boss of the boss of ", end=" .", send=" Report it."),
    Wording(once="I need the manager of ", twice="I need the manager of the manager of ", end=" .", send=" Pass it on."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the staff that it is about."""

    staff: Mapping[str, str]
    """Person → boss."""
    person: str
    hops: int
    """1 asks for the boss, 2 for the boss of the boss."""
    sent: bool

    @property
    def key(self) -> str:
        """Content key: the whole chart and what is asked about it."""
        return f"assistant/{self.person}/{self.hops}/{self.sent}/{','.join(self.staff.values())}"

    @property
    def answer(self) -> str:
        name = self.person
        for _ in range(self.hops):
            name = self.staff[name]
        return name

    @property
    def criterion(self) -> Criterion:
        if self.sent:
            return Criterion(event=None, entry=Entry(store="chat", day=1, to=USER, text=self.answer))
        return Criterion(event=None, answer=self.answer)

    def ask(self, wording: Wording) -> str:
        before = wording.once if self.hops == 1 else wording.twice
        return before + self.person + wording.end + (wording.send if self.sent else "")

    @staticmethod
    def draw(rng: Random, hops: int) -> Question:
        """Nobody is their own boss, and the answer is never the person asked about."""
        sent = rng.random() < _SENT
        while True:
            staff = random_staff(rng)
            question = Question(staff=staff, person=rng.choice(NAMES), hops=hops, sent=sent)
            if question.answer != question.person:
                return question


def random_staff(rng: Random) -> dict[str, str]:
    """A boss for everybody, somebody else."""
    return {name: rng.choice([other for other in NAMES if other != name]) for name in NAMES}
