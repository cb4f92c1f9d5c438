"""What is asked: a thing is to be put into a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

BOXES = ("red", "green", "blue", "white")
THINGS = ("tea", "jam", "rice", "soup", "lamp", "coat", "ring", "kite")
PUT, INTO, WHERE, END = "Put the ", " into the box ", " where the ", " is ."


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """Boxes, and a thing that is to be moved."""

    places: Mapping[str, str]
    """Thing → the box that it lies in at first."""
    thing: str
    neighbour: str
    """A thing that already lies in the right box."""
    told: bool
    """Whether the instruction names the box, or the neighbour, which must be looked for."""

    @property
    def box(self) -> str:
        """Where the thing belongs."""
        return self.places[self.neighbour]

    @property
    def text(self) -> str:
        """The instruction."""
        if self.told:
            return f"{PUT}{self.thing}{INTO}{self.box} ."
        return f"{PUT}{self.thing}{WHERE}{self.neighbour}{END}"

    @property
    def key(self) -> str:
        """Content key: what makes two tasks the same."""
        return f"example/{sorted(self.places.items())}/{self.thing}/{self.neighbour}"

    @staticmethod
    def draw(rng: Random, level: int) -> Errand:
        """The thing never lies where it belongs."""
        places = {thing: rng.choice(BOXES) for thing in THINGS}
        thing, neighbour = rng.sample(THINGS, 2)
        if places[thing] == places[neighbour]:
            places[thing] = rng.choice([box for box in BOXES if box != places[neighbour]])
        return Errand(places=places, thing=thing, neighbour=neighbour, told=level == 0)
