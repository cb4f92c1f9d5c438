"""Who works in an office, and with whom it deals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from random import Random

FIRST = tuple("Ada Ben Cleo Dora Emil Flora Gino Hana Ivo Jana Karl Lena Marco Nora Otto Paula Rosa Sven".split())  # noqa: SIM905
LAST = tuple("Adler Berg Conti Duval Ekman Gruber Holt Ibsen Keller Lund Moser Novak Petri Rossi Toth Vogel".split())  # noqa: SIM905
TEAMS = tuple(
    "Harbour Meadow Summit River Forest Island Valley Coast Orchard Bridge Garden Market Tower Canal Mill Lake".split()  # noqa: SIM905
)
FIRMS = tuple(
    f"{first}{second}"
    for first, second in product(
        "Alder Boreal Cobalt Delta Ember Fjord Granite Helio Indigo Juniper Krypton Lumen".split(),  # noqa: SIM905
        [" Foods", " Lines", " Works", " Labs", " Trade", " Glass", " Rail", " Power", " Print", " Mills"],
    )
)
PROJECTS = tuple(
    "Heron Falcon Badger Otter Lynx Marten Osprey Curlew Plover Dunlin Teal Wigeon Gannet Puffin Kestrel Merlin".split()  # noqa: SIM905
)

HEADS = {"hr": "head of HR", "legal": "head of legal", "finance": "controller"}
"""Office → the title of who runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One line of the directory."""

    name: str
    title: str
    team: str
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Everybody, as of the first morning."""

    people: tuple[Person, ...]
    """The office's heads first, then the leads of the teams, then everybody else."""
    firms: tuple[str, ...]

    @property
    def key(self) -> str:
        """Content key: everything in a week is drawn from the cast."""
        return "office/" + json.dumps([[p.name, p.title, p.team, p.room] for p in self.people] + [*self.firms])

    @staticmethod
    def draw(rng: Random, people: int, firms: int) -> Cast:
        """A team for every five or so people."""
        names = [f"{first} {last}" for first, last in rng.sample(list(product(FIRST, LAST)), people)]
        rooms = rng.sample(range(100, 1000), people)
        teams = rng.sample(TEAMS, max(3, min(len(TEAMS), people // 5)))
        titles = [*HEADS.values(), *(f"lead of {team}" for team in teams)]
        titles += ["clerk"] * (people - len(titles))
        belongs = ["Centre"] * len(HEADS) + [*teams]
        belongs += [rng.choice(teams) for _ in range(people - len(belongs))]
        found = [
            Person(name=name, title=title, team=team, room=room)
            for name, title, team, room in zip(names, titles, belongs, rooms)
        ]
        return Cast(people=tuple(found), firms=tuple(rng.sample(FIRMS, firms)))
